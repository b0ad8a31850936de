// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// The frame of a NACK that is sent later. No DPDK.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "switch/wire/headers.h"
#include "switch/wire/parsed.h"
#include "switch/wire/roce_editor.h"
#include "switch/wire/types.h"

namespace weft::stages {

/// What the NACKs of one queue pair have in common: addresses, ports, queue pair, traffic class. It keeps neither PSN
/// nor MSN of the NACK it was made from. Those come from NackState when the NACK is sent, so that a frame cannot say
/// something else than the state.
class NackFrame {
 public:
  /// Ethernet with two VLAN tags, IPv6, UDP, BTH, AETH and ICRC are 104 bytes.
  static constexpr std::size_t kMaxBytes = 108;

  /// Becomes like this NACK, which must have the right ICRC.
  /// @param frame  contiguous up to the ICRC; what `parsed` was made from
  /// @return false, and nothing has changed, when the frame is longer than kMaxBytes
  bool become(const std::uint8_t* frame, const wire::Parsed& parsed) noexcept;
  /// False until become().
  [[nodiscard]] bool known() const noexcept { return bytes_ != 0; }
  /// Bytes of the frame from the Ethernet header to the ICRC.
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }

  /// Writes the NACK that asks for `psn`, with right checksums and ICRC. Only when known().
  /// @param to      room for bytes()
  /// @param parsed  out: as parse_frame() sets it
  void write(std::uint8_t* to, wire::Psn psn, std::uint32_t msn, wire::IcrcMode mode,
             wire::Parsed& parsed) const noexcept;

  /// Feeds all of it to `h(std::uint64_t)`.
  template <class Hash>
  void hash_state(Hash&& h) const {
    h(bytes_);
    for (std::size_t at = 0; at < bytes_; at += sizeof(std::uint64_t)) {
      std::uint64_t word = 0;
      std::memcpy(&word, frame_.data() + at, std::min(sizeof word, bytes_ - at));
      h(word);
    }
  }

 private:
  std::uint16_t bytes_ = 0;
  std::array<std::uint8_t, kMaxBytes> frame_{};
};

/// The mark by which the receiver's ToR tells the sender's that a receiver keeps no early packets. It stands in
/// responses between the two: the lowest of the six reserved bits in front of the destination QP (IBTA 9.2.1, RoCEv2
/// annex A17), which the ICRC does not cover and receivers ignore.
inline constexpr std::uint8_t kInOrderMark = 0x01;
inline constexpr std::uint32_t kInOrderMarkAt = sizeof(wire::UdpHeader) + 4;  ///< from the UDP header

/// The mark of a RoCEv2 frame.
[[nodiscard]] inline bool has_in_order_mark(const std::uint8_t* frame, const wire::Parsed& parsed) noexcept {
  return (frame[parsed.l4_offset + kInOrderMarkAt] & kInOrderMark) != 0;
}
/// Sets the mark or takes it away; a UDP checksum stays right.
void set_in_order_mark(std::uint8_t* frame, const wire::Parsed& parsed, bool marked) noexcept;

}  // namespace weft::stages
