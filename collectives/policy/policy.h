// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Which tree a group gets, and how much memory at its switches (EPIC 6.2). Deterministic: no clock, store or network,
// so that the manager, its dry run and a simulator decide the same.
#pragma once

#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "collectives/policy/ledger.h"
#include "collectives/policy/tree_search.h"

namespace weft::inc::policy {

enum class PolicyKind : std::uint8_t {
  edge_disjoint,  ///< no two trees have a link in common: the lowest tier with a free root
  spatial,        ///< trees share links; each group has memory of its own
  temporal,       ///< groups that are busy for parts of the time share memory as well
};
/// "edge_disjoint"...
[[nodiscard]] std::string_view to_string(PolicyKind kind) noexcept;
[[nodiscard]] std::optional<PolicyKind> policy_kind_from(std::string_view name) noexcept;

struct PolicyOptions {
  PolicyKind kind = PolicyKind::spatial;
  /// From one node of a tree to the next, with the time in the switch (L in EPIC table 2). Slots are held for a round
  /// trip of the tree in Mode II, and of one link in the others (EPIC appendix F).
  std::uint64_t hop_ns = 1000;
  /// Groups of fewer hosts get no tree. In a ring of two each host sends and receives the vector once, as over a tree.
  std::uint32_t least_hosts = 2;
  /// Of the memory of switches that have hosts, 0 to 1000: kept for groups that need no other switch. They take one
  /// place in memory, and others take one at each switch of their trees.
  std::uint32_t local_per_mille = 0;
  /// Temporal multiplexing: blocks are busy for at most so much of the time, 0 to 1000, where bursts are not known to
  /// keep out of each other's way. Who has a block nearly all of the time leaves little of use to others, and they
  /// send it into its ring now and then.
  std::uint32_t shared_per_mille = 1000;
};

class Policy {
 public:
  Policy(Topology topology, const PolicyOptions& options);
  Policy(const Policy&) = delete;
  Policy& operator=(const Policy&) = delete;

  /// What place() would do, which changes nothing.
  [[nodiscard]] Decision explain(const Request& request);
  /// Gives the group what it asks for, wholly or not at all.
  Decision place(const Request& request);
  /// Places all groups, or none if one is refused. Groups that communicate at the same time, after which their job goes
  /// on, end with the slowest one: trees for some of them would take memory and gain nothing.
  /// @return decisions in the order of requests, up to the first that is refused; then that one alone is not admitted,
  ///         and those before it are what it was refused beside
  std::vector<Decision> place_all(std::span<const Request> requests);
  /// Gives it what explain() has said, since when nothing has changed.
  void take(const Request& request, const Decision& decision);
  /// Takes a group in as it was placed before, by an earlier process. An error in words when that does not fit.
  [[nodiscard]] std::optional<std::string> adopt(const Request& request, const Decision& decision);
  /// Takes everything back, but the memory of switches that may still have the group. False when there is no such
  /// group. May be called again, with fewer switches, until none is left.
  bool release(GroupId group, const std::set<NodeId>& except = {});

  struct Placed {
    Request request;
    Decision decision;
  };
  [[nodiscard]] const std::unordered_map<GroupId, Placed>& groups() const noexcept { return groups_; }
  [[nodiscard]] const Ledger& ledger() const noexcept { return ledger_; }
  [[nodiscard]] const PolicyOptions& options() const noexcept { return options_; }
  [[nodiscard]] const Topology& topology() const noexcept { return topology_; }
  /// What goes down and comes back, or reports other abilities, matters to groups that come after.
  void set_node_up(NodeId node, bool up) noexcept { topology_.set_node_up(node, up); }
  void set_link_up(LinkId link, bool up) noexcept { topology_.set_link_up(link, up); }
  void set_abilities(NodeId node, const Abilities& abilities) noexcept { topology_.set_abilities(node, abilities); }

 private:
  [[nodiscard]] std::optional<Decision> refuse(const Request& request) const;
  void allocate(const Request& request, Decision& decision) const;
  void stagger(const Request& request, Decision& decision) const;
  void diagnose(const Request& request, Decision& decision);

  Topology topology_;
  PolicyOptions options_;
  Ledger ledger_;
  TreeSearch search_;
  std::unordered_map<GroupId, Placed> groups_;
};

/// A decision in sentences, for people.
[[nodiscard]] std::vector<std::string> sentences(const Topology& topology, const Request& request,
                                                 const Decision& decision);

}  // namespace weft::inc::policy
