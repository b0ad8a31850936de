// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/pipeline/owner_table.h"

#include <gtest/gtest.h>

#include <array>
#include <map>
#include <thread>
#include <vector>

#include "switch/base/rng.h"

namespace weft::pipeline {
namespace {

using wire::Qpn;

constexpr std::uint64_t kPair = 0x0a0000010a000002;

TEST(OwnerTable, AnUnknownQpGoesByTheHash) {
  const OwnerTable table;
  EXPECT_EQ(table.find(kPair, Qpn(17), 3), 3);
  EXPECT_EQ(table.find(0, Qpn(0), 2), 2);
}

TEST(OwnerTable, APublishedQpGoesToItsWorker) {
  OwnerTable table;
  EXPECT_TRUE(table.publish(kPair, Qpn(17), 5));
  EXPECT_EQ(table.find(kPair, Qpn(17), 3), 5);
  EXPECT_EQ(table.find(kPair, Qpn(18), 3), 3);
  EXPECT_EQ(table.find(kPair + 1, Qpn(17), 3), 3);
}

TEST(OwnerTable, WorkerZeroCanBePublished) {
  OwnerTable table;
  EXPECT_TRUE(table.publish(kPair, Qpn(17), 0));
  EXPECT_EQ(table.find(kPair, Qpn(17), 3), 0);
}

TEST(OwnerTable, PublishingAgainMovesTheQpAndWithdrawingForgetsIt) {
  OwnerTable table;
  table.publish(kPair, Qpn(17), 5);
  table.publish(kPair, Qpn(17), 6);
  EXPECT_EQ(table.find(kPair, Qpn(17), 3), 6);
  table.withdraw(kPair, Qpn(17), 6);
  EXPECT_EQ(table.find(kPair, Qpn(17), 3), 3);
  table.withdraw(kPair, Qpn(17), 6);
}

TEST(OwnerTable, AWorkerCannotWithdrawAQpThatWasPublishedForAnotherOneMeanwhile) {
  OwnerTable table;
  table.publish(kPair, Qpn(17), 6);
  table.withdraw(kPair, Qpn(17), 5);
  EXPECT_EQ(table.find(kPair, Qpn(17), 3), 6);
}

TEST(OwnerTable, AgreesWithAMapUnderRandomOperations) {
  constexpr std::uint64_t kSeed = 42;
  SCOPED_TRACE(kSeed);
  OwnerTable table;
  std::map<std::pair<std::uint64_t, std::uint32_t>, std::uint16_t> model;
  Rng rng(kSeed);
  for (int i = 0; i < 200'000; ++i) {
    const std::uint64_t pair = kPair + rng.below(64);
    const auto qp = static_cast<std::uint32_t>(rng.below(256));
    switch (rng.below(3)) {
      case 0: {
        const auto worker = static_cast<std::uint16_t>(rng.below(4));
        ASSERT_TRUE(table.publish(pair, Qpn(qp), worker));
        model[{pair, qp}] = worker;
        break;
      }
      case 1: {
        const auto worker = static_cast<std::uint16_t>(rng.below(2));
        table.withdraw(pair, Qpn(qp), worker);
        const auto known = model.find({pair, qp});
        if (known != model.end() && known->second == worker) model.erase(known);
        break;
      }
      default: {
        const auto known = model.find({pair, qp});
        ASSERT_EQ(table.find(pair, Qpn(qp), 99), known == model.end() ? 99 : known->second);
      }
    }
  }
}

TEST(OwnerTable, AFullTableStoresNoMoreAndKeepsWhatItHas) {
  OwnerTable table;
  std::vector<std::uint32_t> stored;
  std::uint32_t refused = 0;
  for (std::uint32_t qp = 0; qp < 2 * OwnerTable::kSlots; ++qp) {
    if (table.publish(kPair, Qpn(qp), 7)) {
      stored.push_back(qp);
    } else {
      ++refused;
    }
  }
  EXPECT_GE(refused, OwnerTable::kSlots);
  EXPECT_GT(stored.size(), OwnerTable::kSlots * 9 / 10);
  for (const std::uint32_t qp : stored) ASSERT_EQ(table.find(kPair, Qpn(qp), 3), 7);
}

TEST(OwnerTable, UpToTwoThirdsItStoresEveryQp) {
  OwnerTable table;
  for (std::uint32_t qp = 0; qp < OwnerTable::kSlots * 2 / 3; ++qp) {
    ASSERT_TRUE(table.publish(kPair + qp % 7, Qpn(qp), 7)) << qp;
  }
}

TEST(OwnerTable, AReaderSeesOnlyWorkersThatWerePublishedForTheQp) {
  OwnerTable table;
  constexpr int kRounds = 200'000;
  std::thread writer([&] {
    Rng rng(1);
    for (int i = 0; i < kRounds; ++i) {
      const auto qp = static_cast<std::uint32_t>(rng.below(64));
      if (rng.below(4) == 0) {
        table.withdraw(kPair, Qpn(qp), static_cast<std::uint16_t>(qp * 2 + rng.below(2)));
      } else {
        table.publish(kPair, Qpn(qp), static_cast<std::uint16_t>(qp * 2 + rng.below(2)));
      }
    }
  });
  Rng rng(2);
  bool right = true;
  for (int i = 0; i < kRounds; ++i) {
    const auto qp = static_cast<std::uint32_t>(rng.below(64));
    const std::uint16_t found = table.find(kPair, Qpn(qp), 999);
    right &= found == 999 || found / 2 == qp;
  }
  writer.join();
  EXPECT_TRUE(right);
}

TEST(OwnerTable, FlowsOfAGroupMoveTogether) {
  OwnerTable table;
  EXPECT_TRUE(table.empty());
  const auto group = table.make_group(1);
  const auto other = table.make_group(0);
  ASSERT_TRUE(group && other);
  EXPECT_NE(*group, *other);
  for (std::uint32_t qp = 1; qp <= 3; ++qp) EXPECT_TRUE(table.bind(kPair + qp, Qpn(qp), *group));
  EXPECT_FALSE(table.empty());
  EXPECT_TRUE(table.bind(kPair, Qpn(9), *other));
  for (std::uint32_t qp = 1; qp <= 3; ++qp) EXPECT_EQ(table.find(kPair + qp, Qpn(qp), 7), 1);
  table.move(*group, 2);
  EXPECT_EQ(table.worker(*group), 2);
  for (std::uint32_t qp = 1; qp <= 3; ++qp) EXPECT_EQ(table.find(kPair + qp, Qpn(qp), 7), 2);
  EXPECT_EQ(table.find(kPair, Qpn(9), 7), 0);
}

TEST(OwnerTable, AFlowLeavesItsGroupOnlyWithTheRightName) {
  OwnerTable table;
  const auto group = table.make_group(1);
  const auto other = table.make_group(2);
  table.bind(kPair, Qpn(1), *group);
  table.unbind(kPair, Qpn(1), *other);
  table.withdraw(kPair, Qpn(1), 1);
  EXPECT_EQ(table.find(kPair, Qpn(1), 7), 1);
  table.bind(kPair, Qpn(1), *other);
  EXPECT_EQ(table.find(kPair, Qpn(1), 7), 2);
  table.unbind(kPair, Qpn(1), *other);
  EXPECT_EQ(table.find(kPair, Qpn(1), 7), 7);
}

TEST(OwnerTable, AGroupThatIsRemovedOwnsNothingAndItsNumberIsUsedAgain) {
  OwnerTable table;
  const auto group = table.make_group(1);
  table.bind(kPair, Qpn(1), *group);
  table.remove_group(*group);
  EXPECT_EQ(table.find(kPair, Qpn(1), 7), 7);
  table.unbind(kPair, Qpn(1), *group);
  EXPECT_EQ(table.make_group(3), group);
  EXPECT_EQ(table.find(kPair, Qpn(1), 7), 7) << "the flow was unbound";
}

TEST(OwnerTable, ThereAreSoManyGroupsAndNoMore) {
  OwnerTable table;
  for (std::uint16_t i = 0; i < OwnerTable::kMaxGroups; ++i) ASSERT_TRUE(table.make_group(0)) << i;
  EXPECT_FALSE(table.make_group(0));
  table.remove_group(OwnerGroup{77});
  EXPECT_EQ(table.make_group(0), OwnerGroup{77});
}

// Once a reader has seen one flow of the group at the new worker, it finds all of them there.
TEST(OwnerTable, AMoveIsSeenOfAllFlowsAtOnce) {
  OwnerTable table;
  const auto group = table.make_group(0);
  constexpr std::uint32_t kFlows = 8;
  for (std::uint32_t qp = 0; qp < kFlows; ++qp) table.bind(kPair + qp, Qpn(qp), *group);
  constexpr std::uint16_t kMoves = 4000;
  std::thread mover([&] {
    for (std::uint16_t worker = 1; worker <= kMoves; ++worker) table.move(*group, worker);
  });
  std::uint16_t seen = 0;
  bool right = true;
  while (seen != kMoves) {
    for (std::uint32_t qp = 0; qp < kFlows; ++qp) {
      const std::uint16_t worker = table.find(kPair + qp, Qpn(qp), 9999);
      right &= worker >= seen && worker <= kMoves;
      seen = worker;
    }
    if (!right) break;
  }
  mover.join();
  EXPECT_TRUE(right);
}

}  // namespace
}  // namespace weft::pipeline
