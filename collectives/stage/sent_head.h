// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// The headers of what an endpoint sends. Packets of one kind and length differ in three words alone: opcode and flags,
// AckReq and PSN, and the immediate or AETH behind the BTH. So headers are those of the packet before with these words
// changed, and so are their share of the ICRC and what a parser would find.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "nic/rnic/frame.h"
#include "nic/rnic/packet.h"
#include "switch/wire/parsed.h"

namespace weft::inc {

/// Of an endpoint's packets with the same headers behind the BTH: one word or none.
class SentHead {
 public:
  /// What write() writes: Ethernet, IPv6, UDP, BTH and the word behind it, rounded up.
  static constexpr std::size_t kBytes = 80;
  /// Kinds of packets, for each of which an endpoint has a SentHead.
  static constexpr std::size_t kKinds = 3;

  /// Whether a SentHead can be for this packet: no other headers, and payload in whole words, in one piece with values.
  [[nodiscard]] static bool fits(const nic::Packet& p) noexcept {
    const std::size_t headers = p.info().header_bytes;
    const bool simple = headers == kPlain || (headers == kWithWord && !p.info().has(wire::HeaderMask::ieth));
    return simple && p.payload.bytes % 4 == 0 && p.payload.count <= 1 &&
           (p.payload.bytes == 0 || p.payload.data() != nullptr);
  }
  /// Which of them, of a packet that fits.
  [[nodiscard]] static std::size_t kind(const nic::Packet& p) noexcept {
    if (p.info().header_bytes == kPlain) return 0;
    return p.info().has(wire::HeaderMask::aeth) ? 1 : 2;
  }

  /// Becomes the headers of a packet that fits and is of the same kind as all before.
  /// @param psn  in the place of the packet's own
  /// @param to   the same in all calls, and dest_qp, too
  void set(const nic::HeaderTemplate& to, std::uint8_t tos, const nic::Packet& p, wire::Psn psn,
           wire::Qpn dest_qp) noexcept;

  /// Ethernet to the last header.
  [[nodiscard]] std::uint32_t size() const noexcept { return size_; }
  /// Of the whole frame, ICRC included.
  [[nodiscard]] std::uint32_t frame_bytes() const noexcept { return size_ + payload_ + kIcrc; }
  /// Writes kBytes, of which size() count.
  void write(std::uint8_t* out) const noexcept {
    std::memcpy(out, bytes_.data(), kBytes);
    std::memcpy(out + bth_, &opcode_, kWord);
    std::memcpy(out + bth_ + kPsn, &psn_, kWord);
    if (has_word()) std::memcpy(out + bth_ + kPlain, &behind_, kWord);
  }
  /// The headers' share of the ICRC: the rest is wire::payload_crc().
  [[nodiscard]] std::uint32_t crc() const noexcept { return crc_; }
  /// Writes what a parser finds in the frame of this packet, the one of the last set().
  void write_parsed(const nic::Packet& p, wire::Psn psn, wire::Parsed& out) const noexcept;

 private:
  static constexpr std::uint32_t kWord = 4, kPsn = 8, kPlain = sizeof(wire::Bth), kWithWord = kPlain + kWord;
  static constexpr std::uint32_t kIcrc = static_cast<std::uint32_t>(wire::kIcrcBytes);
  static_assert(sizeof(wire::EthernetHeader) + sizeof(wire::Ipv6Header) + sizeof(wire::UdpHeader) + kWithWord <=
                kBytes);
  [[nodiscard]] bool has_word() const noexcept { return size_ != bth_ + kPlain; }
  void make(const nic::HeaderTemplate& to, std::uint8_t tos, const nic::Packet& p, wire::Psn psn,
            wire::Qpn dest_qp) noexcept;

  // Of the packet for which they were made. Others are not written here but where they go: a load of several words
  // waits for a store to one of them.
  alignas(16) std::array<std::uint8_t, kBytes> bytes_{};
  wire::Parsed parsed_{};
  // Of the last packet, as they lie in a frame: the words in which packets differ.
  std::uint32_t opcode_ = 0, psn_ = 0, behind_ = 0;
  std::uint32_t crc_ = 0;
  std::uint32_t payload_ = 0;
  std::uint16_t size_ = 0;  ///< 0: there is none
  std::uint16_t bth_ = 0;   ///< where it begins
  std::uint8_t tos_ = 0;
};

}  // namespace weft::inc
