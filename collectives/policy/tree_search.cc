// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "collectives/policy/tree_search.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace weft::inc::policy {
namespace {

constexpr std::uint32_t kWidest = std::numeric_limits<std::uint32_t>::max();

}  // namespace

TreeSearch::TreeSearch(const Topology& topology)
    : topology_(topology),
      by_tier_(kMaxTier + 1),
      rows_(topology.nodes().size()),
      link_run_(topology.links().size(), 0),
      link_width_(topology.links().size(), 0),
      entered_(topology.nodes().size(), 0),
      marks_(topology.nodes().size()),
      active_(kMaxTier + 1) {}

std::uint32_t TreeSearch::link(LinkId id, const Widths& widths) {
  if (link_run_[id] != run_) {
    link_run_[id] = run_;
    link_width_[id] = topology_.usable(id) ? widths.link(id) : 0;
  }
  return link_width_[id];
}

void TreeSearch::enter(NodeId node) {
  if (entered_[node] == run_) return;
  entered_[node] = run_;
  by_tier_[topology_.node(node).tier].push_back(node);
}

bool TreeSearch::take_items(std::span<const NodeId> hosts, const Widths& widths) {
  items_.clear();
  host_edges_.clear();
  for (const NodeId host : hosts) {
    const std::span<const Arc> ways = topology_.up(host);
    if (ways.size() != 1) {
      items_.push_back({host, kWidest, 0});
      continue;
    }
    const std::uint32_t width = link(ways[0].link, widths);
    if (width == 0) return false;
    items_.push_back({ways[0].to, width, 1});
    host_edges_.push_back({host, ways[0].to, ways[0].link});
  }
  std::sort(items_.begin(), items_.end(), [](const Item& a, const Item& b) { return a.node < b.node; });
  std::size_t kept = 0;
  for (const Item& item : items_) {
    if (kept > 0 && items_[kept - 1].node == item.node) {
      items_[kept - 1].width = std::min(items_[kept - 1].width, item.width);
      items_[kept - 1].hosts += item.hosts;
    } else {
      items_[kept++] = item;
    }
  }
  items_.resize(kept);
  for (const Item& item : items_) enter(item.node);
  return true;
}

/// Enters the nodes above those of a tier.
void TreeSearch::climb(unsigned tier, const Widths& widths) {
  for (const NodeId node : by_tier_[tier]) {
    for (const Arc& arc : topology_.up(node)) {
      if (link(arc.link, widths) > 0) enter(arc.to);
    }
  }
}

void TreeSearch::fill_row(NodeId node, unsigned depth, const Widths& widths) {
  Row& row = rows_[node];
  row = {run_, 0, 0, values_.size(), kWidest};
  if (topology_.node(node).is_switch) row.width = widths.node(node, {.depth = depth});
  if (row.width == 0) return;
  const auto own =
      std::lower_bound(items_.begin(), items_.end(), node, [](const Item& item, NodeId n) { return item.node < n; });
  const bool is_item = own != items_.end() && own->node == node;
  const auto index = static_cast<std::uint32_t>(own - items_.begin());
  row.first = is_item ? index : kWidest;
  row.last = is_item ? index + 1 : 0;
  const std::span<const Arc> ways = topology_.down(node);
  for (const Arc& arc : ways) {
    const Row& below = rows_[arc.to];
    if (below.run != run_ || below.first == below.last || link(arc.link, widths) == 0) continue;
    row.first = std::min(row.first, below.first);
    row.last = std::max(row.last, below.last);
  }
  if (row.first >= row.last) {
    row.first = row.last = 0;
    return;
  }
  values_.resize(row.values + (row.last - row.first));
  Way* const values = values_.data() + row.values - row.first;
  if (is_item) values[index] = {std::min(own->width, row.width), 0};
  for (const Arc& arc : ways) {
    const Row& below = rows_[arc.to];
    const std::uint32_t width = std::min(link(arc.link, widths), row.width);
    // What is below a link without room is not in the row.
    if (below.run != run_ || below.first == below.last || width == 0) continue;
    const std::uint32_t crowd = widths.crowd(arc.link);
    const Way* const from = values_.data() + below.values - below.first;
    for (std::uint32_t i = below.first; i < below.last; ++i) {
      const Way way{std::min(width, from[i].width), std::max(crowd, from[i].crowd)};
      if (way.better_than(values[i])) values[i] = way;
    }
  }
}

/// The rows of all tiers up to one that has the root.
void TreeSearch::fill_rows(unsigned tier, const Widths& widths) {
  values_.clear();
  for (unsigned t = 0; t <= tier; ++t) {
    for (const NodeId node : by_tier_[t]) fill_row(node, tier, widths);
  }
}

/// Of a tree from there: its narrowest way, and its fullest link.
TreeSearch::Way TreeSearch::worst(const Row& row) const {
  if (row.first != 0 || row.last != items_.size()) return {};
  Way out{kWidest, 0};
  for (const Way& way : std::span(values_).subspan(row.values, items_.size())) {
    out = {std::min(out.width, way.width), std::max(out.crowd, way.crowd)};
  }
  return out;
}

