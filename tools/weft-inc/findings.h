// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// What `weft-inc doctor` concludes from what it has seen: a sentence for the operator. No network.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "collectives/comm/transport.h"

namespace weft::inc_tool {

struct Finding {
  std::string name;
  std::optional<bool> fine;  ///< nullopt: it could not be looked at
  std::string detail;
};

/// An address by which the manager knows a host.
struct KnownHost {
  std::string name;
  wire::IpAddress address{};
};

/// Whether programs take a GID that the manager knows, and which one they should take otherwise.
/// @param rnic    name of the device, or of the interface of weft's own RNIC
/// @param chosen  what programs take
/// @param all     what they could take
[[nodiscard]] Finding gid_finding(const std::string& rnic, const inc::comm::Gid& chosen,
                                  const std::vector<inc::comm::Gid>& all, const std::vector<KnownHost>& known);

/// What became of packets that were sent to a switch.
struct IcrcFacts {
  /// As the switch counts them.
  struct AtSwitch {
    std::uint64_t taken = 0;     ///< with the right ICRC
    std::uint64_t bad_icrc = 0;  ///< dropped
    std::uint64_t sent = 0;      ///< to this host
  };
  std::string switch_name;
  std::uint64_t packets = 0;                ///< that make up what was sent, without repetitions
  std::uint32_t mtu = 0;                    ///< payload of a full one, bytes
  bool acknowledged = false;                ///< all of it, and the RNIC took the answers
  std::string error;                        ///< of the connection; empty: none
  std::optional<AtSwitch> says;             ///< nullopt: it does not say
  std::optional<std::uint64_t> rnic_drops;  ///< answers that the RNIC dropped because of their ICRC; nullopt: unknown
};

/// Whether packets pass in both directions with the right ICRC, and who drops them otherwise.
[[nodiscard]] Finding icrc_finding(const IcrcFacts& facts);

}  // namespace weft::inc_tool
