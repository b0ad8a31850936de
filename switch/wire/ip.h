// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// IPv4, IPv6 with the extension headers that the parser walks, ICMP, ICMPv6 with neighbour discovery, UDP and TCP.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "switch/wire/addresses.h"
#include "switch/wire/types.h"

namespace weft::wire {

/// IPv4 protocol numbers and IPv6 next header values (IANA).
struct IpProtocol {
  static constexpr std::uint8_t hop_by_hop = 0;
  static constexpr std::uint8_t icmp = 1;
  static constexpr std::uint8_t tcp = 6;
  static constexpr std::uint8_t udp = 17;
  static constexpr std::uint8_t routing = 43;
  static constexpr std::uint8_t fragment = 44;
  static constexpr std::uint8_t icmpv6 = 58;
  static constexpr std::uint8_t no_next_header = 59;
  static constexpr std::uint8_t destination_options = 60;
};

/// ECN field of the TOS or traffic class byte (RFC 3168).
enum class Ecn : std::uint8_t {
  not_ect = 0,
  ect1 = 1,
  ect0 = 2,
  ce = 3,  ///< congestion experienced
};

/// Splits and joins the byte that is TOS in IPv4 and traffic class in IPv6.
[[nodiscard]] constexpr Ecn ecn_of(std::uint8_t tos) noexcept {
  return static_cast<Ecn>(tos & 3);
}
/// ECT(0) or ECT(1), which have one bit of two: the sender takes part in ECN, and no switch has marked the packet. Of a
/// TOS byte, or of its ECN field alone. Without a branch.
[[nodiscard]] constexpr bool is_ect(std::uint8_t tos) noexcept {
  return ((tos ^ tos >> 1) & 1) != 0;
}
[[nodiscard]] constexpr std::uint8_t dscp_of(std::uint8_t tos) noexcept {
  return tos >> 2;
}
[[nodiscard]] constexpr std::uint8_t make_tos(std::uint8_t dscp, Ecn ecn) noexcept {
  return static_cast<std::uint8_t>(dscp << 2 | static_cast<std::uint8_t>(ecn));
}

/// IPv4 header without options, 20 bytes (RFC 791).
struct Ipv4Header {
  std::uint8_t version_ihl;
  std::uint8_t tos;
  be16 total_length;
  be16 identification;
  be16 flags_fragment;
  std::uint8_t ttl;
  std::uint8_t protocol;
  be16 checksum;
  be32 source;
  be32 destination;

  static constexpr std::uint16_t kDontFragment = 0x4000;
  static constexpr std::uint16_t kMoreFragments = 0x2000;
  static constexpr std::uint16_t kOffsetMask = 0x1fff;

  [[nodiscard]] constexpr std::uint8_t version() const noexcept { return version_ihl >> 4; }
  constexpr void set_version(std::uint8_t v) noexcept {
    version_ihl = static_cast<std::uint8_t>((version_ihl & 0x0f) | v << 4);
  }
  /// Header length in units of four bytes.
  [[nodiscard]] constexpr std::uint8_t ihl() const noexcept { return version_ihl & 0x0f; }
  constexpr void set_ihl(std::uint8_t v) noexcept {
    version_ihl = static_cast<std::uint8_t>((version_ihl & 0xf0) | (v & 0x0f));
  }
  [[nodiscard]] constexpr std::size_t header_bytes() const noexcept { return std::size_t{ihl()} * 4; }
  [[nodiscard]] constexpr std::uint8_t dscp() const noexcept { return dscp_of(tos); }
  constexpr void set_dscp(std::uint8_t v) noexcept { tos = static_cast<std::uint8_t>((tos & 3) | v << 2); }
  [[nodiscard]] constexpr Ecn ecn() const noexcept { return ecn_of(tos); }
  constexpr void set_ecn(Ecn v) noexcept { tos = make_tos(dscp(), v); }
  [[nodiscard]] constexpr bool dont_fragment() const noexcept { return (flags_fragment.value() & kDontFragment) != 0; }
  constexpr void set_dont_fragment(bool v) noexcept {
    flags_fragment.set(static_cast<std::uint16_t>((flags_fragment.value() & ~kDontFragment) | (v ? kDontFragment : 0)));
  }
  [[nodiscard]] constexpr bool more_fragments() const noexcept {
    return (flags_fragment.value() & kMoreFragments) != 0;
  }
  constexpr void set_more_fragments(bool v) noexcept {
    flags_fragment.set(
        static_cast<std::uint16_t>((flags_fragment.value() & ~kMoreFragments) | (v ? kMoreFragments : 0)));
  }
  /// Offset of this fragment in units of eight bytes.
  [[nodiscard]] constexpr std::uint16_t fragment_offset() const noexcept {
    return flags_fragment.value() & kOffsetMask;
  }
  constexpr void set_fragment_offset(std::uint16_t v) noexcept {
    flags_fragment.set(static_cast<std::uint16_t>((flags_fragment.value() & ~kOffsetMask) | (v & kOffsetMask)));
  }
  [[nodiscard]] constexpr bool is_fragment() const noexcept {
    return (flags_fragment.value() & (kMoreFragments | kOffsetMask)) != 0;
  }
};
static_assert(sizeof(Ipv4Header) == 20 && alignof(Ipv4Header) == 1);
static_assert(offsetof(Ipv4Header, total_length) == 2 && offsetof(Ipv4Header, flags_fragment) == 6);
static_assert(offsetof(Ipv4Header, ttl) == 8 && offsetof(Ipv4Header, protocol) == 9);
static_assert(offsetof(Ipv4Header, checksum) == 10 && offsetof(Ipv4Header, source) == 12);
static_assert(offsetof(Ipv4Header, destination) == 16);

/// IPv6 header, 40 bytes (RFC 8200).
struct Ipv6Header {
  be32 version_class_flow;
  be16 payload_length;  ///< bytes after this header, extension headers included
  std::uint8_t next_header;
  std::uint8_t hop_limit;
  std::array<std::uint8_t, 16> source;
  std::array<std::uint8_t, 16> destination;

