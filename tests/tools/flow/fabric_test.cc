// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "tools/flow/fabric.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "tools/flow/cluster.h"

namespace weft::flow {
namespace {

using inc::policy::NodeId;

/// Follows the links of a way and says where it ends; kNoNode when they do not hang together.
NodeId end_of(const inc::policy::Topology& t, std::vector<Use> uses, NodeId at) {
  while (!uses.empty()) {
    bool moved = false;
    for (auto use = uses.begin(); use != uses.end() && !moved; ++use) {
      const auto& link = t.link(use->link / 2);
      const NodeId from = use->link % 2 == 0 ? link.lower : link.upper,
                   to = use->link % 2 == 0 ? link.upper : link.lower;
      if (from != at) continue;
      at = to;
      uses.erase(use);
      moved = true;
      break;
    }
    if (!moved) return inc::policy::kNoNode;
  }
  return at;
}

TEST(Fabric, IsThatOfThePaper) {
  const Fabric small{FabricSpec{}};
  EXPECT_EQ(small.spec().gpus(), 128u);
  const auto t = small.topology(inc::policy::weft_abilities(4));
  std::map<unsigned, int> tiers;
  for (const auto& node : t.nodes()) ++tiers[node.tier];
  EXPECT_EQ(tiers, (std::map<unsigned, int>{{0, 128}, {1, 16}, {2, 16}, {3, 16}}));
  EXPECT_EQ(2 * t.links().size(), small.capacities().size());
  EXPECT_DOUBLE_EQ(small.link_rate(), 12.5);
  const Fabric large{FabricSpec{.pods = 8, .leaves = 16, .spines = 16, .gpus_per_leaf = 16, .cores_per_spine = 8}};
  EXPECT_EQ(large.spec().gpus(), 2048u);
  EXPECT_EQ(2 * large.topology({}).links().size(), large.capacities().size());
}

TEST(Fabric, EveryWayLeadsThere) {
  const Fabric fabric{FabricSpec{.pods = 2, .leaves = 2, .spines = 3, .gpus_per_leaf = 2, .cores_per_spine = 2}};
  const auto t = fabric.topology({});
  for (Gpu a = 0; a < fabric.spec().gpus(); ++a) {
    for (Gpu b = 0; b < fabric.spec().gpus(); ++b) {
      if (a == b) continue;
      std::set<std::uint32_t> taken;
      for (std::uint64_t choice = 0; choice < 6; ++choice) {
        const auto way = fabric.way(a, b, Paths::ecmp, choice);
        EXPECT_EQ(way.size(), fabric.hops(a, b));
        EXPECT_EQ(end_of(t, way, a), b);
        for (const Use& use : way) taken.insert(use.link);
      }
      // Sprayed, it takes the same links, and each tier carries all of it.
      std::map<unsigned, double> tiers;
      const auto sprayed = fabric.way(a, b, Paths::spray, 0);
      EXPECT_EQ(sprayed.size(), taken.size());
      for (const Use& use : sprayed) tiers[fabric.tier_of(use.link)] += use.flows;
      for (const auto& [tier, flows] : tiers) EXPECT_NEAR(flows, 2, 1e-9) << "tier " << tier;
    }
  }
}

TEST(Fabric, WaysAvoidWhatIsDown) {
  Fabric fabric{FabricSpec{.pods = 2, .leaves = 2, .spines = 2, .gpus_per_leaf = 2, .cores_per_spine = 2}};
  const auto t = fabric.topology({});
  const auto take = [&](std::string_view name, bool up) {
    for (const inc::policy::LinkId link : failure_of(t, t.find(name), 0, 1).links) fabric.set_link_up(link, up);
  };
  take("spine0", false);
  EXPECT_EQ(fabric.cut_off(), std::nullopt);
  for (const Paths paths : {Paths::balanced, Paths::ecmp, Paths::spray}) {
    for (std::uint64_t choice = 0; choice < 4; ++choice) {
      for (const Use& use : fabric.way(0, 6, paths, choice)) {
        const auto& link = t.link(use.link / 2);
        EXPECT_TRUE(t.node(link.lower).name != "spine0" && t.node(link.upper).name != "spine0");
      }
    }
  }
  take("core2", false);
  take("core3", false);
  EXPECT_EQ(fabric.cut_off(), std::pair(0u, 2u)) << "spine1 has no core any more";
  take("core3", true);
  EXPECT_EQ(fabric.cut_off(), std::nullopt);
}

TEST(Fabric, BalancedWaysAvoidEachOther) {
  Fabric fabric{FabricSpec{}};
  std::set<std::uint32_t> links;
  for (Gpu g = 0; g < 4; ++g) {
    const auto way = fabric.way(g, g + 8, Paths::balanced, 0);
    fabric.count(way, 1);
    for (const Use& use : way) EXPECT_TRUE(links.insert(use.link).second);
  }
  const auto fifth = fabric.way(4, 12, Paths::balanced, 0);
  fabric.count(fifth, 1);
  fabric.count(fifth, -1);
  EXPECT_EQ(fabric.way(4, 12, Paths::balanced, 0), fifth);
}

}  // namespace
}  // namespace weft::flow
