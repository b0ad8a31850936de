// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Which devices run together.
#include <gtest/gtest.h>

#include "tools/sim/partition_plan.h"

namespace weft::sim {
namespace {

Rates rates_of(std::uint64_t host_delay, std::uint64_t fabric_delay) {
  Rates rates;
  rates.host.delay_ns = host_delay;
  rates.fabric.delay_ns = fabric_delay;
  return rates;
}

TEST(Partitions, AreTheSwitchesOfALeafSpine) {
  const Topology t = Topology::leaf_spine(4, 3, 2, rates_of(1, 700));
  const PartitionPlan plan = plan_partitions(t, ring_permutation(interleaved_groups(8, 1), 1000), false);
  EXPECT_EQ(plan.count, 7u);
  EXPECT_EQ(plan.window, 700u);
  EXPECT_EQ(plan.of_switch, (std::vector<std::uint32_t>{0, 1, 2, 3, 4, 5, 6}));
}

TEST(Partitions, AreAsManyAsAreWantedAndTheWindowStaysWhatItIs) {
  const Topology t = Topology::leaf_spine(4, 3, 2, rates_of(1, 700));
  const PartitionPlan plan = plan_partitions(t, {}, false, 2);
  EXPECT_EQ(plan.count, 2u);
  EXPECT_EQ(plan.window, 700u);
  EXPECT_EQ(plan.of_switch, (std::vector<std::uint32_t>{0, 1, 0, 1, 0, 1, 0}));
}

TEST(Partitions, ShortLinksJoinWhatTheyConnectAndLongOnesDoNotMakeWindowsEndless) {
  Topology t;
  for (const char* name : {"a", "b", "c", "d"}) t.add_switch(name, 0);
  const auto link = [&](std::uint32_t a, std::uint32_t b, std::uint64_t delay) {
    Wire wire;
    wire.delay_ns = delay;
    t.add_link(a, b, wire);
  };
  link(0, 3, 5);
  link(1, 2, 4'000'000);
  const PartitionPlan plan = plan_partitions(t, {}, false);
  EXPECT_EQ(plan.window, 100u);
  EXPECT_EQ(plan.of_switch, (std::vector<std::uint32_t>{0, 1, 2, 0}));
  Topology far;
  far.add_switch("a", 0);
  far.add_switch("b", 0);
  Wire wire;
  wire.delay_ns = 4'000'000;
  far.add_link(0, 1, wire);
  EXPECT_EQ(plan_partitions(far, {}, false).window, 10'000u);
  EXPECT_EQ(plan_partitions(far, {}, false).count, 2u);
}

// What a transfer waits for happens at its own host, or both run together.
TEST(Partitions, TransfersThatWaitForAnotherHostJoinTheirRacks) {
  const Topology t = Topology::leaf_spine(3, 1, 1, rates_of(1000, 1000));
  Plan plan;
  plan.transfers.resize(2);
  plan.transfers[0] = {.from = 0, .to = 1, .after_sent = {1}};
  plan.transfers[1] = {.from = 0, .to = 2, .waits_for = 1};
  EXPECT_EQ(plan_partitions(t, plan, false).of_switch, (std::vector<std::uint32_t>{0, 1, 2, 3}));
  // With datagrams only the receiver knows of the end.
  EXPECT_EQ(plan_partitions(t, plan, true).of_switch, (std::vector<std::uint32_t>{0, 0, 1, 2}));
  plan.transfers[1].from = 2;
  EXPECT_EQ(plan_partitions(t, plan, false).of_switch, (std::vector<std::uint32_t>{0, 1, 0, 2}));
}

}  // namespace
}  // namespace weft::sim