  [[nodiscard]] constexpr std::uint8_t version() const noexcept {
    return static_cast<std::uint8_t>(version_class_flow.value() >> 28);
  }
  constexpr void set_version(std::uint8_t v) noexcept {
    version_class_flow.set((version_class_flow.value() & 0x0fffffff) | std::uint32_t{v} << 28);
  }
  /// DSCP << 2 | ECN.
  [[nodiscard]] constexpr std::uint8_t traffic_class() const noexcept {
    return static_cast<std::uint8_t>(version_class_flow.value() >> 20);
  }
  constexpr void set_traffic_class(std::uint8_t v) noexcept {
    version_class_flow.set((version_class_flow.value() & 0xf00fffff) | std::uint32_t{v} << 20);
  }
  /// 20 bits.
  [[nodiscard]] constexpr std::uint32_t flow_label() const noexcept { return version_class_flow.value() & 0xfffff; }
  constexpr void set_flow_label(std::uint32_t v) noexcept {
    version_class_flow.set((version_class_flow.value() & 0xfff00000) | (v & 0xfffff));
  }
};
static_assert(sizeof(Ipv6Header) == 40 && alignof(Ipv6Header) == 1);
static_assert(offsetof(Ipv6Header, payload_length) == 4 && offsetof(Ipv6Header, next_header) == 6);
static_assert(offsetof(Ipv6Header, hop_limit) == 7 && offsetof(Ipv6Header, source) == 8);
static_assert(offsetof(Ipv6Header, destination) == 24);

/// Start of the hop-by-hop, routing and destination options headers.
struct Ipv6ExtensionHeader {
  std::uint8_t next_header;
  std::uint8_t length;  ///< in units of eight bytes, not counting the first eight

  [[nodiscard]] constexpr std::size_t header_bytes() const noexcept { return (std::size_t{length} + 1) * 8; }
};
static_assert(sizeof(Ipv6ExtensionHeader) == 2);

/// IPv6 fragment header, 8 bytes.
struct Ipv6FragmentHeader {
  std::uint8_t next_header;
  std::uint8_t reserved;
  be16 offset_flags;
  be32 identification;

  /// In units of eight bytes.
  [[nodiscard]] constexpr std::uint16_t fragment_offset() const noexcept { return offset_flags.value() >> 3; }
  constexpr void set_fragment_offset(std::uint16_t v) noexcept {
    offset_flags.set(static_cast<std::uint16_t>((offset_flags.value() & 7) | v << 3));
  }
  [[nodiscard]] constexpr bool more_fragments() const noexcept { return (offset_flags.value() & 1) != 0; }
  constexpr void set_more_fragments(bool v) noexcept {
    offset_flags.set(static_cast<std::uint16_t>((offset_flags.value() & 0xfffe) | (v ? 1 : 0)));
  }
};
static_assert(sizeof(Ipv6FragmentHeader) == 8 && offsetof(Ipv6FragmentHeader, offset_flags) == 2);

/// UDP header, 8 bytes (RFC 768).
struct UdpHeader {
  be16 source_port;
  be16 destination_port;
  be16 length;    ///< header and payload
  be16 checksum;  ///< 0: not computed (usual for RoCEv2)
};
static_assert(sizeof(UdpHeader) == 8 && offsetof(UdpHeader, length) == 4 && offsetof(UdpHeader, checksum) == 6);

/// UDP destination port of RoCEv2 (IBTA annex A17).
inline constexpr std::uint16_t kRoceUdpPort = 4791;

/// TCP header without options, 20 bytes (RFC 9293).
struct TcpHeader {
  be16 source_port;
  be16 destination_port;
  be32 sequence;
  be32 acknowledgement;
  std::uint8_t offset_reserved;
  std::uint8_t flags;
  be16 window;
  be16 checksum;
  be16 urgent_pointer;

