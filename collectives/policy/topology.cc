// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "collectives/policy/topology.h"

#include <algorithm>
#include <utility>

namespace weft::inc::policy {
namespace {

constexpr unsigned kUnknownTier = kMaxTier + 1;

}  // namespace

NodeId Topology::add(Node node) {
  const auto id = static_cast<NodeId>(nodes_.size());
  if (!by_name_.emplace(node.name, id).second) return kNoNode;
  nodes_.push_back(std::move(node));
  return id;
}

NodeId Topology::add_switch(std::string name, const Abilities& abilities, std::optional<unsigned> tier) {
  return add({std::move(name), true, true, tier.value_or(kUnknownTier), abilities});
}

NodeId Topology::add_host(std::string name) {
  return add({std::move(name), false, true, 0, {}});
}

LinkId Topology::add_link(NodeId a, NodeId b, std::uint32_t rate_mbps) {
  if (a == b || a >= nodes_.size() || b >= nodes_.size()) return kNoLink;
  if (!nodes_[a].is_switch && !nodes_[b].is_switch) return kNoLink;
  links_.push_back({a, b, rate_mbps, true});
  return static_cast<LinkId>(links_.size() - 1);
}

std::optional<std::string> Topology::find_tiers(bool lone_switches) {
  std::vector<std::vector<NodeId>> neighbours(nodes_.size());
  for (const Link& l : links_) {
    neighbours[l.lower].push_back(l.upper);
    neighbours[l.upper].push_back(l.lower);
  }
  std::vector<unsigned> away(nodes_.size(), kUnknownTier);
  std::vector<NodeId> queue;
  for (NodeId n = 0; n < nodes_.size(); ++n) {
    if (nodes_[n].is_switch) continue;
    away[n] = 0;
    queue.push_back(n);
  }
  for (std::size_t at = 0; at < queue.size(); ++at) {
    for (const NodeId to : neighbours[queue[at]]) {
      if (away[to] != kUnknownTier || away[queue[at]] == kMaxTier) continue;
      away[to] = away[queue[at]] + 1;
      queue.push_back(to);
    }
  }
  for (NodeId n = 0; n < nodes_.size(); ++n) {
    if (nodes_[n].tier != kUnknownTier) continue;
    if (away[n] == kUnknownTier && !lone_switches) {
      return "no host reaches the switch " + nodes_[n].name + ", so it needs a tier";
    }
    nodes_[n].tier = away[n] == kUnknownTier ? 1 : away[n];
  }
  return std::nullopt;
}

void Topology::make_arcs(Arcs& out, bool up) const {
  out.first.assign(nodes_.size() + 1, 0);
  const auto count = [&](const auto& each) {
    for (LinkId id = 0; id < links_.size(); ++id) {
      const Link& l = links_[id];
      if (nodes_[l.lower].tier == nodes_[l.upper].tier) continue;
      each(up ? l.lower : l.upper, Arc{id, up ? l.upper : l.lower});
    }
  };
  count([&](NodeId from, const Arc&) { ++out.first[from + 1]; });
  for (std::size_t n = 0; n < nodes_.size(); ++n) out.first[n + 1] += out.first[n];
  out.all.resize(out.first.back());
  std::vector<std::uint32_t> next(out.first.begin(), out.first.end() - 1);
  count([&](NodeId from, const Arc& arc) { out.all[next[from]++] = arc; });
}

std::optional<std::string> Topology::finish(bool lone_switches) {
  if (auto error = find_tiers(lone_switches)) return error;
  highest_ = 0;
  for (const Node& n : nodes_) highest_ = std::max(highest_, n.tier);
  for (Link& l : links_) {
    if (nodes_[l.lower].tier > nodes_[l.upper].tier) std::swap(l.lower, l.upper);
    skips_ = skips_ || nodes_[l.upper].tier > nodes_[l.lower].tier + 1;
  }
  make_arcs(up_, true);
  make_arcs(down_, false);
  return std::nullopt;
}

NodeId Topology::find(std::string_view name) const noexcept {
  const auto at = by_name_.find(std::string(name));
  return at == by_name_.end() ? kNoNode : at->second;
}

std::string Topology::link_name(LinkId link) const {
  return nodes_[links_[link].lower].name + " - " + nodes_[links_[link].upper].name;
}

Topology leaf_spine(std::uint32_t leaves, std::uint32_t spines, std::uint32_t hosts_per_leaf,
                    const Abilities& abilities, std::uint32_t rate_mbps) {
  Topology t;
  std::vector<NodeId> above;
  for (std::uint32_t s = 0; s < spines; ++s) above.push_back(t.add_switch("spine" + std::to_string(s), abilities, 2));
  for (std::uint32_t l = 0; l < leaves; ++l) {
    const NodeId leaf = t.add_switch("leaf" + std::to_string(l), abilities, 1);
    for (const NodeId spine : above) t.add_link(leaf, spine, rate_mbps);
    for (std::uint32_t h = 0; h < hosts_per_leaf; ++h) {
      t.add_link(t.add_host("h" + std::to_string(l * hosts_per_leaf + h)), leaf, rate_mbps);
    }
  }
  static_cast<void>(t.finish());  // all tiers are given
  return t;
}

Topology fat_tree(std::uint32_t k, const Abilities& abilities, std::uint32_t rate_mbps) {
  Topology t;
  const std::uint32_t half = k / 2;
  std::vector<NodeId> cores;
  for (std::uint32_t c = 0; c < half * half; ++c) {
    cores.push_back(t.add_switch("core" + std::to_string(c), abilities, 3));
  }
  for (std::uint32_t pod = 0; pod < k; ++pod) {
    std::vector<NodeId> aggregation;
    for (std::uint32_t a = 0; a < half; ++a) {
      aggregation.push_back(t.add_switch("agg" + std::to_string(pod * half + a), abilities, 2));
      for (std::uint32_t c = 0; c < half; ++c) t.add_link(aggregation[a], cores[a * half + c], rate_mbps);
    }
    for (std::uint32_t e = 0; e < half; ++e) {
      const std::uint32_t number = pod * half + e;
      const NodeId edge = t.add_switch("edge" + std::to_string(number), abilities, 1);
      for (const NodeId a : aggregation) t.add_link(edge, a, rate_mbps);
      for (std::uint32_t h = 0; h < half; ++h) {
        t.add_link(t.add_host("h" + std::to_string(number * half + h)), edge, rate_mbps);
      }
    }
  }
  static_cast<void>(t.finish());
  return t;
}

}  // namespace weft::inc::policy
