// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "collectives/policy/topology.h"

#include <gmock/gmock.h>

#include <algorithm>

namespace weft::inc::policy {
namespace {

using testing::HasSubstr;

std::size_t count(const Topology& t, unsigned tier) {
  return static_cast<std::size_t>(
      std::count_if(t.nodes().begin(), t.nodes().end(), [&](const Node& n) { return n.tier == tier; }));
}

TEST(Topology, TiersAreFoundFromTheHosts) {
  Topology t;
  const NodeId root = t.add_switch("root", {}), leaf = t.add_switch("leaf", {}), host = t.add_host("h1");
  t.add_link(root, leaf, 100);
  t.add_link(leaf, host, 100);
  ASSERT_FALSE(t.finish());
  EXPECT_EQ(t.node(host).tier, 0u);
  EXPECT_EQ(t.node(leaf).tier, 1u);
  EXPECT_EQ(t.node(root).tier, 2u);
  EXPECT_EQ(t.highest_tier(), 2u);
  ASSERT_EQ(t.up(leaf).size(), 1u);
  EXPECT_EQ(t.up(leaf)[0].to, root);
  ASSERT_EQ(t.down(leaf).size(), 1u);
  EXPECT_EQ(t.down(leaf)[0].to, host);
  EXPECT_EQ(t.link_name(0), "leaf - root");
}

TEST(Topology, AnExplicitTierHolds) {
  Topology t;
  // A host at the spine would make it a leaf.
  const NodeId spine = t.add_switch("spine", {}, 2), leaf = t.add_switch("leaf", {});
  t.add_link(t.add_host("h1"), leaf, 1);
  t.add_link(t.add_host("h2"), spine, 1);
  t.add_link(leaf, spine, 1);
  ASSERT_FALSE(t.finish());
  EXPECT_EQ(t.node(leaf).tier, 1u);
  EXPECT_EQ(t.down(spine).size(), 2u);
}

TEST(Topology, ASwitchThatNoHostReachesNeedsATier) {
  Topology t;
  t.add_switch("alone", {});
  EXPECT_THAT(t.finish().value_or(""), HasSubstr("alone"));
}

TEST(Topology, LinksWithinATierAreOfNoTree) {
  Topology t;
  const NodeId a = t.add_switch("a", {}, 1), b = t.add_switch("b", {}, 1);
  t.add_link(a, b, 1);
  ASSERT_FALSE(t.finish());
  EXPECT_TRUE(t.up(a).empty());
  EXPECT_TRUE(t.up(b).empty());
  EXPECT_TRUE(t.down(a).empty());
}

TEST(Topology, RefusesWhatIsNoLink) {
  Topology t;
  const NodeId a = t.add_host("a"), b = t.add_host("b"), s = t.add_switch("s", {});
  EXPECT_EQ(t.add_host("a"), kNoNode);
  EXPECT_EQ(t.add_link(a, b, 1), kNoLink) << "two hosts";
  EXPECT_EQ(t.add_link(s, s, 1), kNoLink);
  EXPECT_EQ(t.add_link(s, 7, 1), kNoLink);
  EXPECT_NE(t.add_link(s, a, 1), kNoLink);
}

TEST(Topology, AFatTreeHasThePodsOfItsNumber) {
  const Topology t = fat_tree(4, {}, 100);
  EXPECT_EQ(count(t, 0), 16u);
  EXPECT_EQ(count(t, 1), 8u);
  EXPECT_EQ(count(t, 2), 8u);
  EXPECT_EQ(count(t, 3), 4u);
  EXPECT_EQ(t.links().size(), 16u + 16u + 16u);
  for (NodeId n = 0; n < t.nodes().size(); ++n) {
    if (t.node(n).is_switch) {
      EXPECT_EQ(t.up(n).size() + t.down(n).size(), 4u) << t.node(n).name;
    }
  }
}

}  // namespace
}  // namespace weft::inc::policy
