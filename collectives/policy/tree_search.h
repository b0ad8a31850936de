// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// The widest trees between hosts that go up and down the tiers (EPIC 6.2: from lower to upper tiers, switches that
// reach all members without higher ones; the Pareto frontier of depth and width).
//
// From a root, the widest way down to each host is found on its own; together they make a tree as wide as any, because
// all lead through ever lower tiers. Among trees of that width the one with fewest switches is taken where each switch
// has one way down to a host, as in leaf-spine fabrics and fat trees; elsewhere each tier takes those parents first
// that most children can have.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "collectives/policy/request.h"

namespace weft::inc::policy {

/// A switch's place in a tree.
struct Place {
  unsigned depth = 1;  ///< links between root and hosts, if all are as far away as the tiers say
  std::uint32_t children = 1, endpoints = 2;
};

/// What a policy makes of links and switches, for one group. Widths are in Mbit/s; 0: not to be used.
class Widths {
 public:
  virtual ~Widths() = default;
  [[nodiscard]] virtual std::uint32_t link(LinkId link) const = 0;
  /// Does not grow with any member of the place.
  [[nodiscard]] virtual std::uint32_t node(NodeId node, const Place& place) const = 0;
  /// Groups that have the link already. Between trees that are as wide and have as few switches, the one is taken whose
  /// fullest link has the fewest: a width says nothing of that where the hosts' own links are narrower.
  [[nodiscard]] virtual std::uint32_t crowd(LinkId link) const = 0;
  /// Between trees that are as good in that, too, the root with the smallest is taken.
  [[nodiscard]] virtual std::uint32_t load(NodeId root) const = 0;
};

struct Found {
  Tree tree;
  Candidate as{};
};

class TreeSearch {
 public:
  /// @param topology  outlives this, and keeps its nodes and links
  explicit TreeSearch(const Topology& topology);

  /// The Pareto frontier: the best tree of a tier, each deeper one wider than all before.
  /// @param hosts        two or more, each once
  /// @param lowest_only  the first alone
  [[nodiscard]] std::vector<Found> run(std::span<const NodeId> hosts, const Widths& widths, bool lowest_only);

 private:
  /// Hosts that are to be reached at once: those of one switch, or a host with several ways up.
  struct Item {
    NodeId node = kNoNode;
    std::uint32_t width = 0;  ///< of the links of its hosts
    std::uint32_t hosts = 0;
  };
  /// The best way down from a node to an item.
  struct Way {
    std::uint32_t width = 0;  ///< 0: there is none
    std::uint32_t crowd = 0;  ///< of its fullest link, without those of hosts, which all ways have

    [[nodiscard]] bool better_than(const Way& o) const noexcept {
      return width != o.width ? width > o.width : crowd < o.crowd;
    }
  };
  /// The ways down from a node to items [first, last).
  struct Row {
    std::uint32_t run = 0;  ///< the row is of this run
    std::uint32_t first = 0, last = 0;
    std::size_t values = 0;   ///< where they begin
    std::uint32_t width = 0;  ///< of the node itself
  };
  /// A root with the width of its tree, as far as its switches have few endpoints.
  struct Root {
    NodeId node = kNoNode;
    std::uint32_t width = 0, crowd = 0, load = 0;
  };

  bool take_items(std::span<const NodeId> hosts, const Widths& widths);
  void enter(NodeId node);
  void climb(unsigned tier, const Widths& widths);
  void fill_rows(unsigned tier, const Widths& widths);
  void fill_row(NodeId node, unsigned depth, const Widths& widths);
  [[nodiscard]] Way worst(const Row& row) const;
  [[nodiscard]] std::vector<Root> roots(unsigned tier, const Widths& widths) const;
  [[nodiscard]] std::uint32_t bound() const;
  [[nodiscard]] std::uint32_t fewest_switches(unsigned tier, const Widths& widths);
  void share_parents(std::uint32_t item, unsigned tier, const Widths& widths);
  void best_of(const std::vector<Root>& roots, unsigned tier, std::uint32_t fewest, const Widths& widths, Found& best);
  bool build(const Root& root, unsigned depth, const Widths& widths, Found& out);
  void reach_down(NodeId root, std::uint32_t width, const Widths& widths);
  void choose_parents(unsigned tier, std::uint32_t width, const Widths& widths);
  void choose_greedily(const std::vector<NodeId>& children, std::uint32_t width, const Widths& widths);
  void join(NodeId child, const Arc& arc);
  [[nodiscard]] Arc widest(NodeId child, NodeId parent, std::uint32_t width, const Widths& widths);
  [[nodiscard]] std::uint32_t link(LinkId id, const Widths& widths);
  void add_hosts(Tree& tree) const;

  const Topology& topology_;
  std::uint32_t run_ = 0, build_ = 0, climb_ = 0;
  std::vector<Item> items_;
  std::vector<TreeEdge> host_edges_;
  std::vector<std::vector<NodeId>> by_tier_;  ///< nodes that reach some host, going down
  std::vector<Row> rows_;                     ///< by node
  std::vector<Way> values_;
  std::vector<std::uint32_t> link_run_, link_width_;  ///< by link: as asked in this run
  std::vector<std::uint32_t> entered_;                ///< by node: the run
  std::vector<bool> shared_;                          ///< by item: some earlier one may have its switch of a tier
  // Of the tree that is being built, by node:
  struct Mark {
    std::uint32_t reached = 0;  ///< the build in which its root reached the node
    std::uint32_t active = 0;   ///< the build in which the tree has it
    std::uint32_t ways = 0;     ///< arcs from reached nodes
    Arc only{};                 ///< to the parent, when there is one way
    std::uint32_t children = 0, counted = 0;
    NodeId counted_by = kNoNode;
    std::uint32_t climbed = 0;  ///< see share_parents()
  };
  std::vector<Mark> marks_;
  std::vector<std::vector<NodeId>> active_;  ///< by tier
  std::vector<NodeId> queue_;
  std::vector<TreeEdge> edges_;
};

}  // namespace weft::inc::policy
