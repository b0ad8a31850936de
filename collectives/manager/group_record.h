// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// A group as its manager keeps it: what was asked for, what it got, and whether it is there. As JSON text it outlives
// the process; names stand for switches and hosts, so that another topology file may number them differently.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/policy/request.h"
#include "switch/wire/addresses.h"

namespace weft::inc::manager {

using policy::GroupId;

/// A queue pair of a rank, ready to be connected: what `weft-rnic inc` prints.
struct Member {
  wire::IpAddress address{};
  std::uint32_t qp = 0;
  std::uint32_t first_psn = 0;    ///< that it sends
  std::uint32_t expects_psn = 0;  ///< that it receives
  std::string loss_recovery = "gbn";

  friend bool operator==(const Member&, const Member&) = default;
};

/// How a group works; see collectives/engine/group.h.
struct GroupOptions {
  Mode mode = Mode::ii;
  std::uint32_t mtu = 1024;           ///< 256 to 4096
  std::uint32_t message_packets = 4;  ///< 1 to 65536
  std::uint32_t window = 4;           ///< messages under way that the ranks can make use of: 1 to 65536
  std::uint32_t least_window = 1;     ///< fewer are of no use
  bool reproducible = false;
  std::uint32_t rate_mbps = 0;
  policy::Prefer prefer = policy::Prefer::latency;
  std::uint16_t types = policy::kAllTypes;
  /// Policy temporal: of the time that it communicates. Below 1000 it has memory in turns with other groups; 0: as the
  /// manager's options say.
  std::uint32_t duty_per_mille = 0;
  /// The same: it communicates once in such a period, in one burst; 0: not known. At most 10^9.
  std::uint32_t period_us = 0;
  /// Groups of one job of a tenant with the same period are staggered; 0: of none.
  std::uint32_t job = 0;

  friend bool operator==(const GroupOptions&, const GroupOptions&) = default;
};

/// Why no group can be made of this, or an empty string.
[[nodiscard]] std::string mistake_of(const Member& m);
[[nodiscard]] std::string mistake_of(const GroupOptions& o);

/// Memory that groups with these options take of a switch, as its engine counts it.
[[nodiscard]] policy::MemoryDemand memory_demand(const GroupOptions& options);

enum class GroupState : std::uint8_t {
  installing,  ///< some switches may have it
  running,     ///< all of its switches have it
  removing,    ///< some switches may still have it
};
[[nodiscard]] std::string_view to_string(GroupState state) noexcept;

/// One end of an edge, at a switch.
struct EndpointRecord {
  wire::IpAddress address{}, peer{};
  std::uint32_t qp = 0, peer_qp = 0;
  std::uint32_t first_rx = 0, first_tx = 0;
  std::vector<std::uint32_t> ranks;  ///< behind it; empty: the parent
  bool is_rank = false;              ///< the other end is the only one of `ranks`, not a switch

  friend bool operator==(const EndpointRecord&, const EndpointRecord&) = default;
};

struct SwitchRecord {
  std::string name;
  std::vector<EndpointRecord> endpoints;

  friend bool operator==(const SwitchRecord&, const SwitchRecord&) = default;
};

struct GroupRecord {
  GroupId id = 0;
  std::uint64_t generation = 0;  ///< a number that no group has had before
  GroupState state = GroupState::installing;
  std::string tenant{};         ///< whose it is; "": nobody's but the operators'
  std::vector<Member> members;  ///< in the order of ranks
  GroupOptions options;
  policy::Decision decision;           ///< in the numbers of the topology at hand
  std::vector<SwitchRecord> switches;  ///< in the order of decision.tree.switches

  friend bool operator==(const GroupRecord&, const GroupRecord&) = default;
};

/// Whether its ranks take turns: it has memory that other groups have, too, or may come to have.
[[nodiscard]] inline bool takes_turns(const GroupOptions& options) noexcept {
  return options.mode == Mode::ii && options.duty_per_mille > 0 && options.duty_per_mille < 1000;
}

/// Of its tree.
[[nodiscard]] std::set<policy::NodeId> switches_of(const GroupRecord& record);

[[nodiscard]] std::string to_text(const GroupRecord& record, const policy::Topology& topology);
/// The record of such a text; nullopt when it is none, when it names what the topology does not have, or when no
/// manager can have written it.
/// @param why  receives the reason, in words
[[nodiscard]] std::optional<GroupRecord> from_text(const std::string& text, const policy::Topology& topology,
                                                   std::string* why = nullptr);

/// What `weftctl inc create` takes for a switch of the group.
/// @param at  index in record.switches
[[nodiscard]] std::string switch_spec(const GroupRecord& record, std::size_t at);

}  // namespace weft::inc::manager
