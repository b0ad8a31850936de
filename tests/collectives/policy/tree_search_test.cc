// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "collectives/policy/tree_search.h"

#include <gmock/gmock.h>

#include "switch/base/rng.h"
#include "tests/collectives/policy/every_tree.h"

namespace weft::inc::policy {
namespace {

/// Widths at random; some are 0.
class RandomWidths : public Widths {
 public:
  RandomWidths(const Topology& topology, Rng& rng, bool endpoints_matter) : endpoints_matter_(endpoints_matter) {
    for (std::size_t i = 0; i < topology.links().size(); ++i) {
      links_.push_back(rng.below(8) == 0 ? 0 : static_cast<std::uint32_t>(1 + rng.below(6)));
      crowds_.push_back(static_cast<std::uint32_t>(rng.below(4)));
    }
    for (std::size_t i = 0; i < topology.nodes().size(); ++i) {
      nodes_.push_back(rng.below(10) == 0 ? 0 : static_cast<std::uint32_t>(1 + rng.below(endpoints_matter ? 150 : 30)));
    }
  }
  [[nodiscard]] std::uint32_t link(LinkId id) const override { return links_[id]; }
  [[nodiscard]] std::uint32_t node(NodeId node, const Place& place) const override {
    return nodes_[node] / place.depth / (endpoints_matter_ ? place.endpoints : 1);
  }
  [[nodiscard]] std::uint32_t crowd(LinkId id) const override { return crowds_[id]; }
  [[nodiscard]] std::uint32_t load(NodeId) const override { return 0; }

 private:
  bool endpoints_matter_;
  std::vector<std::uint32_t> links_, crowds_, nodes_;
};

std::vector<NodeId> some_hosts(const Topology& topology, Rng& rng, std::size_t most) {
  std::vector<NodeId> all, out;
  for (NodeId n = 0; n < topology.nodes().size(); ++n) {
    if (!topology.node(n).is_switch) all.push_back(n);
  }
  const std::size_t count = 2 + rng.below(std::min(most, all.size()) - 1);
  while (out.size() < count) {
    const std::size_t at = rng.below(all.size());
    out.push_back(all[at]);
    all.erase(all.begin() + static_cast<std::ptrdiff_t>(at));
  }
  return out;
}

/// It connects the hosts, goes up only, and has each node once.
void expect_a_tree(const Topology& topology, const Tree& tree, std::vector<NodeId> hosts) {
  std::map<NodeId, NodeId> parent;
  std::map<NodeId, std::uint32_t> children;
  for (const TreeEdge& e : tree.edges) {
    EXPECT_TRUE(parent.emplace(e.child, e.parent).second) << "two parents";
    EXPECT_LT(topology.node(e.child).tier, topology.node(e.parent).tier);
    EXPECT_EQ(topology.link(e.link).lower, e.child);
    EXPECT_EQ(topology.link(e.link).upper, e.parent);
    ++children[e.parent];
  }
  for (NodeId host : hosts) {
    EXPECT_TRUE(parent.contains(host)) << "a host without a parent";
    EXPECT_FALSE(children.contains(host));
    while (parent.contains(host)) host = parent[host];
    EXPECT_EQ(host, tree.root);
  }
  EXPECT_EQ(parent.size(), hosts.size() + children.size() - 1) << "somebody has no host below";
  ASSERT_EQ(tree.switches.size(), children.size());
  for (const TreeSwitch& s : tree.switches) {
    EXPECT_EQ(s.children, children[s.node]);
    EXPECT_EQ(s.root, s.node == tree.root);
  }
  EXPECT_TRUE(tree.switches.back().root);
}

/// How many fabrics had no tree, one on the frontier, two...
using Frontiers = std::map<std::size_t, int>;

void compare(const Topology& topology, bool endpoints_matter, bool one_way_down, std::uint64_t seed,
             Frontiers& frontiers) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  Rng rng(seed);
  const RandomWidths widths(topology, rng, endpoints_matter);
  const auto hosts = some_hosts(topology, rng, 5);
  TreeSearch search(topology);
  EveryTree every(topology, widths);
  const auto expected = every.frontier(hosts);
  const auto found = search.run(hosts, widths, false);
  ++frontiers[expected.size()];
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(found[i].as.depth, expected[i].depth);
    EXPECT_EQ(found[i].as.width_mbps, expected[i].width_mbps);
    if (one_way_down) {
      EXPECT_EQ(found[i].as.switches, expected[i].switches);
    }
    expect_a_tree(topology, found[i].tree, hosts);
  }
  const auto lowest = search.run(hosts, widths, true);
  ASSERT_EQ(lowest.size(), std::min<std::size_t>(1, expected.size()));
  if (!lowest.empty()) {
    EXPECT_EQ(lowest[0].tree, found[0].tree);
  }
}