std::vector<TreeSearch::Root> TreeSearch::roots(unsigned tier, const Widths& widths) const {
  std::vector<Root> out;
  for (const NodeId node : by_tier_[tier]) {
    if (!topology_.node(node).is_switch) continue;
    const Way way = worst(rows_[node]);
    if (way.width > 0) out.push_back({node, way.width, way.crowd, widths.load(node)});
  }
  std::sort(out.begin(), out.end(), [](const Root& a, const Root& b) {
    return std::tuple(b.width, a.crowd, a.load, a.node) < std::tuple(a.width, b.crowd, b.load, b.node);
  });
  return out;
}

/// No tree is wider than the first switch above each item.
std::uint32_t TreeSearch::bound() const {
  std::uint32_t out = kWidest;
  for (std::uint32_t i = 0; i < items_.size(); ++i) {
    const auto value = [&](NodeId node) {
      const Row& row = rows_[node];
      return row.run == run_ && row.first <= i && i < row.last ? values_[row.values + i - row.first].width : 0;
    };
    if (topology_.node(items_[i].node).is_switch) {
      out = std::min(out, value(items_[i].node));
      continue;
    }
    std::uint32_t best = 0;
    for (const Arc& arc : topology_.up(items_[i].node)) best = std::max(best, value(arc.to));
    out = std::min(out, best);
  }
  return out;
}

/// Marks the items that could have the same switch of a tier as this one.
void TreeSearch::share_parents(std::uint32_t item, unsigned tier, const Widths& widths) {
  ++climb_;
  queue_.assign(1, items_[item].node);
  for (std::size_t at = 0; at < queue_.size(); ++at) {
    const NodeId node = queue_[at];
    if (topology_.node(node).tier == tier) {
      const Row& row = rows_[node];
      for (std::uint32_t i = row.first; i < row.last; ++i) {
        if (values_[row.values + i - row.first].width > 0) shared_[i] = true;
      }
      continue;
    }
    for (const Arc& arc : topology_.up(node)) {
      Mark& to = marks_[arc.to];
      if (to.climbed == climb_ || link(arc.link, widths) == 0 || rows_[arc.to].run != run_) continue;
      to.climbed = climb_;
      queue_.push_back(arc.to);
    }
  }
}

/// Switches that any tree with a root of this tier has: in each tier as many as there are items of which no two could
/// have the same. 1 where links skip tiers.
std::uint32_t TreeSearch::fewest_switches(unsigned tier, const Widths& widths) {
  std::uint32_t out = 1;
  for (unsigned t = 1; t < tier && !topology_.skips_tiers(); ++t) {
    shared_.assign(items_.size(), false);
    for (std::uint32_t item = 0; item < items_.size(); ++item) {
      if (shared_[item]) continue;
      ++out;
      share_parents(item, t, widths);
    }
  }
  return out;
}

std::vector<Found> TreeSearch::run(std::span<const NodeId> hosts, const Widths& widths, bool lowest_only) {
  ++run_;
  for (auto& tier : by_tier_) tier.clear();
  std::vector<Found> frontier;
  if (!take_items(hosts, widths)) return frontier;
  climb(0, widths);
  for (unsigned tier = 1; tier <= topology_.highest_tier(); ++tier) {
    fill_rows(tier, widths);
    if (const auto candidates = roots(tier, widths); !candidates.empty()) {
      Found best;
      best.as.width_mbps = frontier.empty() ? 0 : frontier.back().as.width_mbps;
      best_of(candidates, tier, fewest_switches(tier, widths), widths, best);
      if (best.as.root != kNoNode) frontier.push_back(std::move(best));
      if (!frontier.empty() && (lowest_only || frontier.back().as.width_mbps >= bound())) break;
    }
    climb(tier, widths);
  }
  for (Found& found : frontier) add_hosts(found.tree);
  return frontier;
}

/// The widest tree, of these the one with fewest switches; `best` has a width that it must be above.
void TreeSearch::best_of(const std::vector<Root>& roots, unsigned tier, std::uint32_t fewest, const Widths& widths,
                         Found& best) {
  for (const Root& root : roots) {
    const bool any = best.as.root != kNoNode, perfect = any && best.as.switches <= fewest;
    if (any && !perfect ? root.width < best.as.width_mbps : root.width <= best.as.width_mbps) return;
    Found found;
    if (!build(root, tier, widths, found)) continue;
    const bool wider = found.as.width_mbps > best.as.width_mbps;
    if (wider || (any && found.as.width_mbps == best.as.width_mbps && found.as.switches < best.as.switches)) {
      best = std::move(found);
    }
  }
}

