// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// A group as an operator or a program describes it: what the engine needs, and where the packets of its endpoints go.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "collectives/engine/group.h"
#include "switch/config/schema/schema.h"
#include "switch/pipeline/switch_info.h"
#include "switch/wire/addresses.h"
#include "switch/wire/types.h"

namespace weft::inc {

/// Both ends of an edge of the tree, as its packets name them.
struct EdgeSpec {
  wire::IpAddress address{};  ///< ours
  wire::Qpn qp{};             ///< ours
  wire::IpAddress peer{};
  wire::Qpn peer_qp{};
  std::uint16_t source_port = 0;  ///< UDP source port of our packets

  friend bool operator==(const EdgeSpec&, const EdgeSpec&) = default;
};

struct GroupSpec {
  GroupConfig config;
  std::vector<EdgeSpec> edges;         ///< by endpoint
  std::optional<std::uint32_t> block;  ///< of the switch's memory, that groups which name it have in turns
  std::uint8_t dscp = 26;
  std::uint8_t ack_dscp = 26;  ///< of ACKs and NAKs
  std::uint8_t cnp_dscp = 48;
  config::Mark mark{};

  friend bool operator==(const GroupSpec& a, const GroupSpec& b) {
    return a.config == b.config && a.edges == b.edges && a.block == b.block && a.dscp == b.dscp &&
           a.ack_dscp == b.ack_dscp && a.cnp_dscp == b.cnp_dscp;
  }
};

/// What a group may say: an item of `groups`, and the argument of `weftctl inc create`.
[[nodiscard]] config::Schema group_schema();

/// The group that a value of group_schema() describes, or what is wrong with it, in words.
/// @param info  the switch that is to run it
[[nodiscard]] std::optional<std::string> read_group(const config::Value& value, const pipeline::SwitchInfo& info,
                                                    GroupSpec& out);

/// What an operator lets groups have on a switch, of what the engine has.
struct Offer {
  std::vector<Mode> modes;              ///< empty: all
  std::optional<std::uint32_t> fan_in;  ///< children that a group may have here; nullopt: as many as the engine takes

  [[nodiscard]] bool has(Mode mode) const noexcept;
  /// Why a group is not taken, in words.
  [[nodiscard]] std::optional<std::string> refusal(const GroupSpec& group) const;
};
/// @param options  of the stage
[[nodiscard]] Offer read_offer(const config::Value& options);

/// What keeps two groups from being on one switch, in words: they have the same id, or packets would be for both.
[[nodiscard]] std::optional<std::string> conflict(const GroupSpec& a, const GroupSpec& b);

/// Whether a router forwards what comes out of the stage, or a bridge.
[[nodiscard]] bool is_routed(const pipeline::SwitchInfo& info);

}  // namespace weft::inc
