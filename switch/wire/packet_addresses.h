// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// IP addresses of a packet that was parsed, and the networks that they lie in.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "switch/wire/addresses.h"
#include "switch/wire/hash.h"
#include "switch/wire/headers.h"
#include "switch/wire/parsed.h"

namespace weft::wire {

/// @param parsed  of an IPv4 or IPv6 packet that is no ARP message
/// @param frame   its first byte
[[nodiscard]] inline IpAddress source_address(const Parsed& parsed, const std::uint8_t* frame) noexcept {
  if (!parsed.has(ParsedFlag::ipv6)) return IpAddress::v4(static_cast<std::uint32_t>(parsed.address_key >> 32));
  return IpAddress::v6(header_at<Ipv6Header>(frame + parsed.l3_offset).source);
}
/// Likewise.
[[nodiscard]] inline IpAddress destination_address(const Parsed& parsed, const std::uint8_t* frame) noexcept {
  if (!parsed.has(ParsedFlag::ipv6)) return IpAddress::v4(static_cast<std::uint32_t>(parsed.address_key));
  return IpAddress::v6(header_at<Ipv6Header>(frame + parsed.l3_offset).destination);
}

/// Parsed::address_key of packets the other way.
[[nodiscard]] inline std::uint64_t reverse_address_key(const Parsed& parsed, const std::uint8_t* frame) noexcept {
  if (!parsed.has(ParsedFlag::ipv6)) return std::rotl(parsed.address_key, 32);
  const std::uint8_t* ip = frame + parsed.l3_offset;
  return hash_v6(ip + offsetof(Ipv6Header, destination), ip + offsetof(Ipv6Header, source)).ordered;
}

/// A few networks, each of which is looked at: for more there are the tables of switch/tables.
struct PrefixList {
  std::vector<IpPrefix> prefixes{};

  [[nodiscard]] bool contains(const IpAddress& address) const noexcept {
    for (const IpPrefix& prefix : prefixes) {
      if (prefix.contains(address)) return true;
    }
    return false;
  }
  /// Whether a packet comes from elsewhere, and goes into one of them.
  [[nodiscard]] bool entered_by(const Parsed& parsed, const std::uint8_t* frame) const noexcept {
    return contains(destination_address(parsed, frame)) && !contains(source_address(parsed, frame));
  }
  /// Whether it comes out of one of them, and goes elsewhere.
  [[nodiscard]] bool left_by(const Parsed& parsed, const std::uint8_t* frame) const noexcept {
    return contains(source_address(parsed, frame)) && !contains(destination_address(parsed, frame));
  }
};

}  // namespace weft::wire