/// Marks what the root reaches by ways of a width.
void TreeSearch::reach_down(NodeId root, std::uint32_t width, const Widths& widths) {
  const auto mark = [&](NodeId node) {
    marks_[node].reached = build_;
    marks_[node].ways = 0;
    queue_.push_back(node);
  };
  queue_.clear();
  mark(root);
  for (std::size_t at = 0; at < queue_.size(); ++at) {
    const NodeId from = queue_[at];
    for (const Arc& arc : topology_.down(from)) {
      const Row& row = rows_[arc.to];
      if (row.run != run_ || row.first == row.last || row.width < width || link(arc.link, widths) < width) continue;
      Mark& to = marks_[arc.to];
      if (to.reached != build_) mark(arc.to);
      ++to.ways;
      to.only = {arc.link, from};
    }
  }
}

void TreeSearch::join(NodeId child, const Arc& arc) {
  edges_.push_back({child, arc.to, arc.link});
  Mark& parent = marks_[arc.to];
  if (parent.active != build_) {
    parent.active = build_;
    parent.children = 0;
    active_[topology_.node(arc.to).tier].push_back(arc.to);
  }
  ++parent.children;
}

Arc TreeSearch::widest(NodeId child, NodeId parent, std::uint32_t width, const Widths& widths) {
  Arc best;
  std::uint32_t most = 0;
  for (const Arc& arc : topology_.up(child)) {
    if (arc.to != parent || link(arc.link, widths) < width || link(arc.link, widths) <= most) continue;
    best = arc;
    most = link(arc.link, widths);
  }
  return best;
}

/// Set cover: the parent first that most children without one can have.
void TreeSearch::choose_greedily(const std::vector<NodeId>& children, std::uint32_t width, const Widths& widths) {
  std::vector<NodeId> waiting = children, parents;
  while (!waiting.empty()) {
    parents.clear();
    for (const NodeId child : waiting) {
      for (const Arc& arc : topology_.up(child)) {
        Mark& parent = marks_[arc.to];
        if (parent.reached != build_ || link(arc.link, widths) < width) continue;
        if (std::find(parents.begin(), parents.end(), arc.to) == parents.end()) {
          parents.push_back(arc.to);
          parent.counted = 0;
        } else if (parent.counted_by == child) {
          continue;  // another link between the two
        }
        parent.counted_by = child;
        ++parent.counted;
      }
    }
    const NodeId best = *std::max_element(parents.begin(), parents.end(), [&](NodeId a, NodeId b) {
      const auto worth = [&](NodeId n) {
        return std::tuple(marks_[n].counted, marks_[n].active == build_, ~widths.load(n), ~n);
      };
      return worth(a) < worth(b);
    });
    std::erase_if(waiting, [&](NodeId child) {
      const Arc arc = widest(child, best, width, widths);
      if (arc.link == kNoLink) return false;
      join(child, arc);
      return true;
    });
  }
}

void TreeSearch::choose_parents(unsigned tier, std::uint32_t width, const Widths& widths) {
  // Parents are of higher tiers: the list does not grow meanwhile.
  const std::vector<NodeId>& children = active_[tier];
  const bool forced =
      std::all_of(children.begin(), children.end(), [&](NodeId node) { return marks_[node].ways == 1; });
  if (!forced) return choose_greedily(children, width, widths);
  for (const NodeId node : children) join(node, marks_[node].only);
}

bool TreeSearch::build(const Root& root, unsigned depth, const Widths& widths, Found& out) {
  ++build_;
  edges_.clear();
  for (auto& tier : active_) tier.clear();
  reach_down(root.node, root.width, widths);
  for (const Item& item : items_) {
    marks_[item.node].active = build_;
    marks_[item.node].children = item.hosts;
    active_[topology_.node(item.node).tier].push_back(item.node);
  }
  for (unsigned tier = 0; tier < depth; ++tier) choose_parents(tier, root.width, widths);
  out.as = {root.node, depth, kWidest, 0};
  for (const Item& item : items_) out.as.width_mbps = std::min(out.as.width_mbps, item.width);
  for (const TreeEdge& edge : edges_) out.as.width_mbps = std::min(out.as.width_mbps, link(edge.link, widths));
  out.tree.root = root.node;
  for (unsigned tier = 1; tier <= depth; ++tier) {
    for (const NodeId node : active_[tier]) {
      const TreeSwitch& s = out.tree.switches.emplace_back(TreeSwitch{node, marks_[node].children, node == root.node});
      const std::uint32_t width = widths.node(node, {depth, s.children, s.endpoints()});
      out.as.width_mbps = std::min(out.as.width_mbps, width);
      if (width == 0) return false;
    }
  }
  out.as.switches = static_cast<std::uint32_t>(out.tree.switches.size());
  out.tree.edges = edges_;
  return true;
}

void TreeSearch::add_hosts(Tree& tree) const {
  tree.edges.insert(tree.edges.begin(), host_edges_.begin(), host_edges_.end());
}

}  // namespace weft::inc::policy
