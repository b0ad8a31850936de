// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/tables/neighbour_table.h"

#include <gtest/gtest.h>

#include <set>
#include <thread>

#include "switch/base/rng.h"
#include "switch/base/time.h"

namespace weft::tables {
namespace {

using pipeline::PortIndex;
using wire::IpAddress;
using wire::MacAddress;
using Learned = NeighbourTable::Learned;
using State = NeighbourState;

const MacAddress kMac = MacAddress::from_u64(0x02aabbccdd01);
const MacAddress kOther = MacAddress::from_u64(0x02aabbccdd02);
const NeighbourTimes kTimes{.reachable_ns = 30 * kSecond};

IpAddress ip(const char* text) {
  return *IpAddress::parse(text);
}

class NeighbourTableTest : public testing::TestWithParam<const char*> {
 protected:
  NeighbourTable::Index add(PortIndex port = 1) { return table_.find_or_add(port, ip(GetParam()), 0); }
  [[nodiscard]] State state(NeighbourTable::Index index) const { return table_.word(index).state(); }
  void quiesce() {
    domain_.quiescent(0);
    domain_.reclaim();
  }

  RcuDomain domain_{1};
  NeighbourTable table_{64, domain_};
};

INSTANTIATE_TEST_SUITE_P(Families, NeighbourTableTest, testing::Values("10.0.0.2", "2001:db8::2", "fe80::1"),
                         [](const auto& test) {
                           return std::string(test.index == 0 ? "v4" : test.index == 1 ? "v6" : "link_local");
                         });

TEST(NeighbourWord, KeepsTheMacAddressInTheOrderOfTheFrame) {
  const NeighbourWord word(kMac, State::reachable);
  EXPECT_EQ(word.mac(), kMac);
  EXPECT_EQ(word.mac_bytes() & 0xff, 0x02u);
  EXPECT_EQ(word.mac_bytes() >> 40, 0x01u);
  EXPECT_EQ(word.state(), State::reachable);
}

TEST(NeighbourWord, UsableAndSettledFollowFromTheState) {
  const auto with = [](State s) { return NeighbourWord(kMac, s); };
  for (const State s : {State::none, State::incomplete}) EXPECT_FALSE(with(s).usable());
  EXPECT_TRUE(with(State::stale).usable());
  EXPECT_FALSE(with(State::stale).settled());
  for (const State s : {State::probe, State::reachable, State::permanent}) EXPECT_TRUE(with(s).settled());
}

TEST_P(NeighbourTableTest, AnUnknownNeighbourIsNobodyAndHasNoState) {
  const auto index = table_.find(1, ip(GetParam()));
  EXPECT_EQ(index, table_.nobody());
  EXPECT_EQ(state(index), State::none);
}

TEST_P(NeighbourTableTest, EntriesOfDifferentPortsAreDifferent) {
  const auto a = add(1);
  const auto b = add(2);
  EXPECT_NE(a, b);
  EXPECT_EQ(table_.find(1, ip(GetParam())), a);
  EXPECT_EQ(table_.find(2, ip(GetParam())), b);
  EXPECT_EQ(add(1), a);
}

TEST_P(NeighbourTableTest, AConfirmedAnswerMakesItReachable) {
  const auto index = add();
  EXPECT_EQ(state(index), State::incomplete);
  const auto before = table_.generation();
  EXPECT_EQ(table_.learn(index, {.mac = kMac, .confirmed = true}, 1), Learned::resolved);
  EXPECT_EQ(state(index), State::reachable);
  EXPECT_EQ(table_.word(index).mac(), kMac);
  EXPECT_NE(table_.generation(), before);
}

TEST_P(NeighbourTableTest, AHintMakesItStaleAndANewerHintWithTheSameMacChangesNothing) {
  const auto index = add();
  EXPECT_EQ(table_.learn(index, {.mac = kMac}, 1), Learned::resolved);
  EXPECT_EQ(state(index), State::stale);
  EXPECT_EQ(table_.learn(index, {.mac = kMac, .confirmed = true}, 2), Learned::refreshed);
  EXPECT_EQ(table_.learn(index, {.mac = kMac}, 3), Learned::ignored);
  EXPECT_EQ(state(index), State::reachable);
}

TEST_P(NeighbourTableTest, AHintWithAnotherMacReplacesItAndIsStale) {
  const auto index = add();
  table_.learn(index, {.mac = kMac, .confirmed = true}, 1);
  EXPECT_EQ(table_.learn(index, {.mac = kOther}, 2), Learned::moved);
  EXPECT_EQ(table_.word(index).mac(), kOther);
  EXPECT_EQ(state(index), State::stale);
}

TEST_P(NeighbourTableTest, WithoutTheRightToReplaceAnotherMacOnlyCastsDoubt) {
  const auto index = add();
  table_.learn(index, {.mac = kMac, .confirmed = true}, 1);
  const NeighbourTable::Advertisement other{.mac = kOther, .confirmed = true, .may_replace = false};
  EXPECT_EQ(table_.learn(index, other, 2), Learned::refreshed);
  EXPECT_EQ(table_.word(index), NeighbourWord(kMac, State::stale));
  EXPECT_EQ(table_.learn(index, other, 3), Learned::ignored);
  EXPECT_EQ(table_.word(index), NeighbourWord(kMac, State::stale));
}

TEST_P(NeighbourTableTest, AnAnswerWithoutMacConfirmsAKnownOneOnly) {
  const auto index = add();
  EXPECT_EQ(table_.learn(index, {.confirmed = true}, 1), Learned::ignored);
  EXPECT_EQ(state(index), State::incomplete);
  table_.learn(index, {.mac = kMac}, 2);
  EXPECT_EQ(table_.learn(index, {.confirmed = true}, 3), Learned::refreshed);
  EXPECT_EQ(table_.word(index), NeighbourWord(kMac, State::reachable));
}

TEST_P(NeighbourTableTest, APermanentEntryNeitherLearnsNorAgesNorIsFlushed) {
  ASSERT_TRUE(table_.add_permanent(1, ip(GetParam()), kMac));
  const auto index = table_.find(1, ip(GetParam()));
  EXPECT_EQ(table_.learn(index, {.mac = kOther, .confirmed = true}, 1), Learned::ignored);
  table_.age(1'000'000 * kSecond, kTimes);
  table_.flush(1, 2);
  EXPECT_EQ(table_.word(index), NeighbourWord(kMac, State::permanent));
}

TEST_P(NeighbourTableTest, OneCallerBeginsTheProbeAndAnUnansweredOneForgetsTheMac) {
  const auto index = add();
  table_.learn(index, {.mac = kMac}, 1);
  EXPECT_TRUE(table_.begin_probe(index, 2));
  EXPECT_FALSE(table_.begin_probe(index, 2));
  EXPECT_EQ(table_.word(index), NeighbourWord(kMac, State::probe));
  table_.end_probe(index, 3);
  EXPECT_EQ(table_.word(index), NeighbourWord(MacAddress{}, State::incomplete));
}

TEST_P(NeighbourTableTest, AnAnsweredProbeIsNotEnded) {
  const auto index = add();
  table_.learn(index, {.mac = kMac}, 1);
  table_.begin_probe(index, 2);
  table_.learn(index, {.mac = kMac, .confirmed = true}, 3);
  table_.end_probe(index, 4);
  EXPECT_EQ(state(index), State::reachable);
}

TEST_P(NeighbourTableTest, StatesChangeExactlyWhenTheirTimeIsOver) {
  const auto index = add();
  table_.learn(index, {.mac = kMac, .confirmed = true}, kSecond);
  table_.age(31 * kSecond - 1, kTimes);
  EXPECT_EQ(state(index), State::reachable);
  table_.age(31 * kSecond, kTimes);
  EXPECT_EQ(state(index), State::stale);
  table_.age(91 * kSecond - 1, kTimes);
  EXPECT_EQ(state(index), State::stale);
  table_.age(91 * kSecond, kTimes);
  EXPECT_EQ(table_.find(1, ip(GetParam())), table_.nobody());
}

TEST_P(NeighbourTableTest, AnIncompleteEntryIsRemovedUnlessItIsKept) {
  const auto index = add();
  table_.age(9 * kSecond, kTimes);
  table_.keep(index, 9 * kSecond);
  table_.age(18 * kSecond, kTimes);
  EXPECT_EQ(state(index), State::incomplete);
  table_.age(19 * kSecond, kTimes);
  EXPECT_EQ(table_.find(1, ip(GetParam())), table_.nobody());
}

TEST_P(NeighbourTableTest, AProbeWhoseWorkerGaveUpTurnsStaleAgain) {
  const auto index = add();
  table_.learn(index, {.mac = kMac}, 0);
  table_.begin_probe(index, kSecond);
  table_.age(11 * kSecond, kTimes);
  EXPECT_EQ(table_.word(index), NeighbourWord(kMac, State::stale));
}

TEST_P(NeighbourTableTest, APinnedEntryKeepsItsPlaceAndLosesItsMac) {
  const auto index = table_.pin(1, ip(GetParam()), 0);
  table_.learn(index, {.mac = kMac, .confirmed = true}, 0);
  table_.age(30 * kSecond, kTimes);
  table_.age(90 * kSecond, kTimes);
  EXPECT_EQ(table_.find(1, ip(GetParam())), index);
  EXPECT_EQ(state(index), State::incomplete);
  table_.unpin(index);
  table_.age(200 * kSecond, kTimes);
  EXPECT_EQ(table_.find(1, ip(GetParam())), table_.nobody());
}

TEST_P(NeighbourTableTest, FlushForgetsWhatWasLearnedOnThatPort) {
  const auto here = add(1);
  const auto there = add(2);
  for (const auto index : {here, there}) table_.learn(index, {.mac = kMac, .confirmed = true}, 1);
  table_.flush(1, 2);
  EXPECT_EQ(table_.find(1, ip(GetParam())), table_.nobody());
  EXPECT_EQ(state(there), State::reachable);
}

TEST_P(NeighbourTableTest, ARemovedEntryIsReusedOnlyAfterAQuiescentState) {
  const auto index = add();
  table_.age(10 * kSecond, kTimes);
  EXPECT_EQ(state(index), State::none);
  EXPECT_EQ(table_.learn(index, {.mac = kMac, .confirmed = true}, 1), Learned::ignored);
  EXPECT_NE(add(), index);
  quiesce();
  table_.age(20 * kSecond, kTimes);
  quiesce();
  EXPECT_EQ(add(), index);
}

TEST_P(NeighbourTableTest, ListGivesEveryEntryOnceInPieces) {
  std::set<PortIndex> ports;
  for (PortIndex port = 0; port < 20; ++port) add(port);
  std::size_t cursor = 0;
  while (cursor != table_.capacity()) {
    const auto entries = table_.list(cursor, 3);
    EXPECT_LE(entries.size(), 3u);
    for (const auto& entry : entries) {
      EXPECT_EQ(entry.address, ip(GetParam()));
      EXPECT_TRUE(ports.insert(entry.port).second);
    }
  }
  EXPECT_EQ(ports.size(), 20u);
}

TEST(NeighbourTable, HasRoomForAsManyAsItIsMeantFor) {
  for (const std::size_t max : {1u, 2u, 100u, 4096u}) {
    RcuDomain domain(1);
    NeighbourTable table(max, domain);
    for (std::uint32_t i = 0; i < max; ++i) {
      ASSERT_NE(table.find_or_add(static_cast<PortIndex>(i % 32), IpAddress::v4(0x0a000000 + i), 0), table.nobody());
    }
  }
}

TEST(NeighbourTable, AFullTableSaysNobodyAndFindsWhatItHas) {
  RcuDomain domain(1);
  NeighbourTable table(4, domain);
  std::set<NeighbourTable::Index> indices;
  std::uint32_t refused = 0;
  for (std::uint32_t i = 0; i < 1000; ++i) {
    const auto index = table.find_or_add(0, IpAddress::v4(i), 0);
    if (index == table.nobody())
      ++refused;
    else
      EXPECT_TRUE(indices.insert(index).second);
  }
  EXPECT_EQ(indices.size() + refused, 1000u);
  EXPECT_EQ(indices.size(), table.capacity());
}

// Two workers learn and look up while the control thread ages: whatever a worker finds is the entry it asked for.
TEST(NeighbourTable, WorkersNeverFindTheMacOfAnotherAddressWhileEntriesComeAndGo) {
  constexpr int kRounds = 30'000;
  constexpr std::uint16_t kWorkers = 2;
  RcuDomain domain(kWorkers);
  NeighbourTable table(32, domain);
  std::atomic<int> wrong{0};
  std::atomic<int> running{kWorkers};
  const auto address_of = [](std::uint32_t i) {
    return i % 2 == 0 ? IpAddress::v4(0x0a000000 + i)
                      : IpAddress::v6({0x20, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, static_cast<std::uint8_t>(i)});
  };
  const auto work = [&](std::uint16_t worker) {
    Rng rng(worker + 1);
    for (int round = 0; round < kRounds; ++round) {
      domain.quiescent(worker);
      const auto i = static_cast<std::uint32_t>(rng.below(100));
      const MacAddress mac = MacAddress::from_u64(0x020000000000 + i);
      const auto index = table.find_or_add(0, address_of(i), 1);
      if (index == table.nobody()) continue;
      table.learn(index, {.mac = mac, .confirmed = rng.below(2) == 0}, 1);
      const NeighbourWord word = table.word(index);
      if (word.usable() && word.mac() != mac) wrong.fetch_add(1);
    }
    running.fetch_sub(1);
  };
  std::thread first(work, 0);
  std::thread second(work, 1);
  const NeighbourTimes at_once{.reachable_ns = 0, .stale_ns = 0, .unresolved_ns = 0};
  while (running.load() != 0) {
    table.age(2, at_once);
    domain.reclaim();
  }
  first.join();
  second.join();
  EXPECT_EQ(wrong.load(), 0);
}

TEST_P(NeighbourTableTest, RestoreEntersStateAndTimeAndLeavesConfiguredEntriesAlone) {
  const NeighbourTable::Entry known{0, 1, ip(GetParam()), NeighbourWord(kMac, State::reachable), 5 * kSecond};
  EXPECT_TRUE(table_.restore(known));
  const auto index = table_.find(1, ip(GetParam()));
  EXPECT_EQ(table_.word(index), known.word);
  table_.age(34 * kSecond, kTimes);
  EXPECT_EQ(state(index), State::reachable);
  table_.age(35 * kSecond, kTimes);
  EXPECT_EQ(state(index), State::stale);
  table_.add_permanent(1, ip(GetParam()), kOther);
  EXPECT_TRUE(table_.restore(known));
  EXPECT_EQ(table_.word(index).mac(), kOther);
}

TEST_P(NeighbourTableTest, ADoubtedNeighbourIsUsableAndProbedWhenItIsUsed) {
  const auto index = add();
  table_.learn(index, {.mac = kMac, .confirmed = true}, 0);
  table_.doubt(index, kSecond);
  EXPECT_EQ(state(index), State::stale);
  EXPECT_TRUE(table_.begin_probe(index, kSecond));
  ASSERT_TRUE(table_.add_permanent(1, ip(GetParam()), kOther));
  table_.doubt(index, kSecond);
  EXPECT_EQ(state(index), State::stale);
}

TEST_P(NeighbourTableTest, ALostNeighbourIsForgottenUnlessItIsConfigured) {
  const auto index = add();
  table_.learn(index, {.mac = kMac, .confirmed = true}, 0);
  table_.lose(index, kSecond);
  EXPECT_EQ(table_.find(1, ip(GetParam())), table_.nobody());
  quiesce();
  ASSERT_TRUE(table_.add_permanent(1, ip(GetParam()), kMac));
  const auto configured = table_.find(1, ip(GetParam()));
  table_.lose(configured, kSecond);
  EXPECT_EQ(state(configured), State::permanent);
}

}  // namespace
}  // namespace weft::tables
