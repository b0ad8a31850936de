// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// The fabric as the manager sees it (EPIC 6.1): switches with what they can do, hosts, and links between them. Trees go
// up and down its tiers: hosts are tier 0, and a link between switches of one tier belongs to no tree.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "collectives/engine/group.h"

namespace weft::inc::policy {

using NodeId = std::uint32_t;
using LinkId = std::uint32_t;
inline constexpr NodeId kNoNode = std::numeric_limits<NodeId>::max();
inline constexpr LinkId kNoLink = std::numeric_limits<LinkId>::max();
/// Highest tier of a switch.
inline constexpr unsigned kMaxTier = 15;

/// What a switch can do for groups, as its agent reports it.
struct Abilities {
  std::uint64_t memory_bytes = 0;  ///< for payload of slots
  std::uint8_t modes = 0;          ///< bits: see bit(Mode)
  std::uint16_t types = 0;         ///< bits: see bit(DataType)
  std::uint16_t fan_in = 0;        ///< most children of a node
  bool blocks = true;              ///< groups of Mode II may have memory in turns

  friend bool operator==(const Abilities&, const Abilities&) = default;
};

[[nodiscard]] constexpr std::uint8_t bit(Mode mode) noexcept {
  return static_cast<std::uint8_t>(1u << static_cast<unsigned>(mode));
}
[[nodiscard]] constexpr std::uint16_t bit(DataType type) noexcept {
  return static_cast<std::uint16_t>(1u << static_cast<unsigned>(type));
}
inline constexpr std::uint8_t kAllModes = bit(Mode::i) | bit(Mode::ii) | bit(Mode::iii);
inline constexpr std::uint16_t kAllTypes = (1u << kDataTypes) - 1;
/// What every weft-switch with the stage inc can do, besides its memory.
[[nodiscard]] constexpr Abilities weft_abilities(std::uint64_t memory_bytes) noexcept {
  return {memory_bytes, kAllModes, kAllTypes, static_cast<std::uint16_t>(kMaxEndpoints - 1)};
}

struct Node {
  std::string name;
  bool is_switch = false;
  bool up = true;
  unsigned tier = 0;  ///< 0: a host
  Abilities abilities;
};

struct Link {
  NodeId lower = kNoNode, upper = kNoNode;  ///< by tier; of equal tiers the first that was named is `lower`
  std::uint32_t rate_mbps = 0;              ///< of each direction
  bool up = true;
};

/// A way from a node to a neighbour.
struct Arc {
  LinkId link = kNoLink;
  NodeId to = kNoNode;
};

class Topology {
 public:
  /// Names are unique among switches and hosts; kNoNode for one that is there already.
  /// @param tier  1 to kMaxTier; nullopt: one more than that of the nearest host is away, found by finish()
  NodeId add_switch(std::string name, const Abilities& abilities, std::optional<unsigned> tier = std::nullopt);
  NodeId add_host(std::string name);
  /// Several links between the same two are several links. kNoLink: both ends are one, both are hosts, or none is
  /// known.
  LinkId add_link(NodeId a, NodeId b, std::uint32_t rate_mbps);
  /// To be called when all is added, before anything below. A switch without a tier that no host can reach is an error,
  /// in words.
  /// @param lone_switches  such a switch is of tier 1 instead: its links are not known yet
  [[nodiscard]] std::optional<std::string> finish(bool lone_switches = false);

  /// What agents report while groups run. A node that is down takes its links with it.
  void set_node_up(NodeId node, bool up) noexcept { nodes_[node].up = up; }
  void set_link_up(LinkId link, bool up) noexcept { links_[link].up = up; }
  void set_abilities(NodeId node, const Abilities& abilities) noexcept { nodes_[node].abilities = abilities; }

  [[nodiscard]] const std::vector<Node>& nodes() const noexcept { return nodes_; }
  [[nodiscard]] const std::vector<Link>& links() const noexcept { return links_; }
  [[nodiscard]] const Node& node(NodeId id) const noexcept { return nodes_[id]; }
  [[nodiscard]] const Link& link(LinkId id) const noexcept { return links_[id]; }
  [[nodiscard]] NodeId find(std::string_view name) const noexcept;
  /// Ways to nodes of higher and of lower tiers.
  [[nodiscard]] std::span<const Arc> up(NodeId node) const noexcept { return arcs(up_, node); }
  [[nodiscard]] std::span<const Arc> down(NodeId node) const noexcept { return arcs(down_, node); }
  /// The link and both its ends are up.
  [[nodiscard]] bool usable(LinkId link) const noexcept {
    const Link& l = links_[link];
    return l.up && nodes_[l.lower].up && nodes_[l.upper].up;
  }
  [[nodiscard]] unsigned highest_tier() const noexcept { return highest_; }
  /// Some link leads up by more than one tier.
  [[nodiscard]] bool skips_tiers() const noexcept { return skips_; }
  /// "leaf1 - spine2"
  [[nodiscard]] std::string link_name(LinkId link) const;

 private:
  /// All arcs in one array; those of node n are [first[n], first[n + 1]).
  struct Arcs {
    std::vector<std::uint32_t> first;
    std::vector<Arc> all;
  };
  static std::span<const Arc> arcs(const Arcs& of, NodeId node) noexcept {
    return {of.all.data() + of.first[node], of.first[node + 1] - of.first[node]};
  }
  NodeId add(Node node);
  [[nodiscard]] std::optional<std::string> find_tiers(bool lone_switches);
  void make_arcs(Arcs& out, bool up) const;

  std::vector<Node> nodes_;
  std::vector<Link> links_;
  std::unordered_map<std::string, NodeId> by_name_;
  Arcs up_, down_;
  unsigned highest_ = 0;
  bool skips_ = false;
};

/// The usual fabrics, for simulations, benchmarks and tests. Names: "h0", "leaf0", "spine0"; of fat trees "h0",
/// "edge0", "agg0", "core0".
[[nodiscard]] Topology leaf_spine(std::uint32_t leaves, std::uint32_t spines, std::uint32_t hosts_per_leaf,
                                  const Abilities& abilities, std::uint32_t rate_mbps);
/// k pods of k/2 edge and k/2 aggregation switches, (k/2)^2 cores, k/2 hosts per edge switch. `k` is even.
[[nodiscard]] Topology fat_tree(std::uint32_t k, const Abilities& abilities, std::uint32_t rate_mbps);

}  // namespace weft::inc::policy