/// Two or three tiers; links and second ways up at random, parallel links, links that skip a tier.
Topology random_fabric(Rng& rng) {
  Topology t;
  std::vector<NodeId> leaves, middle, tops;
  for (int i = 0; i < 3; ++i) leaves.push_back(t.add_switch("leaf" + std::to_string(i), {}, 1));
  for (int i = 0; i < 3; ++i) middle.push_back(t.add_switch("middle" + std::to_string(i), {}, 2));
  for (int i = 0; i < 2; ++i) tops.push_back(t.add_switch("top" + std::to_string(i), {}, 3));
  const auto connect = [&](NodeId a, const std::vector<NodeId>& above, std::uint64_t of_8) {
    for (const NodeId b : above) {
      if (rng.below(8) < of_8) t.add_link(a, b, 1);
    }
  };
  for (int i = 0; i < 6; ++i) {
    const NodeId host = t.add_host("h" + std::to_string(i));
    t.add_link(host, leaves[rng.below(3)], 1);
    connect(host, leaves, 1);
  }
  for (const NodeId leaf : leaves) {
    connect(leaf, middle, 5);
    connect(leaf, middle, 1);
    connect(leaf, tops, 1);
  }
  for (const NodeId m : middle) connect(m, tops, 6);
  EXPECT_FALSE(t.finish());
  return t;
}

TEST(TreeSearch, FindsTheWidestTreesOfRandomFabrics) {
  Frontiers frontiers;
  for (std::uint64_t seed = 1; seed <= 3000 && !testing::Test::HasFailure(); ++seed) {
    Rng rng(seed);
    const Topology fabric = random_fabric(rng);
    compare(fabric, false, false, seed, frontiers);
  }
  EXPECT_GT(frontiers[0], 100);
  EXPECT_GT(frontiers[1], 1000);
  EXPECT_GT(frontiers[2], 40) << "deeper trees that are wider";
}

TEST(TreeSearch, FindsTheBestTreesOfLeafSpineFabrics) {
  const Topology fabric = leaf_spine(3, 3, 2, {}, 1);
  Frontiers frontiers;
  for (std::uint64_t seed = 1; seed <= 3000 && !testing::Test::HasFailure(); ++seed) {
    compare(fabric, true, true, seed, frontiers);
  }
  EXPECT_GT(frontiers[0], 100);
  EXPECT_GT(frontiers[1], 1000);
}

TEST(TreeSearch, FindsTheBestTreesOfFatTrees) {
  const Topology fabric = fat_tree(4, {}, 1);
  Frontiers frontiers;
  for (std::uint64_t seed = 1; seed <= 3000 && !testing::Test::HasFailure(); ++seed) {
    compare(fabric, true, true, seed, frontiers);
  }
  EXPECT_GT(frontiers[0], 100);
  EXPECT_GT(frontiers[1], 500);
}

/// All links as wide as switches.
class EvenWidths : public Widths {
 public:
  [[nodiscard]] std::uint32_t link(LinkId) const override { return 100; }
  [[nodiscard]] std::uint32_t node(NodeId, const Place&) const override { return 100; }
  [[nodiscard]] std::uint32_t crowd(LinkId id) const override { return id == crowded ? 1 : 0; }
  [[nodiscard]] std::uint32_t load(NodeId root) const override { return root == loaded ? 1 : 0; }
  NodeId loaded = kNoNode;
  LinkId crowded = kNoLink;
};

TEST(TreeSearch, OfTreesThatAreAsGoodTheLeastLoadedRootIsTaken) {
  const Topology fabric = leaf_spine(2, 2, 1, {}, 1);
  const std::vector<NodeId> hosts{fabric.find("h0"), fabric.find("h1")};
  TreeSearch search(fabric);
  EvenWidths widths;
  EXPECT_EQ(search.run(hosts, widths, false)[0].tree.root, fabric.find("spine0"));
  widths.loaded = fabric.find("spine0");
  EXPECT_EQ(search.run(hosts, widths, false)[0].tree.root, fabric.find("spine1"));
}

TEST(TreeSearch, OfTreesThatAreAsWideTheOneWithTheEmptiestLinksIsTaken) {
  const Topology fabric = leaf_spine(2, 2, 1, {}, 1);
  const std::vector<NodeId> hosts{fabric.find("h0"), fabric.find("h1")};
  TreeSearch search(fabric);
  EvenWidths widths;
  widths.loaded = fabric.find("spine1");
  EXPECT_EQ(search.run(hosts, widths, false)[0].tree.root, fabric.find("spine0"));
  for (LinkId id = 0; id < fabric.links().size(); ++id) {
    widths.crowded = id;
    const bool of_spine0 = fabric.link(id).upper == fabric.find("spine0");
    EXPECT_EQ(search.run(hosts, widths, false)[0].tree.root, fabric.find(of_spine0 ? "spine1" : "spine0"));
  }
}

TEST(TreeSearch, TakesNothingThatIsDown) {
  Topology fabric = leaf_spine(2, 2, 1, {}, 1);
  const std::vector<NodeId> hosts{fabric.find("h0"), fabric.find("h1")};
  TreeSearch search(fabric);
  const EvenWidths widths;
  fabric.set_node_up(fabric.find("spine0"), false);
  const auto found = search.run(hosts, widths, false);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].tree.root, fabric.find("spine1"));
  for (LinkId id = 0; id < fabric.links().size(); ++id) {
    if (fabric.link(id).upper == fabric.find("spine1")) fabric.set_link_up(id, false);
  }
  EXPECT_TRUE(search.run(hosts, widths, false).empty());
  fabric.set_node_up(fabric.find("spine0"), true);
  EXPECT_EQ(search.run(hosts, widths, false)[0].tree.root, fabric.find("spine0"));
}

}  // namespace
}  // namespace weft::inc::policy
