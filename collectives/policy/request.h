// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// What a group asks of the fabric, and what a policy answers.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/policy/topology.h"

namespace weft::inc::policy {

using GroupId = std::uint32_t;

/// Memory that a group takes at a switch:
///   fixed + units * (unit + unit_per_endpoint * endpoints)   bytes
/// A unit is a message of the window, the same number at all switches of the tree (EPIC table 2: M and W).
struct MemoryDemand {
  std::uint64_t fixed_bytes = 0;
  std::uint64_t unit_bytes = 0;               ///< at least 1 together with the next
  std::uint64_t unit_bytes_per_endpoint = 0;  ///< of reproducible sums, and of buffers for each neighbour
  std::uint32_t least_units = 1;              ///< fewer are of no use
  std::uint32_t units = 1;                    ///< what the group can make use of
  std::uint32_t message_bytes = 0;            ///< of payload in a unit

  [[nodiscard]] constexpr std::uint64_t bytes(std::uint32_t count, unsigned endpoints) const noexcept {
    return fixed_bytes + count * (unit_bytes + unit_bytes_per_endpoint * endpoints);
  }
  /// Units that a number of bytes has room for, `units` at most; 0 when that is below `least_units`.
  [[nodiscard]] std::uint32_t units_in(std::uint64_t bytes, unsigned endpoints) const noexcept;
};

/// What a group would rather have, when a deeper tree is a wider one.
enum class Prefer : std::uint8_t { latency, bandwidth };

struct Request {
  GroupId group = 0;
  std::vector<NodeId> hosts;  ///< two or more, each once: in the order of ranks
  Mode mode = Mode::ii;
  std::uint16_t types = 0;  ///< that all switches must add up; see bit(DataType)
  MemoryDemand memory;
  std::uint32_t rate_mbps = 0;  ///< that is set aside on each link of the tree; 0: a fair share of what is left
  Prefer prefer = Prefer::latency;
  // Temporal multiplexing:
  std::uint64_t job = 0;                ///< groups of one job can be staggered; 0: of none
  std::uint32_t duty_per_mille = 1000;  ///< of the time that it communicates: 1 to 1000
  std::uint64_t period_ns = 0;          ///< of its job's iterations, in each of which it has one burst; 0: not known
  std::uint32_t moment = 0;  ///< groups of a job with the same one communicate at the same time; 0: not known
};

/// Why a group gets no tree.
enum class Reason : std::uint8_t {
  none,               ///< it gets one
  bad_request,        ///< too few hosts, one twice, an unknown one, numbers out of range
  group_exists,       ///< there is a group with its number
  host_down,          ///< a host has no way into the fabric
  no_path,            ///< no switch reaches all hosts, going down
  unsupported,        ///< switches that can do what it needs do not connect its hosts
  links_taken,        ///< edge-disjoint trees: other groups have links that every tree needs
  no_memory,          ///< switches have too little memory left
  no_bandwidth,       ///< links have less left than it wants set aside
  no_share,           ///< temporal multiplexing: blocks that are left are busy for too much of the time
  too_many_children,  ///< a switch would have more children than it takes
  no_gain,            ///< fewer hosts than PolicyOptions::least_hosts
};
/// "links_taken"...
[[nodiscard]] std::string_view to_string(Reason reason) noexcept;

/// What stood in the way, at a link or at a switch.
struct Blocker {
  Reason reason = Reason::none;
  NodeId node = kNoNode;
  LinkId link = kNoLink;
  std::uint64_t needed = 0;     ///< bytes, Mbit/s or children
  std::uint64_t available = 0;  ///< of these
  GroupId holder = 0;           ///< the group that has the link

  friend bool operator==(const Blocker&, const Blocker&) = default;
};

struct TreeEdge {
  NodeId child = kNoNode, parent = kNoNode;
  LinkId link = kNoLink;

  friend bool operator==(const TreeEdge&, const TreeEdge&) = default;
};

/// A switch of a tree.
struct TreeSwitch {
  NodeId node = kNoNode;
  std::uint32_t children = 0;
  bool root = false;

  [[nodiscard]] std::uint32_t endpoints() const noexcept { return children + (root ? 0 : 1); }
  friend bool operator==(const TreeSwitch&, const TreeSwitch&) = default;
};

/// An IncTree (EPIC 3.1). Each of its edges is one link.
struct Tree {
  NodeId root = kNoNode;
  std::vector<TreeEdge> edges;       ///< those of hosts first, then from lower to higher tiers
  std::vector<TreeSwitch> switches;  ///< from lower to higher tiers; the root is the last

  friend bool operator==(const Tree&, const Tree&) = default;
};

/// A tree beside others: how deep, and how wide (EPIC 6.2, "path width").
struct Candidate {
  NodeId root = kNoNode;
  unsigned depth = 0;            ///< links between root and hosts
  std::uint32_t width_mbps = 0;  ///< what links and memory of its narrowest place let through
  std::uint32_t switches = 0;

  friend bool operator==(const Candidate&, const Candidate&) = default;
};

/// Memory of a group at a switch.
struct Allocation {
  NodeId node = kNoNode;
  std::uint64_t bytes = 0;
  std::uint32_t block = 0;  ///< number of the block that holds it, at this switch
  bool shared = false;      ///< with groups that were there before

  friend bool operator==(const Allocation&, const Allocation&) = default;
};

/// What a policy would do, or has done.
struct Decision {
  Reason reason = Reason::none;
  std::string detail;             ///< of bad_request: a sentence
  std::vector<Blocker> blockers;  ///< at most kMaxBlockers
  std::size_t more_blockers = 0;  ///< that are not in the list
  Tree tree;
  std::uint32_t units = 0;
  std::uint32_t width_mbps = 0;
  std::vector<Candidate> frontier;  ///< the trees that no other one is both shallower and wider than
  std::vector<Allocation> memory;   ///< in the order of tree.switches
  /// Temporal multiplexing: other groups have the same memory. Then each collective takes locks (lock_recorder.h).
  bool shares_memory = false;
  /// They are all of its job, and bursts that begin at this time of the period keep out of each other's way.
  bool staggered = false;
  std::uint64_t offset_ns = 0;

  [[nodiscard]] bool admitted() const noexcept { return reason == Reason::none; }
  friend bool operator==(const Decision&, const Decision&) = default;
};
inline constexpr std::size_t kMaxBlockers = 16;

}  // namespace weft::inc::policy
