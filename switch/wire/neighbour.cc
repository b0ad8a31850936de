// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/wire/neighbour.h"

#include <cassert>

#include "switch/wire/checksum.h"

namespace weft::wire {
namespace {

constexpr std::size_t kL3 = sizeof(EthernetHeader);
// Neighbour discovery is not routed: a receiver accepts no other hop limit (RFC 4861 7.1).
constexpr std::uint8_t kOnLinkHopLimit = 255;

std::size_t write_neighbour(std::span<std::uint8_t> out, const LinkAddresses& link, const IpAddress& source,
                            const IpAddress& destination, const NeighbourMessage& message,
                            std::uint8_t option) noexcept {
  assert(out.size() >= kNeighbourBytes);
  constexpr std::size_t kPayload = sizeof(NeighbourMessage) + sizeof(NdLinkLayerOption);
  header_at<EthernetHeader>(out.data()) = {link.destination, link.source, be16(EtherType::ipv6)};
  auto& ip = header_at<Ipv6Header>(out.data() + kL3);
  ip.version_class_flow.set(0);
  ip.set_version(6);
  ip.payload_length.set(kPayload);
  ip.next_header = IpProtocol::icmpv6;
  ip.hop_limit = kOnLinkHopLimit;
  ip.source = source.bytes();
  ip.destination = destination.bytes();
  std::uint8_t* at = out.data() + kL3 + sizeof ip;
  header_at<NeighbourMessage>(at) = message;
  header_at<NdLinkLayerOption>(at + sizeof message) = {option, 1, link.source};
  header_at<IcmpHeader>(at).checksum.set(l4_checksum(ip, IpProtocol::icmpv6, {at, kPayload}));
  return kNeighbourBytes;
}

/// The first link-layer address option of `type`; its `valid` is false when the options are broken.
struct LinkLayer {
  bool valid = false;
  std::optional<MacAddress> mac{};
};
LinkLayer find_link_layer(std::span<const std::uint8_t> options, std::uint8_t type) noexcept {
  LinkLayer found;
  while (!options.empty()) {
    const std::size_t bytes = options.size() >= 2 ? options[1] * std::size_t{8} : 0;
    if (bytes == 0 || bytes > options.size()) return {};
    const auto& option = header_at<NdLinkLayerOption>(options.data());
    if (option.type == type && bytes == sizeof option && !found.mac) found.mac = option.mac;
    options = options.subspan(bytes);
  }
  found.valid = true;
  return found;
}

/// ICMPv6 checksum over a message, the checksum field included.
bool checksum_ok(const Ipv6Header& ip, std::span<const std::uint8_t> message) noexcept {
  auto sum = pseudo_header_sum(ip, IpProtocol::icmpv6, static_cast<std::uint32_t>(message.size()));
  sum.add_bytes(message);
  return sum.folded() == 0xffff;
}

}  // namespace

std::size_t write_neighbour_solicitation(std::span<std::uint8_t> out, const LinkAddresses& link,
                                         const IpAddress& source, const IpAddress& destination,
                                         const IpAddress& target) noexcept {
  const NeighbourMessage message{{Icmpv6Type::neighbour_solicitation, 0, be16(0), be32(0)}, target.bytes()};
  return write_neighbour(out, link, source, destination, message, NdLinkLayerOption::kSource);
}

std::size_t write_neighbour_advertisement(std::span<std::uint8_t> out, const LinkAddresses& link,
                                          const IpAddress& source, const IpAddress& destination,
                                          std::uint32_t flags) noexcept {
  const NeighbourMessage message{{Icmpv6Type::neighbour_advertisement, 0, be16(0), be32(flags)}, source.bytes()};
  return write_neighbour(out, link, source, destination, message, NdLinkLayerOption::kTarget);
}

bool is_neighbour_message(const std::uint8_t* frame, const Parsed& parsed) noexcept {
  if (parsed.kind != FrameKind::icmp || !parsed.has(ParsedFlag::ipv6)) return false;
  const std::uint8_t type = frame[parsed.l4_offset];
  return type == Icmpv6Type::neighbour_solicitation || type == Icmpv6Type::neighbour_advertisement;
}

std::optional<ReceivedNeighbour> read_neighbour(const std::uint8_t* frame, std::uint32_t contiguous,
                                                const Parsed& parsed) noexcept {
  const auto& ip = header_at<Ipv6Header>(frame + parsed.l3_offset);
  const std::uint32_t bytes = parsed.l3_length - (std::uint32_t{parsed.l4_offset} - parsed.l3_offset);
  if (bytes < sizeof(NeighbourMessage) || contiguous < parsed.l4_offset + bytes) return std::nullopt;
  const std::span<const std::uint8_t> message(frame + parsed.l4_offset, bytes);
  const auto& header = header_at<NeighbourMessage>(message.data());
  if (ip.hop_limit != kOnLinkHopLimit || header.icmp.code != 0 || !checksum_ok(ip, message)) return std::nullopt;
  const bool solicitation = header.icmp.type == Icmpv6Type::neighbour_solicitation;
  const LinkLayer link_layer = find_link_layer(message.subspan(sizeof header),
                                               solicitation ? NdLinkLayerOption::kSource : NdLinkLayerOption::kTarget);
  if (!link_layer.valid) return std::nullopt;
  if (link_layer.mac && (link_layer.mac->is_multicast() || link_layer.mac->is_zero())) return std::nullopt;
  const IpAddress target = IpAddress::v6(header.target);
  if (target.is_multicast()) return std::nullopt;
  return ReceivedNeighbour{
      header.icmp.type, header.icmp.rest.value(), IpAddress::v6(ip.source), IpAddress::v6(ip.destination), target,
      link_layer.mac};
}

}  // namespace weft::wire
