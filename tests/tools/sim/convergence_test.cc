// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// A link that goes down, and when the others hear of it.
#include <gmock/gmock.h>

#include "tests/tools/sim/runs.h"
#include "tools/sim/fabric_routes.h"

namespace weft::sim {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// A QP each way between two leaves; one of four paths is down from the 50th to the 150th microsecond.
const std::string kDeadPath = R"(
topology: { kind: leaf_spine, leaves: 2, spines: 4, hosts_per_leaf: 1, link_gbps: 100, delay_ns: 1000 }
switch: { lb: psn, nack_filter: { check: gap, guard_us: 100 } }
nic: { transport: nic_sr, renack: eager, mtu: 1500, rto_us: 1000, cc: { kind: none } }
workload: { kind: ring, bytes: 3000000 }
faults: [{ link: leaf0/spine1, down_at_us: 50, up_at_us: 150 }]
)";

nlohmann::ordered_json run(const char* convergence_us, const std::function<void(Simulation&)>& look = {}) {
  return run_text(kDeadPath, {{"switch.convergence_us", convergence_us}}, look);
}

TEST(Convergence, WithinARoundTripNothingWaitsForATimeoutAndNoNackIsFalse) {
  for (const char* convergence_us : {"0", "1", "2"}) {
    const auto report = run(convergence_us);
    const auto& summary = report["summary"];
    EXPECT_TRUE(summary["complete"].get<bool>());
    EXPECT_EQ(summary["timeouts"], 0) << convergence_us;
    EXPECT_EQ(summary["stages"]["nack_filter"]["compensated_guard"], 0) << convergence_us;
    EXPECT_EQ(summary["nacks_false"], 0) << convergence_us;
    EXPECT_EQ(summary["spurious_retransmit_ratio"], 0.0) << convergence_us;
    // Routes that change in the very instant leave nothing behind for which a host could ask later.
    const int of_path = convergence_us == std::string("0") ? 0 : 1;
    EXPECT_EQ(summary["stages"]["nack_filter"]["nacks_path_down"], of_path) << convergence_us;
  }
}

// The PSN names the path: what is sent again takes the dead path again, and of that no NACK tells.
TEST(Convergence, AfterLongerThanARoundTripRetransmissionsAreLostTooAndOneTimeoutRepairsThem) {
  const auto soon = run("2");
  for (const char* convergence_us : {"20", "50", "never"}) {
    const auto report = run(convergence_us);
    EXPECT_TRUE(report["summary"]["complete"].get<bool>());
    EXPECT_EQ(report["summary"]["timeouts"], 1) << convergence_us;
    EXPECT_GT(report["summary"]["drops"], soon["summary"]["drops"]) << convergence_us;
  }
}

TEST(Convergence, WhenTheRoutesHaveChangedNoSwitchSendsOverTheDeadPath) {
  const auto dropped_by_spine1 = [](const char* convergence_us) {
    std::uint64_t dropped = 0;
    run(convergence_us, [&](Simulation& s) { dropped = s.switches()[3]->pipeline().totals().ended(); });
    return dropped;
  };
  EXPECT_GT(dropped_by_spine1("never"), 150u) << "spine1 drops what leaf1 sends it for leaf0";
  EXPECT_LT(dropped_by_spine1("0"), 20u) << "what was under way, ACKs included";
}

TEST(FabricRoutes, ADeadLinkIsWithdrawnWhereverItWasTheLastStepAndComesBack) {
  const auto topology = Topology::leaf_spine(3, 2, 1, {});
  FabricRoutes fabric(topology);
  const auto configured = [&](std::uint32_t sw) {
    std::vector<pipeline::RouteInfo> routes;
    for (std::uint32_t tor = 0; tor < 3; ++tor) {
      if (tor == sw) continue;
      routes.push_back({.prefix = topology.switches()[tor].subnet});
      for (const PortIndex port : topology.next_hops(sw, tor)) {
        routes.back().via.push_back({.address = topology.switches()[sw].ports[port].peer_address});
      }
    }
    return routes;
  };
  const auto hops = [&](std::uint32_t sw) {
    std::vector<std::size_t> counts;
    for (const auto& route : fabric.routes(sw, configured(sw))) counts.push_back(route.via.size());
    return counts;
  };
  // Port 0 of a leaf is its host, 1 and 2 lead to the spines 3 and 4, whose port i leads to leaf i.
  fabric.set_link(0, 2, false);
  fabric.set_link(4, 0, false);
  EXPECT_THAT(hops(0), ElementsAre(1, 1)) << "leaf0: all by spine0";
  EXPECT_THAT(hops(1), ElementsAre(1, 2)) << "leaf1: leaf0 by spine0, leaf2 by both";
  EXPECT_THAT(hops(3), ElementsAre(1, 1, 1));
  EXPECT_THAT(hops(4), ElementsAre(1, 1)) << "spine1: no route to leaf0";
  fabric.set_link(0, 1, false);
  EXPECT_THAT(hops(0), IsEmpty()) << "a leaf without uplinks has no routes";
  for (const PortIndex port : {1, 2}) fabric.set_link(0, port, true);
  fabric.set_link(4, 0, true);
  EXPECT_THAT(hops(0), ElementsAre(2, 2));
  EXPECT_THAT(hops(1), ElementsAre(2, 2));
  EXPECT_THAT(hops(4), ElementsAre(1, 1, 1));
}

TEST(FabricRoutes, AboveADeadLinkOfAFatTreeTheCoresOfThatPlaneAreWithdrawn) {
  const auto topology = Topology::fat_tree(4, 2, {});
  FabricRoutes fabric(topology);
  const auto index = [&](const std::string& name) {
    for (std::uint32_t i = 0; i < topology.switches().size(); ++i) {
      if (topology.switches()[i].name == name) return i;
    }
    return ~0u;
  };
  const std::uint32_t tor0 = index("tor0"), tor4 = index("tor4"), agg0 = index("agg0");
  std::vector<pipeline::RouteInfo> route{{.prefix = topology.switches()[tor0].subnet}};
  for (const PortIndex port : topology.next_hops(tor4, tor0)) {
    route[0].via.push_back({.address = topology.switches()[tor4].ports[port].peer_address});
  }
  ASSERT_EQ(route[0].via.size(), 2u);
  for (PortIndex port = 0; port < topology.switches()[agg0].ports.size(); ++port) {
    if (topology.switches()[agg0].ports[port].peer == tor0) fabric.set_link(agg0, port, false);
  }
  EXPECT_EQ(fabric.routes(tor4, route).at(0).via.size(), 1u) << "two tiers away, the plane of agg0 leads nowhere";
}

TEST(FabricRoutes, MoreHostsThanUplinksShareThemInAFatTree) {
  const auto topology = Topology::fat_tree(4, 6, {});
  ASSERT_EQ(topology.hosts().size(), 8u * 6);
  EXPECT_EQ(topology.hosts()[5].tor, 0u);
  EXPECT_EQ(topology.hosts()[6].tor, 1u);
  EXPECT_EQ(topology.switches()[0].ports.size(), 6u + 2);
  EXPECT_EQ(topology.next_hops(0, 7).size(), 2u);
}

}  // namespace
}  // namespace weft::sim
