// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// The rare packets of routing: everything that is not an ordinary packet to another host.
#include <cstring>

#include "switch/stages/l3/drops.h"
#include "switch/stages/l3/stage.h"

namespace weft::stages {
namespace {

using pipeline::Batch;
using pipeline::Context;
using pipeline::DropReason;
using pipeline::PacketMeta;
using wire::FrameKind;
using wire::header_at;
using wire::IpAddress;
using wire::ParsedFlag;

constexpr IpAddress kLimitedBroadcast = IpAddress::v4(0xffffffff);
constexpr IpAddress kAllHosts = IpAddress::v4(0xe0000001);

// Takes the 802.1Q tag off and keeps the parse record true.
void strip_tag(rte_mbuf* m) noexcept {
  constexpr std::uint16_t kTagBytes = sizeof(wire::VlanTag);
  PacketMeta& pm = pipeline::meta(m);
  std::uint8_t* frame = pipeline::frame(m);
  std::memmove(frame + kTagBytes, frame, 2 * sizeof(wire::MacAddress));
  rte_pktmbuf_adj(m, kTagBytes);
  if (pm.parsed.l3_offset != 0) pm.parsed.l3_offset = static_cast<std::uint8_t>(pm.parsed.l3_offset - kTagBytes);
  if (pm.parsed.l4_offset != 0) pm.parsed.l4_offset = static_cast<std::uint8_t>(pm.parsed.l4_offset - kTagBytes);
  pm.parsed.flags &= static_cast<std::uint8_t>(~ParsedFlag::vlan_tagged);
  pm.parsed.vlan_tci = 0;
}

// Addresses that no packet on a wire may have: 0/8, 127/8, 255/8 (RFC 1122 3.2.1.3), and ::/64 with the unspecified,
// loopback and IPv4-mapped addresses. 240/4 is in use as unicast in some networks.
bool is_impossible(const IpAddress& a) noexcept {
  if (!a.is_v6()) {
    const std::uint32_t octet = a.v4_value() >> 24;
    return octet == 0 || octet == 127 || octet == 255;
  }
  std::uint64_t upper;
  std::memcpy(&upper, a.bytes().data(), sizeof upper);
  return upper == 0;
}

}  // namespace

// What the kernel gets of a frame to the port or to a group, before anybody has looked at IP addresses: everything but
// packets to unicast addresses that may have to be forwarded, and multicast beyond the link.
bool L3Stage::is_for_kernel(const rte_mbuf* m) const noexcept {
  const wire::Parsed& parsed = pipeline::meta(m).parsed;
  if (parsed.kind == FrameKind::arp || parsed.kind == FrameKind::other) return true;
  if (parsed.l4_offset == 0) return false;
  const IpAddress destination = ip_ends(m).destination;
  if (!destination.is_v6()) return destination == kLimitedBroadcast || destination.v4_value() >> 8 == 0xe00000;
  const auto& bytes = destination.bytes();
  return destination.is_link_local() || (bytes[0] == 0xff && (bytes[1] & 0xf) <= 2);
}

void L3Stage::deliver(Context& context, Batch& batch, std::uint16_t i) noexcept {
  kernel_ == nullptr ? local_.deliver(context, batch, i) : kernel_->punt(context, batch, i);
}

void L3Stage::receive(Context& context, Batch& batch, std::uint16_t i) noexcept {
  rte_mbuf* m = batch.packet[i];
  const PacketMeta& pm = pipeline::meta(m);
  // Packets that a stage of the switch made have no link-layer destination yet.
  const bool from_outside = pm.in_port < interfaces_.size();
  if (from_outside && pm.parsed.has(ParsedFlag::vlan_tagged)) {
    if ((pm.parsed.vlan_tci & 0xfff) != 0) return context.drop(batch, i, DropReason::vlan_not_allowed);
    strip_tag(m);
  }
  const wire::MacAddress& destination = header_at<wire::EthernetHeader>(pipeline::frame(m)).destination;
  const bool link_multicast = from_outside && destination.is_multicast();
  if (from_outside && !link_multicast && destination != interfaces_[pm.in_port].mac) {
    return context.drop(batch, i, L3Drop::not_for_router);
  }
  if (kernel_ != nullptr && from_outside && is_for_kernel(m)) return kernel_->punt(context, batch, i);
  switch (pm.parsed.kind) {
    case FrameKind::arp:
      return from_outside ? local_.arp(context, batch, i) : context.consume(batch, i);
    case FrameKind::other:
    case FrameKind::mac_control:
      return context.drop(batch, i, L3Drop::unknown_ethertype);
    default:
      return receive_ip(context, batch, i, link_multicast);
  }
}

void L3Stage::receive_ip(Context& context, Batch& batch, std::uint16_t i, bool link_multicast) noexcept {
  const PacketMeta& pm = pipeline::meta(batch.packet[i]);
  if (pm.parsed.l4_offset == 0) return context.drop(batch, i, L3Drop::ip_malformed);
  if (pm.parsed.has(ParsedFlag::ipv6)) return receive_v6(context, batch, i, link_multicast);
  const auto& ip = header_at<wire::Ipv4Header>(pipeline::frame(batch.packet[i]) + pm.parsed.l3_offset);
  if (!wire::ipv4_checksum_ok(ip)) return context.drop(batch, i, L3Drop::ip_checksum);
  receive_v4(context, batch, i, link_multicast);
}

// RFC 1812 5.2.3, 5.3.4, 5.3.5 and 5.3.7; RFC 3927 7 for link-local addresses.
void L3Stage::receive_v4(Context& context, Batch& batch, std::uint16_t i, bool link_multicast) noexcept {
  const auto in_port = pipeline::meta(batch.packet[i]).in_port;
  const IpEnds ends = ip_ends(batch.packet[i]);
  if (ends.source.is_multicast()) return context.drop(batch, i, L3Drop::ip_source);
  // A host without an address sends from 0.0.0.0, to all.
  const bool all = ends.destination == kLimitedBroadcast || ends.destination == kAllHosts;
  if (is_impossible(ends.source) && !(all && ends.source.is_unspecified())) {
    return context.drop(batch, i, L3Drop::ip_source);
  }
  if (all) return deliver(context, batch, i);
  if (ends.destination.is_multicast() || is_impossible(ends.destination)) {
    return context.drop(batch, i, L3Drop::ip_destination);
  }
  if (link_multicast) {
    // RFC 1122 3.3.6: whoever sends to all on the link must say so in the IP header too.
    if (!interfaces_.is_broadcast(in_port, ends.destination)) return context.drop(batch, i, L3Drop::not_for_router);
    return deliver(context, batch, i);
  }
  const bool link_local = ends.source.is_link_local() || ends.destination.is_link_local();
  if (link_local && !interfaces_.is_local(in_port, ends.destination)) {
    return context.drop(batch, i, ends.source.is_link_local() ? L3Drop::ip_source : L3Drop::ip_destination);
  }
  route_one(context, batch, i, ends.destination);
}

// RFC 4291 2.5 and 2.7: where addresses of each scope may appear.
void L3Stage::receive_v6(Context& context, Batch& batch, std::uint16_t i, bool link_multicast) noexcept {
  const auto in_port = pipeline::meta(batch.packet[i]).in_port;
  const IpEnds ends = ip_ends(batch.packet[i]);
  if (ends.source.is_multicast()) return context.drop(batch, i, L3Drop::ip_source);
  if (ends.destination.is_multicast()) {
    const bool ours = in_port < interfaces_.size() && interfaces_.listens(in_port, ends.destination);
    if (!ours) return context.drop(batch, i, L3Drop::ip_destination);
    if (is_impossible(ends.source) && !ends.source.is_unspecified()) {
      return context.drop(batch, i, L3Drop::ip_source);
    }
    return deliver(context, batch, i);
  }
  if (link_multicast) return context.drop(batch, i, L3Drop::not_for_router);
  if (is_impossible(ends.source)) return context.drop(batch, i, L3Drop::ip_source);
  if (is_impossible(ends.destination)) return context.drop(batch, i, L3Drop::ip_destination);
  if (ends.destination.is_link_local()) {
    const bool ours = in_port < interfaces_.size() && interfaces_.owns(in_port, ends.destination);
    return ours ? deliver(context, batch, i) : context.drop(batch, i, L3Drop::ip_destination);
  }
  if (ends.source.is_link_local() && !interfaces_.is_local(in_port, ends.destination)) {
    return context.drop(batch, i, L3Drop::ip_source);
  }
  route_one(context, batch, i, ends.destination);
}

void L3Stage::dispatch_special(Context& context, Batch& batch, std::uint16_t i, tables::NextHopId id) noexcept {
  switch (id) {
    case tables::kLocal:
      return deliver(context, batch, i);
    case tables::kBlackhole:
      return context.drop(batch, i, L3Drop::blackhole_route);
    case tables::kProhibited:
      return finish_.refuse(context, batch, i, L3Drop::prohibited_route, IcmpError::prohibited);
    case tables::kBroadcast: {
      // Not forwarded (RFC 2644), but the switch is one of the hosts of its own subnets.
      const auto& pm = pipeline::meta(batch.packet[i]);
      const bool ours =
          pm.in_port < interfaces_.size() && interfaces_.is_broadcast(pm.in_port, ip_ends(batch.packet[i]).destination);
      return ours ? deliver(context, batch, i) : context.drop(batch, i, L3Drop::ip_destination);
    }
    default:
      return finish_.refuse(context, batch, i, L3Drop::no_route, IcmpError::no_route);
  }
}

}  // namespace weft::stages
