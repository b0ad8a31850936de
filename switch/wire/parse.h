// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// The parser: one pass over a received frame that fills Parsed. It runs once per packet, so RoCEv2 over plain IPv4 or
// IPv6 is read inline with a few wide loads; everything else goes to parse_frame_slow(). Both give the same result.
#pragma once

#include <cstdint>
#include <cstring>

#include "switch/wire/hash.h"
#include "switch/wire/headers.h"
#include "switch/wire/opcodes.h"
#include "switch/wire/parsed.h"
#include "switch/wire/validity.h"

namespace weft::wire {

/// As parse_frame(), without the fast path. Reference for tests, and the way of all other traffic.
void parse_frame_slow(const std::uint8_t* data, std::uint32_t contiguous, std::uint32_t frame_length,
                      Parsed& out) noexcept;

namespace detail {

template <class T>
[[nodiscard]] inline T load_be(const std::uint8_t* at) noexcept {
  BigEndian<T> v;
  std::memcpy(&v, at, sizeof v);
  return v.value();
}

/// Bytes from the start of the UDP header that the fast path reads at once: UDP, BTH and the four bytes behind it,
/// which are an AETH, other headers, payload or the ICRC.
inline constexpr std::uint32_t kFastL4Bytes = sizeof(UdpHeader) + sizeof(Bth) + 4;

/// What the fast path found about the network layer.
struct FastNetwork {
  std::uint32_t l3;         ///< offset of the IP header
  std::uint32_t l4;         ///< offset of the UDP header
  std::uint32_t l3_length;  ///< IP header and payload
  std::uint8_t flags;
  std::uint8_t tos;
  std::uint8_t ttl;
  std::uint16_t tci;
};

/// UDP and BTH. False, with `out` undefined, unless the packet is valid RoCEv2.
[[gnu::always_inline]] inline bool parse_roce_fast(const std::uint8_t* data, std::uint32_t contiguous,
                                                   const FastNetwork& net, Parsed& out) noexcept {
  const std::uint8_t* l4 = data + net.l4;
  const auto udp = load_be<std::uint64_t>(l4);        // ports, length, checksum
  const auto bth = load_be<std::uint64_t>(l4 + 8);    // opcode, flags, P_Key, resv8a, destination QP
  const auto rest = load_be<std::uint64_t>(l4 + 16);  // A, PSN, then the first four bytes behind the BTH
  const auto opcode = static_cast<std::uint8_t>(bth >> 56);
  const OpcodeInfo row = opcode_info(opcode);
  const auto udp_length = static_cast<std::uint32_t>(udp >> 16) & 0xffff;
  const std::uint32_t pad = static_cast<std::uint32_t>(bth >> 52) & 3;
  const std::uint32_t qp = static_cast<std::uint32_t>(bth) & 0xffffff;
  const std::uint32_t overhead = static_cast<std::uint32_t>(sizeof(UdpHeader) + kIcrcBytes) + row.header_bytes;
  // Negative when the headers, or the pad bytes, do not fit.
  const auto payload = static_cast<std::int32_t>(udp_length - overhead - pad);
  const auto least = static_cast<std::int32_t>(row.payload == PayloadRule::required);
  const std::int32_t most = row.payload == PayloadRule::none ? -static_cast<std::int32_t>(pad) : 0xffff;
  const bool good = (static_cast<std::uint32_t>(udp >> 32) & 0xffff) == kRoceUdpPort &&
                    net.l4 - net.l3 + udp_length == net.l3_length && (bth >> 48 & 0x0f) == 0 && row.known() &&
                    payload >= least && payload <= most && qp != 0 &&
                    net.l4 + sizeof(UdpHeader) + row.header_bytes <= contiguous;
  if (!good) return false;
  out.kind = FrameKind::roce;
  out.validity = Validity::ok;
  out.flags = static_cast<std::uint8_t>(
      net.flags | (rest >> 63 ? ParsedFlag::ack_req : 0) | (bth >> 55 & 1 ? ParsedFlag::solicited : 0) |
      (bth >> 31 & 1 ? ParsedFlag::fecn : 0) | (bth >> 30 & 1 ? ParsedFlag::becn : 0));
  out.l3_offset = static_cast<std::uint8_t>(net.l3);
  out.l4_offset = static_cast<std::uint8_t>(net.l4);
  out.opcode = opcode;
  out.tos = net.tos;
  out.ttl = net.ttl;
  out.vlan_tci = net.tci;
  out.l3_length = static_cast<std::uint16_t>(net.l3_length);
  out.payload_bytes = static_cast<std::uint16_t>(payload);
  out.syndrome = row.has(HeaderMask::aeth) ? static_cast<std::uint8_t>(rest >> 24) : std::uint8_t{0};
  out.protocol = IpProtocol::udp;
  out.dest_qp = Qpn(qp);
  out.psn = Psn(static_cast<std::uint32_t>(rest >> 32));
  out.source_port = static_cast<std::uint16_t>(udp >> 48);
  out.destination_port = kRoceUdpPort;
  return true;
}

/// IPv4 without options or IPv6 without extension headers behind at most one tag.
[[gnu::always_inline]] inline bool parse_frame_fast(const std::uint8_t* data, std::uint32_t contiguous,
                                                    std::uint32_t frame_length, Parsed& out) noexcept {
  FastNetwork net{};
  net.l3 = sizeof(EthernetHeader);
  auto type = load_be<std::uint16_t>(data + 12);
  if (type == EtherType::vlan) {
    net.flags = ParsedFlag::vlan_tagged;
    net.tci = load_be<std::uint16_t>(data + 14);
    type = load_be<std::uint16_t>(data + 16);
    net.l3 += sizeof(VlanTag);
  }
  if ((data[6] & 1) != 0) return false;
  const std::uint8_t* ip = data + net.l3;
  if (type == EtherType::ipv4) {
    const auto word = load_be<std::uint64_t>(ip);  // version, IHL, TOS, total length, identification, fragment
    net.l4 = net.l3 + static_cast<std::uint32_t>(sizeof(Ipv4Header));
    net.l3_length = static_cast<std::uint32_t>(word >> 32) & 0xffff;
    net.tos = static_cast<std::uint8_t>(word >> 48);
    net.ttl = ip[8];
    constexpr std::uint64_t kMask = 0xff000000'00003fff;
    if ((word & kMask) != 0x45000000'00000000 || ip[9] != IpProtocol::udp || net.l3 + net.l3_length > frame_length ||
        !parse_roce_fast(data, contiguous, net, out)) {
      return false;
    }
    out.address_key = load_be<std::uint64_t>(ip + 12);
    out.pair_hash = pair_hash_v4(out.address_key);
    return true;
  }
  if (type != EtherType::ipv6) return false;
  const auto word = load_be<std::uint64_t>(ip);  // version, class, flow label, payload length, next header, hop limit
  net.l4 = net.l3 + static_cast<std::uint32_t>(sizeof(Ipv6Header));
  net.l3_length = (static_cast<std::uint32_t>(word >> 16) & 0xffff) + static_cast<std::uint32_t>(sizeof(Ipv6Header));
  net.flags |= ParsedFlag::ipv6;
  net.tos = static_cast<std::uint8_t>(word >> 52);
  net.ttl = static_cast<std::uint8_t>(word);
  if (word >> 60 != 6 || (word >> 8 & 0xff) != IpProtocol::udp || net.l3_length > 0xffff ||
      net.l3 + net.l3_length > frame_length || net.l4 + kFastL4Bytes > contiguous ||
      !parse_roce_fast(data, contiguous, net, out)) {
    return false;
  }
  const Ipv6Hashes hashes = hash_v6(ip + 8, ip + 24);
  out.address_key = hashes.ordered;
  out.pair_hash = hashes.unordered;
  return true;
}

/// Contiguous bytes below which the fast path would read too far: tag, IPv4, UDP, BTH and what lies behind it.
inline constexpr std::uint32_t kFastBytes =
    sizeof(EthernetHeader) + sizeof(VlanTag) + sizeof(Ipv4Header) + kFastL4Bytes;

}  // namespace detail

/// Parses the frame at `data` and writes every field of `out`.
///
/// `contiguous` bytes are readable at `data`: at least min(frame_length, 128), unless the caller knows that the headers
/// are shorter. `frame_length` is the length of the whole frame without FCS, over all its segments. A header that
/// begins inside and ends beyond the contiguous bytes counts as truncated.
///
/// Which fields are set, beyond what parsed.h says:
/// - pair_hash: of the IP addresses if the IP header is valid; of sender and target protocol address for a valid ARP
///   message, so that it meets the IP traffic of the same pair; else of the MAC addresses; 0 if they are truncated.
/// - address_key: of a valid ARP message sender << 32 | target, host order.
/// - An invalid IP header leaves kind ipv4 or ipv6 with l3_offset only. With a truncated L4 header the kind stays ipv4
///   or ipv6 and the ports are 0.
/// - l4_offset: end of the IP header and of the walked extension headers, fragments included.
/// - mac_control: untagged only. Its content begins behind the 14 bytes of the Ethernet header.
/// - A packet with an IPv6 fragment header is a fragment even if it is the only one.
inline void parse_frame(const std::uint8_t* data, std::uint32_t contiguous, std::uint32_t frame_length,
                        Parsed& out) noexcept {
  if (contiguous >= detail::kFastBytes && detail::parse_frame_fast(data, contiguous, frame_length, out)) [[likely]]
    return;
  parse_frame_slow(data, contiguous, frame_length, out);
}

}  // namespace weft::wire
