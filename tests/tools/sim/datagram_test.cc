// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Plain UDP over FIFO links, whose every time can be computed with a pencil.
#include <gtest/gtest.h>

#include "tests/tools/sim/runs.h"

namespace weft::sim {
namespace {

constexpr double kPayload = 1434;
// With 42 bytes of headers and 24 of preamble, FCS and gap: 1500 bytes, 120 ns at 100 Gbit/s.
constexpr double kWireNs = 120;
constexpr double kDelayNs = 1000;

std::string leaf_spine(int leaves, int hosts_per_leaf) {
  return "topology: { kind: leaf_spine, leaves: " + std::to_string(leaves) +
         ", spines: 1, hosts_per_leaf: " + std::to_string(hosts_per_leaf) +
         ", link_gbps: 100, delay_ns: 1000 }\n"
         "switch: { buffer_mb: 10000, ecn: disabled, pfc: false }\n"
         "nic: { transport: udp, mtu: 1434 }\n";
}

double last_arrival_ns(const nlohmann::ordered_json& report) {
  double last = 0;
  for (const auto& t : report["transfers"]) last = std::max(last, t["received_ns"].get<double>());
  return last;
}

TEST(Datagrams, OfOneFlowArriveOneBehindTheOtherAtTheRateOfTheLink) {
  constexpr int kPackets = 5000;
  const auto report = run_text(leaf_spine(2, 1) + "workload: { kind: incast, bytes: " +
                               std::to_string(static_cast<int>(kPackets * kPayload)) + " }");
  const auto& summary = report["summary"];
  EXPECT_EQ(last_arrival_ns(report), (kPackets - 1) * kWireNs + 4 * (kWireNs + kDelayNs));
  EXPECT_EQ(summary["packets"], kPackets);
  EXPECT_EQ(summary["packet_hops"], 3 * kPackets);
  EXPECT_EQ(summary["drops"], 0);
  EXPECT_TRUE(summary["complete"].get<bool>());
  EXPECT_NEAR(summary["fct_slowdown_mean"].get<double>(), 1.0, 1e-9);
}

TEST(Datagrams, OfFractionalLengthsInNanosecondsKeepTheExactRate) {
  // 1501 bytes: 30.02 ns at 400 Gbit/s.
  const auto report = run_text(leaf_spine(2, 1) + "workload: { kind: incast, bytes: 14350000 }",
                               {{"topology.link_gbps", "400"}, {"nic.mtu", "1435"}});
  EXPECT_NEAR(last_arrival_ns(report), 9'999 * 30.02 + 4 * (30.02 + kDelayNs), 4);
}

// Every host of a leaf sends at full rate into the one uplink of the leaf, which they share.
TEST(Datagrams, OfFourHostsQueueForTheOneUplinkAndTheLastArrivesWhenAllHaveLeft) {
  constexpr int kPackets = 1000;
  const auto report = run_text(leaf_spine(4, 4) + "workload: { kind: ring, groups: 4, bytes: " +
                               std::to_string(static_cast<int>(kPackets * kPayload)) + " }");
  EXPECT_EQ(last_arrival_ns(report), (4 * kPackets + 3) * kWireNs + 4 * kDelayNs);
  EXPECT_EQ(report["summary"]["packets"], 16 * kPackets);
  EXPECT_EQ(report["summary"]["packet_hops"], 16 * 3 * kPackets);
  EXPECT_EQ(report["summary"]["drops"], 0);
  EXPECT_EQ(report["summary"]["ecn_marks"], 0);
}

TEST(Datagrams, ThatAreTooSmallForEthernetTakeTheTimeOfItsSmallestFrame) {
  const auto report = run_text(leaf_spine(2, 1) + "workload: { kind: incast, bytes: 1000 }", {{"nic.mtu", "64"}});
  // 15 of 64 bytes, and one of 40 right behind them on every link.
  const double full = (64 + 42 + 24) * 8 / 100.0, last = (40 + 42 + 24) * 8 / 100.0;
  EXPECT_NEAR(last_arrival_ns(report), (15 + 3) * full + last + 4 * kDelayNs, 4);
  EXPECT_NEAR(report["transfers"][0]["standalone_ns"].get<double>(), last_arrival_ns(report), 4);
  const auto one = run_text(leaf_spine(2, 1) + "workload: { kind: incast, bytes: 1 }");
  EXPECT_NEAR(last_arrival_ns(one), 4 * (84 * 8 / 100.0 + kDelayNs), 4);
}

TEST(Datagrams, ThatAreLostEndTheRunWithoutTheirTransfer) {
  const auto report = run_text(leaf_spine(2, 2) + "workload: { kind: ring, groups: 2, bytes: 1434000 }",
                               {{"faults", "[{link: leaf0/spine0, loss: 0.1}]"}});
  EXPECT_FALSE(report["summary"]["complete"].get<bool>());
  EXPECT_GT(report["drops_by_reason"]["link_loss"].get<int>(), 0);
  EXPECT_TRUE(report["summary"]["drops"] == report["drops_by_reason"]["link_loss"]);
}

}  // namespace
}  // namespace weft::sim
