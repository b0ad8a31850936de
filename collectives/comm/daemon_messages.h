// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// What the host library and weft-incd tell each other, over a unix socket of sequenced packets (SOCK_SEQPACKET): one
// message per packet. A message begins with its version and its kind, one byte each; numbers are in network byte order.
//
//   library -> daemon: create, hold, leave, explain       daemon -> library: created, held, gone, explained
//
// Who ends the connection without having left gives its groups up: a process that dies does.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "collectives/comm/transport.h"

namespace weft::inc::comm {

inline constexpr std::uint8_t kDaemonVersion = 1;
inline constexpr std::size_t kMaxDaemonMessage = 64 * 1024;
inline constexpr std::string_view kDaemonSocket = "/run/weft/incd.sock";

/// The mode of a group's switches; `any` leaves it to the manager.
enum class GroupMode : std::uint8_t { any = 0, i = 1, ii = 2, iii = 3 };
inline constexpr std::size_t kGroupModes = 4;

/// One rank asks for all: the group of these members. Answered by `created`.
struct CreateGroup {
  std::uint32_t rank = 0;  ///< whose lease this connection holds
  GroupMode mode = GroupMode::any;
  bool reproducible = false;
  std::uint32_t mtu = 0;
  std::uint32_t message_packets = 0;
  std::uint32_t window = 0;
  std::vector<QpEnd> members;  ///< by rank
  /// How the group communicates, see weft_inc_group_options; zeros: it does not say. Then they are not written, so
  /// daemons that know nothing of them take all other groups.
  struct Rhythm {
    std::uint32_t duty_per_mille = 0, period_us = 0, job = 0;

    friend bool operator==(const Rhythm&, const Rhythm&) = default;
  };
  Rhythm rhythm{};

  friend bool operator==(const CreateGroup&, const CreateGroup&) = default;
};

/// The others hold their leases. Answered by `held`.
struct HoldGroup {
  std::uint32_t group = 0;
  std::uint64_t generation = 0;
  std::uint32_t rank = 0;
  std::uint32_t lease_ms = 0;  ///< as `created` says

  friend bool operator==(const HoldGroup&, const HoldGroup&) = default;
};

/// This rank is through with the group. Not answered.
struct LeaveGroup {
  std::uint32_t group = 0;
  std::uint64_t generation = 0;
  bool end = false;  ///< all ranks are: the group ends

  friend bool operator==(const LeaveGroup&, const LeaveGroup&) = default;
};

/// Why there is no group; the words are those of weft.inc.v1, and `no_manager`.
struct GroupCreated {
  std::string refusal;  ///< "none": there is one
  std::string reason;   ///< of no_tree
  std::string sentence;
  std::uint32_t group = 0;
  std::uint64_t generation = 0;
  std::uint32_t window = 0;  ///< messages that a rank may have under way
  std::uint32_t lease_ms = 0;
  struct Endpoint {
    wire::IpAddress address{};
    std::uint32_t qpn = 0;

    friend bool operator==(const Endpoint&, const Endpoint&) = default;
  };
  std::vector<Endpoint> endpoints;  ///< by rank
  /// Its memory of switches is other groups', too: ranks ask before each collective. Not written when it is false, so
  /// libraries that know nothing of it take all other groups.
  bool turns = false;
  /// Of a group that takes turns: when its bursts keep out of those of its job's other groups, in its period. Not
  /// written where there is no such time.
  std::optional<std::uint64_t> offset_ns{};

  friend bool operator==(const GroupCreated&, const GroupCreated&) = default;
};

struct GroupHeld {
  std::uint32_t group = 0;
  std::uint64_t generation = 0;
  bool running = false;  ///< false: there is no such group any more

  friend bool operator==(const GroupHeld&, const GroupHeld&) = default;
};

/// The group has ended: somebody's lease, an operator, or its switches.
struct GroupGone {
  std::uint32_t group = 0;
  std::uint64_t generation = 0;

  friend bool operator==(const GroupGone&, const GroupGone&) = default;
};

/// The switches have refused what this rank sent: why? Answered by `explained`.
struct ExplainGroup {
  std::uint32_t group = 0;
  std::uint64_t generation = 0;

  friend bool operator==(const ExplainGroup&, const ExplainGroup&) = default;
};

/// What the switches say of a group that they have ended. It also comes, unasked, in front of `gone`.
struct GroupExplained {
  std::uint32_t group = 0;
  std::uint64_t generation = 0;
  std::string sentence;  ///< names ranks and what they said; empty: nobody knows

  friend bool operator==(const GroupExplained&, const GroupExplained&) = default;
};

using DaemonMessage =
    std::variant<CreateGroup, HoldGroup, LeaveGroup, GroupCreated, GroupHeld, GroupGone, ExplainGroup, GroupExplained>;

[[nodiscard]] std::vector<std::uint8_t> write_message(const DaemonMessage& message);
/// nullopt: it is no message of this version, or has something behind its end.
[[nodiscard]] std::optional<DaemonMessage> read_message(std::span<const std::uint8_t> bytes);

}  // namespace weft::inc::comm
