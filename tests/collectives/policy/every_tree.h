// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Every tree that a small fabric has between hosts: each node of a tier picks one of the links upwards, until one node
// is left. Ways that only lead on from there are left out: they are deeper and not wider.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <vector>

#include "collectives/policy/tree_search.h"

namespace weft::inc::policy {

class EveryTree {
 public:
  EveryTree(const Topology& topology, const Widths& widths) : topology_(topology), widths_(widths) {}

  /// The widest of each tier, with the fewest switches that a tree of that width has.
  std::map<unsigned, Candidate> best(std::span<const NodeId> hosts) {
    best_.clear();
    edges_.clear();
    climb({hosts.begin(), hosts.end()});
    return best_;
  }

  /// As Pareto frontier: by tier, wider than all before.
  std::vector<Candidate> frontier(std::span<const NodeId> hosts) {
    std::vector<Candidate> out;
    for (const auto& [tier, candidate] : best(hosts)) {
      if (out.empty() || candidate.width_mbps > out.back().width_mbps) out.push_back(candidate);
    }
    return out;
  }

 private:
  void climb(const std::set<NodeId>& active) {
    if (active.size() == 1) return take(*active.begin());
    const auto lower = [&](NodeId a, NodeId b) { return topology_.node(a).tier < topology_.node(b).tier; };
    const NodeId first = *std::min_element(active.begin(), active.end(), lower);
    for (const Arc& arc : topology_.up(first)) {
      if (!topology_.usable(arc.link) || widths_.link(arc.link) == 0) continue;
      edges_.push_back({first, arc.to, arc.link});
      std::set<NodeId> next = active;
      next.erase(first);
      next.insert(arc.to);
      climb(next);
      edges_.pop_back();
    }
  }

  void take(NodeId root) {
    Candidate c{root, topology_.node(root).tier, UINT32_MAX, 0};
    std::map<NodeId, std::uint32_t> children;
    for (const TreeEdge& e : edges_) {
      ++children[e.parent];
      c.width_mbps = std::min(c.width_mbps, widths_.link(e.link));
    }
    for (const auto& [node, count] : children) {
      c.width_mbps = std::min(c.width_mbps, widths_.node(node, {c.depth, count, count + (node == root ? 0 : 1)}));
    }
    c.switches = static_cast<std::uint32_t>(children.size());
    if (c.width_mbps == 0) return;
    const auto [at, first] = best_.emplace(c.depth, c);
    Candidate& best = at->second;
    if (first || c.width_mbps > best.width_mbps || (c.width_mbps == best.width_mbps && c.switches < best.switches)) {
      best = c;
    }
  }

  const Topology& topology_;
  const Widths& widths_;
  std::vector<TreeEdge> edges_;
  std::map<unsigned, Candidate> best_;
};

}  // namespace weft::inc::policy
