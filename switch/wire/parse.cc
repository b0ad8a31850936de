// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/wire/parse.h"

#include <algorithm>
#include <bit>

#include "switch/wire/parse_plain.h"
#include "switch/wire/rss.h"

namespace weft::wire {
namespace {

/// The frame and how far it may be read.
struct Frame {
  const std::uint8_t* data;
  std::uint32_t limit;   ///< bytes that are readable and belong to the frame
  std::uint32_t length;  ///< of the frame, over all segments

  [[nodiscard]] bool readable(std::uint32_t at, std::size_t bytes) const noexcept {
    return at <= limit && limit - at >= bytes;
  }
  template <class Header>
  [[nodiscard]] const Header& view(std::uint32_t at) const noexcept {
    return header_at<Header>(data + at);
  }
};

bool is_vlan_type(std::uint16_t type) noexcept {
  return type == EtherType::vlan || type == EtherType::service_vlan;
}

/// BTH at `at` with `bytes` of UDP payload. Sets the kind and the RoCE fields if everything is right.
Validity parse_roce(const Frame& f, std::uint32_t at, std::uint32_t bytes, Parsed& out) noexcept {
  if (bytes < sizeof(Bth) + kIcrcBytes || !f.readable(at, sizeof(Bth))) return Validity::roce_truncated;
  const auto& bth = f.view<Bth>(at);
  if (bth.transport_version() != 0) return Validity::roce_transport_version;
  const OpcodeInfo& row = opcode_info(bth.opcode);
  if (!row.known()) return Validity::roce_opcode;
  const std::size_t overhead = row.header_bytes + kIcrcBytes;
  if (bytes < overhead || !f.readable(at, row.header_bytes)) return Validity::roce_truncated;
  const auto padded = static_cast<std::uint32_t>(bytes - overhead);
  const std::uint8_t pad = bth.pad_count();
  if (pad > padded || (pad != 0 && !row.may_carry_payload())) return Validity::roce_pad;
  const std::uint32_t payload = padded - pad;
  if (payload != 0 && !row.may_carry_payload()) return Validity::roce_payload;
  if (payload == 0 && row.payload == PayloadRule::required) return Validity::roce_payload;
  if (bth.dest_qp.value() == 0) return Validity::roce_qp0;

  out.kind = FrameKind::roce;
  if (bth.ack_req()) out.flags |= ParsedFlag::ack_req;
  if (bth.solicited()) out.flags |= ParsedFlag::solicited;
  if (bth.fecn()) out.flags |= ParsedFlag::fecn;
  if (bth.becn()) out.flags |= ParsedFlag::becn;
  out.opcode = bth.opcode;
  out.payload_bytes = static_cast<std::uint16_t>(payload);
  if (row.has(HeaderMask::aeth)) {
    const auto aeth = at + static_cast<std::uint32_t>(row.offset_of(HeaderMask::aeth));
    out.syndrome = f.view<Aeth>(aeth).syndrome;
  }
  out.dest_qp = Qpn(bth.dest_qp.value());
  out.psn = Psn(bth.psn.value());
  return Validity::ok;
}

/// The transport header of an unfragmented packet. `bytes` is the IP payload behind all IP headers.
Validity parse_l4(const Frame& f, std::uint32_t at, std::uint32_t bytes, std::uint8_t protocol, Parsed& out) noexcept {
  const bool v6 = out.has(ParsedFlag::ipv6);
  const auto whole = [&](std::size_t header) { return bytes >= header && f.readable(at, header); };
  if (protocol == IpProtocol::tcp) {
    if (!whole(sizeof(TcpHeader))) return Validity::l4_truncated;
    const auto& tcp = f.view<TcpHeader>(at);
    out.kind = FrameKind::tcp;
    out.source_port = tcp.source_port.value();
    out.destination_port = tcp.destination_port.value();
    return Validity::ok;
  }
  if (protocol == (v6 ? IpProtocol::icmpv6 : IpProtocol::icmp)) {
    if (!whole(sizeof(IcmpHeader))) return Validity::l4_truncated;
    out.kind = FrameKind::icmp;
    return Validity::ok;
  }
  if (protocol != IpProtocol::udp) return Validity::ok;
  if (!whole(sizeof(UdpHeader))) return Validity::l4_truncated;
  const auto& udp = f.view<UdpHeader>(at);
  out.kind = FrameKind::udp;
  out.source_port = udp.source_port.value();
  out.destination_port = udp.destination_port.value();
  const std::uint32_t length = udp.length.value();
  if (length < sizeof(UdpHeader) || length > bytes) return Validity::udp_length;
  if (out.destination_port != kRoceUdpPort) return Validity::ok;
  constexpr std::uint32_t kUdp = sizeof(UdpHeader);
  return parse_roce(f, at + kUdp, length - kUdp, out);
}

Validity parse_ipv4(const Frame& f, std::uint32_t at, Parsed& out) noexcept {
  out.kind = FrameKind::ipv4;
  if (!f.readable(at, sizeof(Ipv4Header))) return Validity::ip_truncated;
  const auto& ip = f.view<Ipv4Header>(at);
  if (ip.version() != 4) return Validity::ip_version;
  const auto header = static_cast<std::uint32_t>(ip.header_bytes());
  const std::uint32_t total = ip.total_length.value();
  if (header < sizeof(Ipv4Header)) return Validity::ip_header_length;
  if (total < sizeof(Ipv4Header)) return Validity::ip_length;
  if (header > total) return Validity::ip_header_length;
  if (total > f.length - at) return Validity::ip_length;
  if (!f.readable(at, header)) return Validity::ip_truncated;

  if (header > sizeof(Ipv4Header)) out.flags |= ParsedFlag::ip_options;
  out.l4_offset = static_cast<std::uint8_t>(at + header);
  out.l3_length = static_cast<std::uint16_t>(total);
  out.tos = ip.tos;
  out.ttl = ip.ttl;
  out.protocol = ip.protocol;
  out.address_key = std::uint64_t{ip.source.value()} << 32 | ip.destination.value();
  out.stored_pair_hash = 0;
  if (ip.is_fragment()) {
    out.kind = FrameKind::ipv4_fragment;
    return Validity::ok;
  }
  return parse_l4(f, at + header, total - header, ip.protocol, out);
}

bool is_walked_extension(std::uint8_t next) noexcept {
  return next == IpProtocol::hop_by_hop || next == IpProtocol::routing || next == IpProtocol::destination_options;
}

/// Walks the extension headers. Returns ok with `at` and `next` behind the last one, or at a fragment header that was
/// read: then the kind is ipv6_fragment. l4_offset is a byte, so headers that end beyond 255 count as truncated.
Validity walk_extensions(const Frame& f, std::uint32_t end, std::uint32_t& at, std::uint8_t& next,
                         Parsed& out) noexcept {
  constexpr std::uint32_t kFurthest = 255;
  while (is_walked_extension(next) || next == IpProtocol::fragment) {
    out.flags |= ParsedFlag::ip_options;
    // Every extension header is at least eight bytes long, and so is the fragment header.
    constexpr std::uint32_t kLeast = 8;
    if (end - at < kLeast || !f.readable(at, kLeast)) return Validity::l4_truncated;
    const auto& extension = f.view<Ipv6ExtensionHeader>(at);
    const bool fragment = next == IpProtocol::fragment;
    const auto bytes = fragment ? kLeast : static_cast<std::uint32_t>(extension.header_bytes());
    if (end - at < bytes || !f.readable(at, bytes) || at + bytes > kFurthest) return Validity::l4_truncated;
    at += bytes;
    next = extension.next_header;
    out.l4_offset = static_cast<std::uint8_t>(at);
    out.protocol = next;
    if (fragment) {
      out.kind = FrameKind::ipv6_fragment;
      return Validity::ok;
    }
  }
  return Validity::ok;
}

Validity parse_ipv6(const Frame& f, std::uint32_t at, Parsed& out) noexcept {
  out.kind = FrameKind::ipv6;
  out.flags |= ParsedFlag::ipv6;
  if (!f.readable(at, sizeof(Ipv6Header))) return Validity::ip_truncated;
  const auto& ip = f.view<Ipv6Header>(at);
  if (ip.version() != 6) return Validity::ip_version;
  const std::uint32_t total = std::uint32_t{ip.payload_length.value()} + sizeof(Ipv6Header);
  // l3_length has 16 bits; no link that weft attaches to carries a longer packet.
  if (total > f.length - at || total > 0xffff) return Validity::ip_length;

  out.l4_offset = static_cast<std::uint8_t>(at + sizeof(Ipv6Header));
  out.l3_length = static_cast<std::uint16_t>(total);
  out.tos = ip.traffic_class();
  out.ttl = ip.hop_limit;
  out.protocol = ip.next_header;
  const Ipv6Hashes hashes = hash_v6(ip.source.data(), ip.destination.data());
  out.address_key = hashes.ordered;
  out.stored_pair_hash = pair_hash_v6(hashes.unordered, ip.source.data(), ip.destination.data());

  const std::uint32_t end = at + total;
  std::uint32_t l4 = out.l4_offset;
  std::uint8_t next = ip.next_header;
  const Validity walked = walk_extensions(f, end, l4, next, out);
  if (walked != Validity::ok || out.kind == FrameKind::ipv6_fragment) return walked;
  return parse_l4(f, l4, end - l4, next, out);
}

Validity parse_arp(const Frame& f, std::uint32_t at, Parsed& out) noexcept {
  out.kind = FrameKind::arp;
  if (!f.readable(at, sizeof(ArpHeader))) return Validity::arp_truncated;
  const auto& arp = f.view<ArpHeader>(at);
  if (arp.hardware_type.value() != ArpHeader::kEthernet || arp.protocol_type.value() != EtherType::ipv4 ||
      arp.hardware_length != sizeof(MacAddress) || arp.protocol_length != sizeof(be32)) {
    return Validity::arp_malformed;
  }
  out.address_key = std::uint64_t{arp.sender_ip.value()} << 32 | arp.target_ip.value();
  out.stored_pair_hash = 0;
  return Validity::ok;
}

Validity parse_ethernet(const Frame& f, Parsed& out) noexcept {
  if (!f.readable(0, sizeof(EthernetHeader))) return Validity::eth_truncated;
  const auto& eth = f.view<EthernetHeader>(0);
  out.stored_pair_hash = pair_hash_mac(eth.source.to_u64(), eth.destination.to_u64());
  std::uint32_t at = sizeof(EthernetHeader);
  std::uint16_t type = eth.ethertype.value();
  const bool tagged = is_vlan_type(type);
  if (tagged && !f.readable(at, sizeof(VlanTag))) return Validity::eth_truncated;
  if (eth.source.is_multicast()) return Validity::eth_source_multicast;
  if (tagged) {
    const auto& tag = f.view<VlanTag>(at);
    out.flags |= ParsedFlag::vlan_tagged;
    out.vlan_tci = tag.tci.value();
    type = tag.ethertype.value();
    at += sizeof(VlanTag);
    if (is_vlan_type(type)) return Validity::vlan_nested;
  }
  if (type == EtherType::ipv4 || type == EtherType::ipv6 || type == EtherType::arp) {
    out.l3_offset = static_cast<std::uint8_t>(at);
  }
  switch (type) {
    case EtherType::ipv4:
      return parse_ipv4(f, at, out);
    case EtherType::ipv6:
      return parse_ipv6(f, at, out);
    case EtherType::arp:
      return parse_arp(f, at, out);
    case EtherType::mac_control:
      if (!tagged) out.kind = FrameKind::mac_control;
      return Validity::ok;
    default:
      return Validity::ok;
  }
}

#if defined(__SSE4_1__)

/// RoCEv2 over IPv6 without extension headers behind at most one tag. False unless everything is valid.
bool parse_roce_ipv6(const std::uint8_t* data, std::uint32_t readable, std::uint32_t length, Parsed& out) noexcept {
  constexpr std::uint32_t kIp = sizeof(Ipv6Header);
  std::uint32_t l3 = sizeof(EthernetHeader);
  if (readable < l3 + sizeof(VlanTag)) return false;
  std::uint32_t flags = ParsedFlag::ipv6;
  std::uint16_t tci = 0;
  auto type = detail::load_be<std::uint16_t>(data + 12);
  if (type == EtherType::vlan) {
    flags |= ParsedFlag::vlan_tagged;
    tci = detail::load_be<std::uint16_t>(data + l3);
    type = detail::load_be<std::uint16_t>(data + l3 + 2);
    l3 += sizeof(VlanTag);
  }
  // Up to the four bytes behind the BTH, which are an AETH, other headers, payload or the ICRC.
  if (readable < l3 + kIp + sizeof(UdpHeader) + sizeof(Bth) + 4) return false;
  // If not all headers of any opcode are readable, the packet has to end there.
  const std::uint32_t all_headers = l3 + kIp + sizeof(UdpHeader) + kMaxRoceHeaderBytes;
  const std::uint32_t limit = readable >= all_headers ? length : readable;
  const std::uint8_t* ip = data + l3;
  const auto word = detail::load_be<std::uint64_t>(ip);  // version, class, flow label, length, next header, hop limit
  const std::uint32_t payload_length = static_cast<std::uint32_t>(word >> 16) & 0xffff;
  if (type != EtherType::ipv6 || word >> 60 != 6 || (word >> 8 & 0xff) != IpProtocol::udp) return false;
  if ((data[6] & 1) != 0 || payload_length + kIp > std::min(limit - l3, 0xffffu)) return false;
  const auto& udp = header_at<UdpHeader>(ip + kIp);
  const std::uint8_t* bth = ip + kIp + sizeof(UdpHeader);
  const detail::FastRow& row = detail::kFastRows[bth[0]];
  const auto tail = detail::load_raw<__m128i>(bth);
  std::uint32_t payload;
  if (udp.destination_port.value() != kRoceUdpPort || !_mm_testz_si128(tail, detail::vector(row.zero))) return false;
  if (udp.length.value() != payload_length || !detail::check_bth(bth, row, payload_length, payload)) return false;

  const auto ports = detail::load_be<std::uint32_t>(ip + kIp);
  detail::store_at(out, 0, _mm_shuffle_epi8(tail, detail::vector(row.to_first)));  // opcode, syndrome
  detail::store_at(out, 16, detail::bth_numbers(tail));
  out.kind = FrameKind::roce;
  out.validity = Validity::ok;
  out.flags = static_cast<std::uint8_t>(flags | detail::bth_flags(bth, row));
  out.l3_offset = static_cast<std::uint8_t>(l3);
  out.l4_offset = static_cast<std::uint8_t>(l3 + kIp);
  out.tos = static_cast<std::uint8_t>(word >> 52);
  out.ttl = static_cast<std::uint8_t>(word);
  out.vlan_tci = tci;
  out.l3_length = static_cast<std::uint16_t>(payload_length + kIp);
  out.payload_bytes = static_cast<std::uint16_t>(payload);
  out.protocol = IpProtocol::udp;
  const Ipv6Hashes hashes = hash_v6(ip + 8, ip + 24);
  out.address_key = hashes.ordered;
  out.stored_pair_hash = pair_hash_v6(hashes.unordered, ip + 8, ip + 24);
  detail::store_at(out, offsetof(Parsed, source_port), std::rotl(ports, 16));
  return true;
}

#endif

}  // namespace

void parse_frame_slow(const std::uint8_t* data, std::uint32_t contiguous, std::uint32_t frame_length,
                      Parsed& out) noexcept {
  out = Parsed{};
  out.validity = parse_ethernet(Frame{data, std::min(contiguous, frame_length), frame_length}, out);
}

// One branch for all conditions that hold, and every field written once: a third of the time of the general way.
bool parse_plain_ipv4(const std::uint8_t* data, std::uint32_t contiguous, std::uint32_t frame_length,
                      Parsed& out) noexcept {
  constexpr std::uint32_t kAt = sizeof(EthernetHeader), kL4 = kAt + sizeof(Ipv4Header);
  const std::uint32_t readable = std::min(contiguous, frame_length);
  if (readable < kL4 + sizeof(UdpHeader)) return false;
  const auto& eth = header_at<EthernetHeader>(data);
  const auto& ip = header_at<Ipv4Header>(data + kAt);
  const auto& udp = header_at<UdpHeader>(data + kL4);
  constexpr std::uint8_t kVersionAndLength = 4 << 4 | sizeof(Ipv4Header) / 4;
  const std::uint32_t total = ip.total_length.value();
  const std::uint32_t bytes = total - sizeof(Ipv4Header);  // wraps when it is too short
  const std::uint32_t room = frame_length - kL4;
  unsigned wrong = eth.ethertype.value() != EtherType::ipv4;
  wrong |= data[kAt] != kVersionAndLength;
  wrong |= eth.source.is_multicast();
  wrong |= ip.is_fragment();
  wrong |= bytes > room;
  if (wrong != 0) return false;
  const bool is_udp = ip.protocol == IpProtocol::udp;
  if (is_udp) {
    const std::uint32_t length = udp.length.value();
    if (bytes < sizeof(UdpHeader) || length < sizeof(UdpHeader) || length > bytes) return false;
    if (udp.destination_port.value() == kRoceUdpPort) return false;
  } else if (ip.protocol != IpProtocol::tcp || bytes < sizeof(TcpHeader) || readable < kL4 + sizeof(TcpHeader)) {
    return false;
  }
  out = Parsed{
      .kind = is_udp ? FrameKind::udp : FrameKind::tcp,
      .validity = Validity::ok,
      .flags = 0,
      .l3_offset = kAt,
      .l4_offset = kL4,
      .opcode = 0,
      .tos = ip.tos,
      .ttl = ip.ttl,
      .vlan_tci = 0,
      .l3_length = static_cast<std::uint16_t>(total),
      .payload_bytes = 0,
      .syndrome = 0,
      .protocol = ip.protocol,
      .dest_qp = {},
      .psn = {},
      .address_key = std::uint64_t{ip.source.value()} << 32 | ip.destination.value(),
      .stored_pair_hash = 0,
      // Where TCP has its ports, too.
      .source_port = udp.source_port.value(),
      .destination_port = udp.destination_port.value(),
  };
  return true;
}

#if defined(__SSE4_1__)

bool detail::parse_roce_rest(const std::uint8_t* data, std::uint32_t contiguous, std::uint32_t frame_length,
                             Parsed& out) noexcept {
  constexpr std::uint32_t kL3 = sizeof(EthernetHeader) + sizeof(VlanTag);
  if (contiguous >= RoceV4Fields<kL3>::kBytes && load_be<std::uint16_t>(data + 12) == EtherType::vlan &&
      parse_roce_ipv4<kL3>(data, readable_headers(kL3, contiguous, frame_length), out)) {
    return true;
  }
  return parse_roce_ipv6(data, std::min(contiguous, frame_length), frame_length, out);
}

#endif

}  // namespace weft::wire
