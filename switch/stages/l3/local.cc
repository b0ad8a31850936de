// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/stages/l3/local.h"

#include <utility>

#include "switch/stages/l3/icmp.h"
#include "switch/stages/l3/messages.h"
#include "switch/stages/l3/resolver.h"
#include "switch/wire/checksum.h"
#include "switch/wire/emit.h"
#include "switch/wire/parse.h"

namespace weft::stages {
namespace {

using pipeline::Batch;
using pipeline::Context;
using pipeline::PacketMeta;
using pipeline::PortIndex;
using tables::NeighbourTable;
using wire::ArpHeader;
using wire::EthernetHeader;
using wire::header_at;
using wire::IcmpHeader;
using wire::IpAddress;
using wire::Ipv4Header;
using wire::Ipv6Header;
using wire::MacAddress;
using wire::NdLinkLayerOption;
using wire::NeighbourMessage;
using wire::ParsedFlag;

constexpr std::uint8_t kReplyTtl = 64;

// RFC 4291 2.7.1: ff02::1:ff00:0/104.
bool is_solicited_node(const IpAddress& a) noexcept {
  const auto& b = a.bytes();
  return a == tables::solicited_node(IpAddress::v6({0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, b[13], b[14], b[15]}));
}

}  // namespace

void L3Local::arp(Context& context, Batch& batch, std::uint16_t i) noexcept {
  read_arp(context, batch.packet[i]);
  context.consume(batch, i);
}

void L3Local::deliver(Context& context, Batch& batch, std::uint16_t i) noexcept {
  rte_mbuf* m = batch.packet[i];
  // The switch does not answer itself.
  const bool from_outside = pipeline::meta(m).in_port < interfaces_.size();
  if (from_outside && wire::is_neighbour_message(pipeline::frame(m), pipeline::meta(m).parsed)) {
    read_nd(context, m);
  } else if (from_outside && pipeline::meta(m).parsed.kind == wire::FrameKind::icmp && echo(m)) {
    return counters_.add(L3Counter::echo_answered);
  }
  context.consume(batch, i);
}

NeighbourTable::Index L3Local::neighbour(Context& context, PortIndex port, const IpAddress& address,
                                         bool may_add) noexcept {
  const Index index = neighbours_.find(port, address);
  if (index != neighbours_.nobody() || !may_add) return index;
  const Index added = neighbours_.find_or_add(port, address, context.now);
  if (added == neighbours_.nobody()) counters_.add(L3Counter::neighbours_full);
  return added;
}

void L3Local::learn(Context& context, Index index, const NeighbourTable::Advertisement& said) noexcept {
  switch (neighbours_.learn(index, said, context.now)) {
    case NeighbourTable::Learned::resolved:
      return counters_.add(L3Counter::neighbours_resolved);
    case NeighbourTable::Learned::moved:
      return counters_.add(L3Counter::neighbours_moved);
    case NeighbourTable::Learned::ignored:
    case NeighbourTable::Learned::refreshed:
      return;
  }
}

// --- ARP ----------------------------------------------------------------------------------------------------------

void L3Local::read_arp(Context& context, const rte_mbuf* m) noexcept {
  const PacketMeta& pm = pipeline::meta(m);
  const auto& eth = header_at<EthernetHeader>(pipeline::frame(m));
  const auto& arp = header_at<ArpHeader>(pipeline::frame(m) + pm.parsed.l3_offset);
  const PortIndex port = pm.in_port;
  if (pm.parsed.validity != wire::Validity::ok || arp.sender_mac.is_multicast() || arp.sender_mac.is_zero()) {
    return counters_.add(L3Counter::arp_invalid);
  }
  const IpAddress sender = IpAddress::v4(arp.sender_ip.value());
  const IpAddress target = IpAddress::v4(arp.target_ip.value());
  const MacAddress own_mac = interfaces_[port].mac;
  if (interfaces_.owns(port, sender)) {
    if (arp.sender_mac != own_mac) counters_.add(L3Counter::address_conflicts);
    return;
  }
  const bool for_us = interfaces_.owns(port, target);
  const bool is_request = arp.operation.value() == wire::ArpOperation::request;
  const bool is_reply = arp.operation.value() == wire::ArpOperation::reply;
  if (!is_request && !is_reply) return;
  // A sender of 0.0.0.0 only asks whether an address is free (RFC 5227): it gets its answer and is not learned.
  const bool is_host = interfaces_.on_link(port, sender) && !interfaces_.is_broadcast(port, sender);
  const Index index = neighbour(context, port, sender, for_us && is_host);
  if (index != neighbours_.nobody()) {
    learn(context, index, {.mac = arp.sender_mac, .confirmed = is_reply && for_us && eth.destination == own_mac});
  }
  if (!is_request || !for_us) return;
  std::uint8_t frame[wire::kMinFrameBytes];
  const std::size_t bytes =
      wire::write_arp(frame, own_mac, arp.sender_mac, wire::ArpOperation::reply, target, arp.sender_mac, sender);
  if (send_message(context, counters_, {frame, bytes}, port)) counters_.add(L3Counter::arp_requests_answered);
}

// --- neighbour discovery ------------------------------------------------------------------------------------------

void L3Local::read_nd(Context& context, const rte_mbuf* m) noexcept {
  const auto message = wire::read_neighbour(pipeline::frame(m), m->data_len, pipeline::meta(m).parsed);
  if (!message) return counters_.add(L3Counter::nd_invalid);
  const bool solicitation = message->type == wire::Icmpv6Type::neighbour_solicitation;
  solicitation ? solicited(context, m, *message) : advertised(context, m, *message);
}

void L3Local::solicited(Context& context, const rte_mbuf* m, const wire::ReceivedNeighbour& message) noexcept {
  const PortIndex port = pipeline::meta(m).in_port;
  const bool asks_if_free = message.source.is_unspecified();
  if (asks_if_free && (message.mac || !is_solicited_node(message.destination))) {
    return counters_.add(L3Counter::nd_invalid);
  }
  if (interfaces_.owns(port, message.source)) return counters_.add(L3Counter::address_conflicts);
  if (!interfaces_.owns(port, message.target)) return;
  if (message.mac) {
    const Index index = neighbour(context, port, message.source, interfaces_.on_link(port, message.source));
    if (index != neighbours_.nobody()) learn(context, index, {.mac = message.mac});
  }
  const auto& eth = header_at<EthernetHeader>(pipeline::frame(m));
  const IpAddress to = asks_if_free ? tables::kAllNodes : message.source;
  const MacAddress to_mac = asks_if_free ? tables::multicast_mac(to) : message.mac.value_or(eth.source);
  const std::uint32_t flags =
      NeighbourMessage::kRouter | NeighbourMessage::kOverride | (asks_if_free ? 0 : NeighbourMessage::kSolicited);
  std::uint8_t frame[wire::kNeighbourBytes];
  const std::size_t bytes =
      wire::write_neighbour_advertisement(frame, {interfaces_[port].mac, to_mac}, message.target, to, flags);
  if (send_message(context, counters_, {frame, bytes}, port)) counters_.add(L3Counter::nd_solicitations_answered);
}

void L3Local::advertised(Context& context, const rte_mbuf* m, const wire::ReceivedNeighbour& message) noexcept {
  const PortIndex port = pipeline::meta(m).in_port;
  const bool answers = (message.flags & NeighbourMessage::kSolicited) != 0;
  if (answers && message.destination.is_multicast()) return counters_.add(L3Counter::nd_invalid);
  if (interfaces_.owns(port, message.target)) return counters_.add(L3Counter::address_conflicts);
  const Index index = neighbours_.find(port, message.target);
  if (index == neighbours_.nobody()) return;
  learn(context, index,
        {.mac = message.mac, .confirmed = answers, .may_replace = (message.flags & NeighbourMessage::kOverride) != 0});
}

// --- echo ---------------------------------------------------------------------------------------------------------

// The request becomes the reply: its checksums are updated, not computed anew, so that a broken request stays broken.
// It leaves the way that it came, without a lookup.
bool L3Local::echo(rte_mbuf* m) noexcept {
  PacketMeta& pm = pipeline::meta(m);
  if (!(pm.parsed.has(ParsedFlag::ipv6) ? echo_v6(m) : echo_v4(m))) return false;
  auto& eth = header_at<EthernetHeader>(pipeline::frame(m));
  eth.destination = eth.source;
  eth.source = interfaces_[pm.in_port].mac;
  wire::parse_frame(pipeline::frame(m), m->data_len, m->pkt_len, pm.parsed);
  pm.out_port = pm.in_port;
  return true;
}

bool L3Local::echo_v4(rte_mbuf* m) noexcept {
  const PacketMeta& pm = pipeline::meta(m);
  auto& ip = header_at<Ipv4Header>(pipeline::frame(m) + pm.parsed.l3_offset);
  auto& icmp = header_at<IcmpHeader>(pipeline::frame(m) + pm.parsed.l4_offset);
  if (icmp.type != wire::IcmpType::echo_request || icmp.code != 0) return false;
  // Nobody may make the switch answer to itself or to a whole subnet.
  const IpEnds ends = ip_ends(m);
  if (!interfaces_.is_local(pm.in_port, ends.destination) || interfaces_.is_local(pm.in_port, ends.source))
    return false;
  if (interfaces_.is_broadcast(pm.in_port, ends.source)) return false;
  const auto type_word = [&] { return static_cast<std::uint16_t>(icmp.type << 8); };
  const auto ttl_word = [&] { return static_cast<std::uint16_t>(ip.ttl << 8 | ip.protocol); };
  const std::uint16_t old_type = type_word();
  const std::uint16_t old_ttl = ttl_word();
  icmp.type = wire::IcmpType::echo_reply;
  ip.ttl = kReplyTtl;
  icmp.checksum.set(wire::checksum_update(icmp.checksum.value(), old_type, type_word()));
  ip.checksum.set(wire::checksum_update(ip.checksum.value(), old_ttl, ttl_word()));
  std::swap(ip.source, ip.destination);
  return true;
}

bool L3Local::echo_v6(rte_mbuf* m) noexcept {
  const PacketMeta& pm = pipeline::meta(m);
  auto& ip = header_at<Ipv6Header>(pipeline::frame(m) + pm.parsed.l3_offset);
  auto& icmp = header_at<IcmpHeader>(pipeline::frame(m) + pm.parsed.l4_offset);
  if (icmp.type != wire::Icmpv6Type::echo_request || icmp.code != 0) return false;
  const IpEnds ends = ip_ends(m);
  if (ends.source.is_unspecified() || interfaces_.is_local(pm.in_port, ends.source)) return false;
  // The answer to a group or anycast address comes from a unicast address (RFC 4443 4.2).
  const bool unicast = interfaces_.is_local(pm.in_port, ends.destination);
  const auto from = unicast ? std::optional(ends.destination) : interfaces_.answer_from(pm.in_port, ends.source);
  if (!from) return false;
  wire::ChecksumSum sum;
  sum.remove_word(icmp.checksum.value());
  sum.remove_word(static_cast<std::uint16_t>(icmp.type << 8));
  sum.add_word(wire::Icmpv6Type::echo_reply << 8);
  for (std::size_t at = 0; at < ip.source.size(); at += 2) {
    sum.remove_word(header_at<wire::be16>(ip.destination.data() + at).value());
    sum.add_word(header_at<wire::be16>(from->bytes().data() + at).value());
  }
  icmp.checksum.set(sum.checksum());
  icmp.type = wire::Icmpv6Type::echo_reply;
  ip.hop_limit = kReplyTtl;
  ip.destination = ends.source.bytes();
  ip.source = from->bytes();
  return true;
}

}  // namespace weft::stages
