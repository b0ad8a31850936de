// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/stages/l3/messages.h"

#include <cassert>

#include "switch/wire/checksum.h"

namespace weft::stages {
namespace {

using wire::be16;
using wire::be32;
using wire::header_at;
using wire::IpAddress;
using wire::LinkAddresses;

constexpr std::size_t kL3 = sizeof(wire::EthernetHeader);
constexpr std::uint8_t kDefaultTtl = 64;
// ICMP errors are internetwork control, precedence 6 (RFC 1812 4.3.2.5).
constexpr std::uint8_t kErrorTos = 0xc0;

void write_ethernet(std::uint8_t* out, const LinkAddresses& link, std::uint16_t ethertype) noexcept {
  header_at<wire::EthernetHeader>(out) = {link.destination, link.source, be16(ethertype)};
}

wire::Ipv6Header& write_ipv6(std::uint8_t* out, const IpAddress& source, const IpAddress& destination,
                             std::size_t payload) noexcept {
  auto& ip = header_at<wire::Ipv6Header>(out + kL3);
  ip.version_class_flow.set(0);
  ip.set_version(6);
  ip.payload_length.set(static_cast<std::uint16_t>(payload));
  ip.next_header = wire::IpProtocol::icmpv6;
  ip.hop_limit = kDefaultTtl;
  ip.source = source.bytes();
  ip.destination = destination.bytes();
  return ip;
}

}  // namespace

void write_icmp_error(std::span<std::uint8_t> frame, const LinkAddresses& link, const IpAddress& source,
                      const IpAddress& destination, const IcmpMessage& message) noexcept {
  const bool v6 = source.is_v6();
  assert(v6 == destination.is_v6() && frame.size() >= icmp_quote_offset(v6));
  const auto icmp = frame.subspan(icmp_quote_offset(v6) - sizeof(wire::IcmpHeader));
  auto& header = header_at<wire::IcmpHeader>(icmp.data());
  header = {message.type, message.code, be16(0), be32(message.rest)};
  if (v6) {
    write_ethernet(frame.data(), link, wire::EtherType::ipv6);
    auto& ip = write_ipv6(frame.data(), source, destination, icmp.size());
    ip.set_traffic_class(kErrorTos);
    header.checksum.set(wire::l4_checksum(ip, wire::IpProtocol::icmpv6, icmp));
    return;
  }
  write_ethernet(frame.data(), link, wire::EtherType::ipv4);
  auto& ip = header_at<wire::Ipv4Header>(frame.data() + kL3);
  // Never fragmented, so it needs no identification (RFC 6864 4.1).
  ip = {0x45,
        kErrorTos,
        be16(static_cast<std::uint16_t>(frame.size() - kL3)),
        be16(0),
        be16(wire::Ipv4Header::kDontFragment),
        kDefaultTtl,
        wire::IpProtocol::icmp,
        be16(0),
        be32(source.v4_value()),
        be32(destination.v4_value())};
  ip.checksum.set(wire::ipv4_checksum(ip));
  header.checksum.set(wire::internet_checksum(icmp));
}

}  // namespace weft::stages