  static constexpr std::uint8_t kFin = 0x01, kSyn = 0x02, kRst = 0x04, kPsh = 0x08, kAck = 0x10, kUrg = 0x20,
                                kEce = 0x40, kCwr = 0x80;

  /// Header length in units of four bytes.
  [[nodiscard]] constexpr std::uint8_t data_offset() const noexcept { return offset_reserved >> 4; }
  constexpr void set_data_offset(std::uint8_t v) noexcept {
    offset_reserved = static_cast<std::uint8_t>((offset_reserved & 0x0f) | v << 4);
  }
};
static_assert(sizeof(TcpHeader) == 20 && alignof(TcpHeader) == 1);
static_assert(offsetof(TcpHeader, sequence) == 4 && offsetof(TcpHeader, flags) == 13);
static_assert(offsetof(TcpHeader, checksum) == 16);

/// ICMP message types (RFC 792) and the codes of "unreachable" that a router sends.
struct IcmpType {
  static constexpr std::uint8_t echo_reply = 0;
  static constexpr std::uint8_t destination_unreachable = 3;
  static constexpr std::uint8_t redirect = 5;
  static constexpr std::uint8_t echo_request = 8;
  static constexpr std::uint8_t time_exceeded = 11;
};
struct IcmpUnreachableCode {
  static constexpr std::uint8_t network = 0;
  static constexpr std::uint8_t host = 1;
  static constexpr std::uint8_t port = 3;
  static constexpr std::uint8_t fragmentation_needed = 4;  ///< mtu() says what fits (RFC 1191)
  static constexpr std::uint8_t prohibited = 13;
};

/// ICMPv6 message types (RFC 4443, RFC 4861) and the codes of "unreachable".
struct Icmpv6Type {
  static constexpr std::uint8_t destination_unreachable = 1;
  static constexpr std::uint8_t packet_too_big = 2;  ///< rest is the MTU
  static constexpr std::uint8_t time_exceeded = 3;
  static constexpr std::uint8_t echo_request = 128;
  static constexpr std::uint8_t echo_reply = 129;
  static constexpr std::uint8_t router_solicitation = 133;
  static constexpr std::uint8_t router_advertisement = 134;
  static constexpr std::uint8_t neighbour_solicitation = 135;
  static constexpr std::uint8_t neighbour_advertisement = 136;
  static constexpr std::uint8_t redirect = 137;
};
struct Icmpv6UnreachableCode {
  static constexpr std::uint8_t no_route = 0;
  static constexpr std::uint8_t prohibited = 1;
  static constexpr std::uint8_t address = 3;
  static constexpr std::uint8_t port = 4;
};

/// First eight bytes of every ICMP and ICMPv6 message. What `rest` means depends on the type.
struct IcmpHeader {
  std::uint8_t type;
  std::uint8_t code;
  be16 checksum;
  be32 rest;

  /// Echo: identifier and sequence number.
  [[nodiscard]] constexpr std::uint16_t identifier() const noexcept {
    return static_cast<std::uint16_t>(rest.value() >> 16);
  }
  constexpr void set_identifier(std::uint16_t v) noexcept {
    rest.set((rest.value() & 0xffff) | std::uint32_t{v} << 16);
  }
  [[nodiscard]] constexpr std::uint16_t sequence() const noexcept { return static_cast<std::uint16_t>(rest.value()); }
  constexpr void set_sequence(std::uint16_t v) noexcept { rest.set((rest.value() & 0xffff0000) | v); }
  /// ICMP "fragmentation needed": next-hop MTU in the low 16 bits. ICMPv6 "packet too big": all of `rest`.
  [[nodiscard]] constexpr std::uint16_t mtu() const noexcept { return sequence(); }
  constexpr void set_mtu(std::uint16_t v) noexcept { set_sequence(v); }
};
static_assert(sizeof(IcmpHeader) == 8 && offsetof(IcmpHeader, checksum) == 2 && offsetof(IcmpHeader, rest) == 4);

/// Neighbour solicitation and advertisement, 24 bytes before options (RFC 4861 4.3, 4.4).
struct NeighbourMessage {
  IcmpHeader icmp;
  std::array<std::uint8_t, 16> target;

  /// Flags of an advertisement, in the first byte of icmp.rest.
  static constexpr std::uint32_t kRouter = 0x80000000, kSolicited = 0x40000000, kOverride = 0x20000000;
};
static_assert(sizeof(NeighbourMessage) == 24 && offsetof(NeighbourMessage, target) == 8);

/// Source or target link-layer address option for Ethernet, 8 bytes (RFC 4861 4.6.1).
struct NdLinkLayerOption {
  std::uint8_t type;
  std::uint8_t length;  ///< in units of eight bytes: 1
  MacAddress mac;

  static constexpr std::uint8_t kSource = 1, kTarget = 2;
};
static_assert(sizeof(NdLinkLayerOption) == 8 && offsetof(NdLinkLayerOption, mac) == 2);

}  // namespace weft::wire
