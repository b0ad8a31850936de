// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/pipeline/steer.h"

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

TEST(SteerTable, AnUnknownQpGoesByTheHash) {
  const SteerTable table;
  EXPECT_EQ(table.find(kPair, Qpn(17), 3), 3);
  EXPECT_EQ(table.find(0, Qpn(0), 2), 2);
}

TEST(SteerTable, APublishedQpGoesToItsWorker) {
  SteerTable table;
  EXPECT_TRUE(table.publish(kPair, Qpn(17), 5));
  EXPECT_EQ(table.find(kPair, Qpn(17), 3), 5);
  EXPECT_EQ(table.find(kPair, Qpn(18), 3), 3);
  EXPECT_EQ(table.find(kPair + 1, Qpn(17), 3), 3);
}

TEST(SteerTable, WorkerZeroCanBePublished) {
  SteerTable table;
  EXPECT_TRUE(table.publish(kPair, Qpn(17), 0));
  EXPECT_EQ(table.find(kPair, Qpn(17), 3), 0);
}

TEST(SteerTable, PublishingAgainMovesTheQpAndWithdrawingForgetsIt) {
  SteerTable table;
  table.publish(kPair, Qpn(17), 5);
  table.publish(kPair, Qpn(17), 6);
  EXPECT_EQ(table.find(kPair, Qpn(17), 3), 6);
  table.withdraw(kPair, Qpn(17), 6);
  EXPECT_EQ(table.find(kPair, Qpn(17), 3), 3);
  table.withdraw(kPair, Qpn(17), 6);
}

TEST(SteerTable, AWorkerCannotWithdrawAQpThatWasPublishedForAnotherOneMeanwhile) {
  SteerTable table;
  table.publish(kPair, Qpn(17), 6);
  table.withdraw(kPair, Qpn(17), 5);
  EXPECT_EQ(table.find(kPair, Qpn(17), 3), 6);
}

TEST(SteerTable, AgreesWithAMapUnderRandomOperations) {
  constexpr std::uint64_t kSeed = 42;
  SCOPED_TRACE(kSeed);
  SteerTable table;
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

TEST(SteerTable, AFullTableStoresNoMoreAndKeepsWhatItHas) {
  SteerTable table;
  std::vector<std::uint32_t> stored;
  std::uint32_t refused = 0;
  for (std::uint32_t qp = 0; qp < 2 * SteerTable::kSlots; ++qp) {
    if (table.publish(kPair, Qpn(qp), 7)) {
      stored.push_back(qp);
    } else {
      ++refused;
    }
  }
  EXPECT_GE(refused, SteerTable::kSlots);
  EXPECT_GT(stored.size(), SteerTable::kSlots * 9 / 10);
  for (const std::uint32_t qp : stored) ASSERT_EQ(table.find(kPair, Qpn(qp), 3), 7);
}

TEST(SteerTable, UpToTwoThirdsItStoresEveryQp) {
  SteerTable table;
  for (std::uint32_t qp = 0; qp < SteerTable::kSlots * 2 / 3; ++qp) {
    ASSERT_TRUE(table.publish(kPair + qp % 7, Qpn(qp), 7)) << qp;
  }
}

TEST(SteerTable, AReaderSeesOnlyWorkersThatWerePublishedForTheQp) {
  SteerTable table;
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

TEST(WorkerByHash, SpreadsEvenlyAndNeverNamesAWorkerThatIsNotThere) {
  for (const std::uint16_t workers : {1, 2, 3, 7, 16}) {
    std::vector<int> hits(workers, 0);
    Rng rng(workers);
    for (int i = 0; i < 16'000; ++i) ++hits.at(worker_by_hash(static_cast<std::uint32_t>(rng.next()), workers));
    EXPECT_LT(worker_by_hash(0xffffffff, workers), workers);
    EXPECT_EQ(worker_by_hash(0, workers), 0);
    for (const int n : hits) EXPECT_NEAR(n, 16'000 / workers, 600);
  }
}

}  // namespace
}  // namespace weft::pipeline
