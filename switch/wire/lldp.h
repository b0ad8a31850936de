// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// LLDP data units (IEEE 802.1AB-2016, clauses 8 and 9): who is at the other end of a cable.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "switch/wire/addresses.h"

namespace weft::wire {

/// Destination of LLDP frames that no bridge forwards: "nearest bridge".
inline constexpr std::uint64_t kLldpNearestBridge = 0x0180c200000e;
/// Most bytes of an identity or a text.
inline constexpr std::size_t kLldpTextBytes = 255;
/// Kinds of identities that weft writes (tables 8-2 and 8-3).
inline constexpr std::uint8_t kLldpChassisMac = 4, kLldpPortMac = 3;

/// What identifies a system or a port: a kind, which has another meaning for each of the two, and bytes.
struct LldpId {
  std::uint8_t kind = 0;
  std::span<const std::uint8_t> bytes{};
};

/// A data unit. Spans are parts of the frame that it was read from.
struct LldpUnit {
  LldpId chassis, port;
  std::uint16_t ttl_s = 0;  ///< it holds for so long; 0: it does not hold any more
  std::span<const std::uint8_t> port_description{};
  std::span<const std::uint8_t> system_name{};
};

/// Reads a whole Ethernet frame without tags. nullopt: no LLDP, not to one of its addresses, or a unit that
/// clause 9.2.7 has receivers discard: its first three TLVs are not chassis, port and time to live, one of them has a
/// wrong length or comes twice, or a TLV is cut off. Of other TLVs that come twice the first one counts; those that
/// nobody here reads are passed over.
[[nodiscard]] std::optional<LldpUnit> read_lldp(std::span<const std::uint8_t> frame) noexcept;

/// What a port says of itself.
struct LldpSelf {
  MacAddress chassis{}, port{};  ///< the port's is also the frame's source
  std::uint16_t ttl_s = 120;
  std::string_view port_description{};  ///< what is longer than kLldpTextBytes is cut off, as of the next
  std::string_view system_name{};
};
/// Most bytes of a frame of write_lldp().
inline constexpr std::size_t kLldpFrameBytes = 14 + 2 * (2 + 1 + 6) + 4 + 2 * (2 + kLldpTextBytes) + 2;
/// Writes a frame; returns its bytes, without FCS and padding.
/// @param out  at least kLldpFrameBytes
std::size_t write_lldp(std::span<std::uint8_t> out, const LldpSelf& self) noexcept;

}  // namespace weft::wire
