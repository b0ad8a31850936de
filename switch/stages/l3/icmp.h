// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// ICMP and ICMPv6 errors about packets that could not be forwarded.
#pragma once

#include <cstdint>

#include "switch/pipeline/context.h"
#include "switch/stages/l3/counters.h"
#include "switch/tables/interfaces.h"

namespace weft::stages {

/// What went wrong.
enum class IcmpError : std::uint8_t { time_exceeded, no_route, prohibited, host_unreachable, too_big };

/// Sends the errors of one worker, at most so many a second.
///
/// An error leaves through the port on which its subject came in, to the MAC address that it came from: whoever passes
/// packets of a host to this switch also takes packets to that host. So no lookup is needed, and none can fail.
class L3Icmp {
 public:
  /// @param errors_per_s  0 sends none; a twentieth of it may go out at once
  L3Icmp(const tables::Interfaces& interfaces, L3Counters& counters, std::uint64_t errors_per_s);

  /// Sends an error about a packet whose headers are as it was received, unless RFC 1812 4.3.2.7 or RFC 4443 2.4 forbid
  /// it: not about ICMP errors, fragments but the first, multicast, and sources that are not one host.
  /// @param mtu_bytes  for too_big: the largest IP packet that would have fitted
  void send(pipeline::Context& context, const rte_mbuf* about, IcmpError error, std::uint32_t mtu_bytes = 0) noexcept;

 private:
  [[nodiscard]] bool may_report(const rte_mbuf* about) const noexcept;
  [[nodiscard]] bool allowed(TimeNs now) noexcept;

  const tables::Interfaces& interfaces_;
  L3Counters& counters_;
  std::uint64_t per_second_;
  std::uint64_t tokens_;  ///< in units of 1 / 10^9 of an error
  TimeNs updated_ = 0;
};

/// Source and destination of a packet of known IP version.
struct IpEnds {
  wire::IpAddress source{};
  wire::IpAddress destination{};
};
[[nodiscard]] IpEnds ip_ends(const rte_mbuf* m) noexcept;

}  // namespace weft::stages
