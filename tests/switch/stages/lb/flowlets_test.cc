// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/stages/lb/flowlets.h"

#include <gtest/gtest.h>

#include <map>

#include "switch/base/rng.h"

namespace weft::stages {
namespace {

using Begin = FlowletTable::Begin;

constexpr FlowletRules kRules{.gap_ns = 100, .age_ns = 1000, .flows = 64};

FlowKey flow(std::uint64_t number) {
  return {.addresses = 0x0a000001'0a000002, .ports = number << 32};
}

TEST(Flowlets, AFlowletEndsWithAGapThatIsLongerThanTheRuleSays) {
  FlowletTable table(kRules);
  EXPECT_EQ(table.on_packet(1000, flow(1)).begin, Begin::flow);
  table.on_packet(1000, flow(1)).entry.port = 7;
  EXPECT_EQ(table.on_packet(1100, flow(1)).begin, Begin::none) << "as long as the gap is not longer";
  EXPECT_EQ(table.on_packet(1200, flow(1)).begin, Begin::none) << "the gap counts from the last packet";
  const auto later = table.on_packet(1301, flow(1));
  EXPECT_EQ(later.begin, Begin::gap);
  EXPECT_EQ(later.entry.port, 7) << "where the flowlet before went";
  EXPECT_EQ(later.entry.flowlets, 2u);
}

TEST(Flowlets, AFlowThatWasSilentTooLongIsANewOne) {
  FlowletTable table(kRules);
  table.on_packet(0, flow(1));
  EXPECT_EQ(table.on_packet(1000, flow(1)).begin, Begin::gap);
  const auto aged = table.on_packet(2001, flow(1));
  EXPECT_EQ(aged.begin, Begin::flow);
  EXPECT_EQ(aged.entry.flowlets, 1u);
}

TEST(Flowlets, EveryFieldOfTheTupleTellsFlowsApart) {
  FlowletTable table(kRules);
  const FlowKey base{.addresses = 0x0a000001'0a000002, .ports = std::uint64_t{50000} << 32 | 4791u << 16 | 17};
  table.on_packet(0, base);
  EXPECT_EQ(table.on_packet(0, base).begin, Begin::none);
  for (const unsigned bit : {0u, 31u, 32u, 63u}) {
    EXPECT_EQ(table.on_packet(0, {base.addresses ^ std::uint64_t{1} << bit, base.ports}).begin, Begin::flow)
        << "address bit " << bit;
  }
  for (const unsigned bit : {0u, 16u, 32u}) {
    EXPECT_EQ(table.on_packet(0, {base.addresses, base.ports ^ std::uint64_t{1} << bit}).begin, Begin::flow)
        << "protocol and ports bit " << bit;
  }
  EXPECT_EQ(table.live(0), 8u);
}

TEST(Flowlets, TheFlowThatWasSilentLongestGivesWay) {
  FlowletTable table({.gap_ns = 100, .age_ns = 1000, .flows = FlowletTable::kWays});
  for (std::uint64_t i = 0; i < 4; ++i) EXPECT_EQ(table.on_packet(10 * i, flow(i)).begin, Begin::flow);
  table.on_packet(50, flow(0));
  EXPECT_EQ(table.on_packet(60, flow(9)).begin, Begin::evicted);
  EXPECT_EQ(table.on_packet(60, flow(0)).begin, Begin::none);
  EXPECT_EQ(table.on_packet(60, flow(1)).begin, Begin::evicted) << "it was the one";
  EXPECT_EQ(table.on_packet(2000, flow(8)).begin, Begin::flow) << "an aged entry is free";
}

// Against a map without bound, on a table that is never full.
TEST(Flowlets, AgreesWithAMap) {
  FlowletTable table({.gap_ns = 100, .age_ns = 1000, .flows = 1 << 12});
  std::map<std::uint64_t, TimeNs> last;
  Rng rng(5);
  TimeNs now = 0;
  for (int i = 0; i < 100'000; ++i) {
    now += rng.below(20);
    const std::uint64_t number = rng.below(40);
    const auto known = last.find(number);
    const TimeNs silent = known == last.end() ? kNever : now - known->second;
    const Begin expected = silent > 1000 ? Begin::flow : silent > 100 ? Begin::gap : Begin::none;
    ASSERT_EQ(table.on_packet(now, flow(number)).begin, expected) << i;
    last[number] = now;
  }
}

TEST(Flowlets, IsCopyable) {
  FlowletTable table(kRules);
  table.on_packet(5, flow(1));
  FlowletTable copy = table;
  EXPECT_EQ(copy, table);
  copy.on_packet(6, flow(1));
  EXPECT_FALSE(copy == table);
}

}  // namespace
}  // namespace weft::stages
