// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// What the parser found in a frame: the one record that stages read instead of parsing again. Plain data, no DPDK.
#pragma once

#include <cstddef>
#include <cstdint>

#include "switch/wire/hash.h"
#include "switch/wire/types.h"

namespace weft::wire {

/// What kind of frame it is, as far as the parser could tell. `roce` is only set when the frame passed every
/// length rule of validity.h up to and including its opcode's headers.
enum class FrameKind : std::uint8_t {
  other,        ///< an ethertype weft does not read, LLC frames, or an invalid Ethernet header
  mac_control,  ///< ethertype 0x8808: PAUSE and PFC
  arp,
  ipv4,           ///< IPv4 that is none of the kinds below
  ipv6,           ///< IPv6 that is none of the kinds below
  ipv4_fragment,  ///< any IPv4 fragment, the first one included
  ipv6_fragment,
  udp,   ///< UDP over IPv4 or IPv6, not port 4791 (or 4791 with an invalid BTH: see Parsed::validity)
  tcp,   ///< TCP over IPv4 or IPv6
  icmp,  ///< ICMP or ICMPv6
  roce,  ///< valid RoCEv2: UDP destination port 4791 with a known opcode and consistent lengths
};

/// The first rule that the frame breaks, in the order the parser reads; `ok` if none. A frame with any value but `ok`
/// is still forwarded by default: a ToR is not the judge of its hosts' packets. Only eth_* frames cannot be forwarded.
enum class Validity : std::uint8_t {
  ok,
  eth_truncated,         ///< shorter than an Ethernet header, or the tag promised by the ethertype is cut off
  eth_source_multicast,  ///< group bit set in the source address (IEEE 802.3 3.2.3)
  vlan_nested,           ///< more than one 802.1Q/802.1ad tag: forwarded by L2 on the outer tag, not parsed further
  arp_truncated,
  arp_malformed,  ///< hardware/protocol type or length is not Ethernet/IPv4
  ip_truncated,
  ip_version,        ///< version nibble contradicts the ethertype
  ip_header_length,  ///< IHL below 5, or beyond the total length
  ip_length,         ///< total length beyond the frame, or below the header
  ip_checksum,       ///< set by the L3 stage only: the parser does not sum the header
  l4_truncated,
  udp_length,              ///< UDP length below 8 or beyond the IP payload
  roce_truncated,          ///< shorter than BTH + ICRC, or than the opcode's extension headers + ICRC
  roce_transport_version,  ///< BTH TVer is not 0 (IBTA 9.6.1.1)
  roce_opcode,             ///< opcode in no row of the opcode table
  roce_pad,                ///< pad count larger than the payload, or on an opcode without payload
  roce_payload,  ///< payload where the opcode has none (ACK, RDMA READ request, ...), or none where it needs one
  roce_qp0,      ///< QP0 over RoCE (IBTA annex A17: there is no SMI)
};

/// Number of Validity values, for tables indexed by it.
inline constexpr std::uint8_t kValidityCount = static_cast<std::uint8_t>(Validity::roce_qp0) + 1;

/// Bits of Parsed::flags.
struct ParsedFlag {
  static constexpr std::uint8_t vlan_tagged = 1;  ///< a tag is in the frame; vlan_tci is it (a priority tag has VID 0)
  static constexpr std::uint8_t ipv6 = 2;         ///< network layer is IPv6
  static constexpr std::uint8_t solicited = 8;    ///< BTH SE
  static constexpr std::uint8_t ip_options = 16;  ///< IHL > 5, or IPv6 extension headers were walked
  static constexpr std::uint8_t becn = 32;        ///< BTH BECN
  static constexpr std::uint8_t fecn = 64;        ///< BTH FECN
  static constexpr std::uint8_t ack_req = 128;    ///< BTH A
};

/// Result of parse_frame(). Fields beyond the layer that `kind` names are zero. 40 bytes; the parser writes all of it.
struct Parsed {
  FrameKind kind;
  Validity validity;
  std::uint8_t flags;           ///< ParsedFlag bits
  std::uint8_t l3_offset;       ///< bytes from the start of the frame to ARP/IPv4/IPv6
  std::uint8_t l4_offset;       ///< bytes to UDP/TCP/ICMP; the BTH starts at l4_offset + 8
  std::uint8_t opcode;          ///< raw BTH opcode (roce)
  std::uint8_t tos;             ///< IPv4 TOS or IPv6 traffic class: DSCP << 2 | ECN
  std::uint8_t ttl;             ///< TTL or hop limit
  std::uint16_t vlan_tci;       ///< host order; meaningful when vlan_tagged
  std::uint16_t l3_length;      ///< bytes from l3_offset by the IP header's own word (without Ethernet padding)
  std::uint16_t payload_bytes;  ///< roce: message payload without headers, pad and ICRC
  std::uint8_t syndrome;        ///< AETH syndrome when the opcode has an AETH, else 0
  std::uint8_t protocol;        ///< IPv4 protocol or last IPv6 next header
  Qpn dest_qp;                  ///< BTH destination QP (roce)
  Psn psn;                      ///< BTH PSN (roce)
  /// IPv4: source << 32 | destination, host order. IPv6: a 64-bit hash of both addresses in this order.
  std::uint64_t address_key;
  /// pair_hash() where the addresses are not in address_key, else 0. IPv6: pair_hash_v6(), by which cards go as well.
  std::uint32_t stored_pair_hash;
  std::uint16_t source_port;       ///< UDP/TCP, host order
  std::uint16_t destination_port;  ///< UDP/TCP, host order

  [[nodiscard]] bool has(std::uint8_t flag) const noexcept { return (flags & flag) != 0; }
  /// kind roce over IPv4, asked at once.
  [[nodiscard]] bool is_roce_v4() const noexcept {
    std::uint32_t head;
    __builtin_memcpy(&head, this, sizeof head);
    constexpr std::uint32_t kFlags = 16;  // kind, validity, flags, l3_offset
    return (head & (0xff | std::uint32_t{ParsedFlag::ipv6} << kFlags)) == static_cast<std::uint32_t>(FrameKind::roce);
  }
  /// Hash of the unordered pair of IP addresses (of MAC addresses if not IP): equal for both directions. Computed when
  /// it is asked for: a switch with one worker never asks.
  [[nodiscard]] std::uint32_t pair_hash() const noexcept {
    return has(ParsedFlag::ipv6) || address_key == 0 ? stored_pair_hash : pair_hash_v4(address_key);
  }
};
static_assert(sizeof(Parsed) == 40 && alignof(Parsed) == 8);
static_assert(offsetof(Parsed, kind) == 0 && offsetof(Parsed, flags) == 2);

}  // namespace weft::wire
