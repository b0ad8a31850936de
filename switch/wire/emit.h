// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Writes the small packets that the data path makes itself into a caller's buffer: CNP, ACK, NAK, ARP, PAUSE, PFC. No
// allocation; every frame comes out complete, with checksum and ICRC.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "switch/wire/headers.h"
#include "switch/wire/opcodes.h"
#include "switch/wire/parsed.h"

namespace weft::wire {

/// Room that any frame of this file fits into.
inline constexpr std::size_t kMaxEmittedBytes = sizeof(EthernetHeader) + sizeof(VlanTag) + sizeof(Ipv6Header) +
                                                sizeof(UdpHeader) + kMaxRoceHeaderBytes + kIcrcBytes;

/// Ethernet to UDP of a packet to be made.
struct RoceAddressing {
  MacAddress source_mac{};
  MacAddress destination_mac{};
  bool tagged = false;
  std::uint16_t vlan_type = EtherType::vlan;  ///< when tagged: customer or service tag
  std::uint16_t vlan_tci = 0;                 ///< when tagged
  IpAddress source{};                         ///< of the same family as `destination`
  IpAddress destination{};
  std::uint32_t flow_label = 0;  ///< IPv6, 20 bits
  std::uint8_t tos = 0;          ///< DSCP << 2 | ECN
  std::uint8_t ttl = 64;
  std::uint16_t source_port = 49152;  ///< the destination port is 4791
};

/// The addressing of a packet from the receiver of `frame`, which is of kind roce, back to its sender: addresses
/// swapped, tag, TOS and UDP source port taken over.
[[nodiscard]] RoceAddressing reply_addressing(const std::uint8_t* frame, const Parsed& parsed) noexcept;

/// Bytes of a frame with this opcode and no payload.
[[nodiscard]] std::size_t emitted_bytes(const RoceAddressing& to, Opcode opcode) noexcept;

/// Congestion notification packet (annex A17.9.3) as ConnectX sends it: BECN set, PSN 0, migration bit clear. Returns
/// the bytes written, 0 if `out` is too small.
std::size_t write_cnp(std::span<std::uint8_t> out, const RoceAddressing& to, Qpn dest_qp) noexcept;

/// Acknowledge packet with any syndrome: ACK, RNR NAK or NAK. Returns the bytes written, 0 if `out` is too small.
std::size_t write_ack(std::span<std::uint8_t> out, const RoceAddressing& to, Qpn dest_qp, Psn psn, Syndrome syndrome,
                      std::uint32_t msn) noexcept;

/// ARP, 60 bytes. `target_mac` is zero in requests (RFC 826). Returns the bytes written, 0 if `out` is too small.
/// @param source       also the sender's hardware address in the message
/// @param destination  of the frame
std::size_t write_arp(std::span<std::uint8_t> out, MacAddress source, MacAddress destination, std::uint16_t operation,
                      const IpAddress& sender, MacAddress target_mac, const IpAddress& target) noexcept;

/// 802.3x PAUSE, 60 bytes. Returns the bytes written, 0 if `out` is too small.
std::size_t write_pause(std::span<std::uint8_t> out, MacAddress source, std::uint16_t quanta) noexcept;

/// PFC, 60 bytes: bit i of `class_enable` says that quanta[i] counts. Returns the bytes written, 0 if `out` is too
/// small.
std::size_t write_pfc(std::span<std::uint8_t> out, MacAddress source, std::uint8_t class_enable,
                      const std::array<std::uint16_t, 8>& quanta) noexcept;

}  // namespace weft::wire
