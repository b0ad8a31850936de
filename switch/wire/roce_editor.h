// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Changes header fields of a RoCEv2 packet in place and leaves it valid: IPv4 header checksum, UDP checksum if there
// is one, and ICRC.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "switch/wire/icrc.h"
#include "switch/wire/icrc_update.h"
#include "switch/wire/opcodes.h"
#include "switch/wire/parsed.h"

namespace weft::wire {

/// How the ICRC of an edited packet is made.
enum class IcrcMode : std::uint8_t {
  incremental,  ///< from the old ICRC and the differences; a wrong ICRC stays wrong, so corruption stays visible
  full,         ///< over the whole packet; needed when the payload changed
};

/// Editor of one packet of kind roce, whose headers lie contiguously at `frame`. Set fields, then call finish() once.
/// `parsed` follows the changes. TTL, TOS, FECN and BECN are not covered by the ICRC and need no editor.
class RoceEditor {
 public:
  RoceEditor(std::uint8_t* frame, Parsed& parsed) noexcept
      : frame_(frame), parsed_(parsed), layout_(roce_layout(frame, parsed)) {}

  void set_source_port(std::uint16_t v) noexcept;
  /// To an opcode with the same headers and the same rule for payload.
  void set_opcode(Opcode v) noexcept;
  void set_dest_qp(Qpn v) noexcept;
  void set_psn(Psn v) noexcept;
  void set_ack_req(bool v) noexcept;
  /// Only when the opcode has an AETH. The MSN has 24 bits.
  void set_aeth(Syndrome syndrome, std::uint32_t msn) noexcept;
  /// Only when the opcode has a RETH.
  void set_reth(std::uint64_t virtual_address, std::uint32_t rkey, std::uint32_t dma_length) noexcept;
  /// Of the packet's own family.
  void set_source(const IpAddress& v) noexcept;
  void set_destination(const IpAddress& v) noexcept;

  /// Takes the UDP checksum out, as RoCEv2 over IPv4 has it anyway. Needed when the payload changed.
  void clear_udp_checksum() noexcept;

  /// Writes ICRC and UDP checksum. `segments` are the pieces of the frame in order; the first begins at `frame`. The
  /// ICRC may lie across two of them.
  void finish(IcrcMode mode, std::span<const std::span<std::uint8_t>> segments) noexcept;
  /// The same for a contiguous frame.
  void finish(IcrcMode mode) noexcept;
  /// The same for a frame of which only the headers are held, as in a simulation: there is no ICRC to write.
  void finish_headers() noexcept;

 private:
  /// Replaces the 32-bit word at `at`, which lies on a multiple of four bytes from the IP header.
  void replace(std::uint32_t at, std::uint32_t word) noexcept;
  void set_address(const IpAddress& v, std::uint32_t v4_at, std::uint32_t v6_at) noexcept;
  [[nodiscard]] std::uint32_t bth_offset() const noexcept {
    return layout_.l4 + static_cast<std::uint32_t>(sizeof(UdpHeader));
  }
  [[nodiscard]] UdpHeader& udp() noexcept { return header_at<UdpHeader>(frame_ + layout_.l4); }
  [[nodiscard]] const OpcodeInfo& row() const noexcept { return opcode_info(parsed_.opcode); }
  [[nodiscard]] std::uint32_t updated(std::uint32_t old_icrc) const noexcept;
  void finish_udp_checksum(std::uint32_t old_icrc, std::uint32_t new_icrc) noexcept;

  static constexpr std::size_t kMaxEdits = 8;

  std::uint8_t* frame_;
  Parsed& parsed_;
  RoceLayout layout_;
  std::uint32_t pending_ = 0;  ///< contribution of edits that no longer fit into edits_
  std::uint32_t count_ = 0;
  std::uint64_t udp_sum_ = 0;  ///< what the edits add to the sum behind the UDP checksum
  std::array<FieldEdit, kMaxEdits> edits_;
};

}  // namespace weft::wire
