// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// PSN spraying over all paths of a fat tree: the ToR chooses its uplink, and by the UDP source port the core switch.
#include <algorithm>

#include "tests/tools/sim/runs.h"

namespace weft::sim {
namespace {

// A queue pair from each host to the same place of the next pod. With k = 4 a ToR has two uplinks, and there are two
// cores above each.
const std::string kFatTree = R"(
topology: { kind: fat_tree, k: 4, link_gbps: 100, delay_ns: 1000 }
switch:
  lb: psn
  lb_options: { tiers_above: [{ seed: 99, members: 2 }] }
  nack_filter: { check: gap, guard_us: 100, arrival_check: off, paths: 4 }
  ecn: disabled
nic: { transport: nic_sr, mtu: 1500, cc: { kind: none } }
workload: { kind: ring, bytes: 1500000, groups: 4 }
)";

// Of the core that had the least and of the one that had the most, in millions. ACKs are a small part.
std::pair<double, double> bytes_of_cores(const std::vector<Override>& overrides) {
  std::vector<double> megabytes;
  run_text(kFatTree, overrides, [&](Simulation& s) {
    for (const auto& sw : s.switches()) {
      if (!sw->pipeline().state().info().name.starts_with("core")) continue;
      megabytes.push_back(static_cast<double>(sw->pipeline().totals().rx_bytes.value()) / 1e6);
    }
  });
  EXPECT_EQ(megabytes.size(), 4u);
  const auto [least, most] = std::minmax_element(megabytes.begin(), megabytes.end());
  return {*least, *most};
}

TEST(ThreeTiers, EveryCoreCarriesItsShareOfAllRequests) {
  const auto [least, most] = bytes_of_cores({});
  EXPECT_GE(least, 16 * 1.5 / 4);
  EXPECT_LT(most, 1.15 * least);
}

TEST(ThreeTiers, WithoutThePathMapTheCoreIsThatOfTheFlow) {
  const auto [least, most] = bytes_of_cores({{"switch.lb_options", "{}"}});
  EXPECT_GT(most, 1.3 * least);
}

TEST(ThreeTiers, TheFilterBlocksEveryNackAndNothingIsSentTwice) {
  const auto summary = run_text(kFatTree)["summary"];
  EXPECT_TRUE(summary["complete"].get<bool>());
  const auto& filter = summary["stages"]["nack_filter"];
  EXPECT_GT(filter["nacks_seen"], 100);
  EXPECT_EQ(filter["nacks_blocked"], filter["nacks_seen"]);
  EXPECT_EQ(summary["spurious_retransmit_ratio"], 0.0);
  EXPECT_EQ(filter["compensated_guard"], 0);
  EXPECT_EQ(summary["timeouts"], 0);
}

}  // namespace
}  // namespace weft::sim
