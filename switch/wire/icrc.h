// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// The invariant CRC of RoCEv2 (IBTA 7.8.1, annex A17.3.3): CRC-32 over everything from the IP header to the pad bytes,
// with the fields that routers may change read as ones, after eight bytes of ones in place of a local route header.
// Ethernet and VLAN headers are not covered.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>

#include "switch/wire/headers.h"
#include "switch/wire/parsed.h"

namespace weft::wire {

/// Where the ICRC begins and what it masks, as offsets from the start of the frame.
struct RoceLayout {
  std::uint32_t l3 = 0;    ///< IP header
  std::uint32_t l4 = 0;    ///< UDP header
  std::uint32_t icrc = 0;  ///< the four bytes of the ICRC itself
  bool ipv6 = false;
};

/// Layout of a frame of kind roce.
[[nodiscard]] inline RoceLayout roce_layout(const std::uint8_t* frame, const Parsed& p) noexcept {
  const auto& udp = header_at<UdpHeader>(frame + p.l4_offset);
  return {p.l3_offset, p.l4_offset,
          p.l4_offset + std::uint32_t{udp.length.value()} - static_cast<std::uint32_t>(kIcrcBytes),
          p.has(ParsedFlag::ipv6)};
}

/// Reads and writes the four ICRC bytes, the only little-endian field of the frame.
[[nodiscard]] inline std::uint32_t load_icrc(const std::uint8_t* at) noexcept {
  return byte_swap(header_at<be32>(at).value());
}
inline void store_icrc(std::uint8_t* at, std::uint32_t icrc) noexcept {
  header_at<be32>(at).set(byte_swap(icrc));
}

/// ICRC over a frame in pieces: the head, which must reach to the end of the BTH, then the others in order.
class IcrcCalculator {
 public:
  IcrcCalculator(std::span<const std::uint8_t> head, const RoceLayout& layout) noexcept;

  /// The next piece of the frame. Bytes behind the covered part are ignored.
  void add(std::span<const std::uint8_t> piece) noexcept;
  /// Covered bytes that add() has not yet seen.
  [[nodiscard]] std::uint32_t remaining() const noexcept { return remaining_; }
  /// The ICRC, to be stored by store_icrc(), when remaining() is 0.
  [[nodiscard]] std::uint32_t value() const noexcept { return crc_ ^ difference_; }

 private:
  std::uint32_t crc_;
  std::uint32_t remaining_;
  std::uint32_t difference_;  ///< between the CRC of the packet as it is and with masked fields
};

/// ICRC of a contiguous frame that reaches at least to layout.icrc.
[[nodiscard]] std::uint32_t icrc_full(const std::uint8_t* frame, const RoceLayout& layout) noexcept;

/// True when the frame of kind roce carries the right ICRC. It must be contiguous up to the ICRC's end.
[[nodiscard]] inline bool icrc_ok(const std::uint8_t* frame, const Parsed& p) noexcept {
  const RoceLayout layout = roce_layout(frame, p);
  return icrc_full(frame, layout) == load_icrc(frame + layout.icrc);
}

}  // namespace weft::wire
