// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Writes the ICMP errors that a router sends on its own account. ARP: wire/emit.h, neighbour discovery:
// wire/neighbour.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "switch/wire/headers.h"
#include "switch/wire/neighbour.h"

namespace weft::stages {

/// What an ICMP or ICMPv6 error says.
struct IcmpMessage {
  std::uint8_t type = 0;
  std::uint8_t code = 0;
  std::uint32_t rest = 0;  ///< MTU, where the type has one
};

/// Where the quoted packet begins in the frame of an ICMP error.
[[nodiscard]] constexpr std::size_t icmp_quote_offset(bool v6) noexcept {
  return sizeof(wire::EthernetHeader) + (v6 ? sizeof(wire::Ipv6Header) : sizeof(wire::Ipv4Header)) +
         sizeof(wire::IcmpHeader);
}
/// Bytes of a packet that an error quotes at most: RFC 1812 4.3.2.3 wants 576 bytes in all, RFC 4443 2.4 the minimum
/// MTU of IPv6.
[[nodiscard]] constexpr std::size_t icmp_quote_limit(bool v6) noexcept {
  return (v6 ? 1280 : 576) - (icmp_quote_offset(v6) - sizeof(wire::EthernetHeader));
}

/// Writes the headers and checksums of an ICMP error before its quote, which is already in its place up to the end of
/// `frame`.
void write_icmp_error(std::span<std::uint8_t> frame, const wire::LinkAddresses& link, const wire::IpAddress& source,
                      const wire::IpAddress& destination, const IcmpMessage& message) noexcept;

}  // namespace weft::stages
