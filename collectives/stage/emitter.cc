// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "collectives/stage/emitter.h"

#include <algorithm>
#include <cstring>

#include "collectives/stage/drops.h"
#include "switch/tables/interfaces.h"
#include "switch/wire/emit.h"
#include "switch/wire/neighbour.h"
#include "switch/wire/parse.h"
#include "switch/wire/payload_crc.h"

namespace weft::inc {
namespace {

using wire::HeaderMask;

/// The CRC of a shorter payload is computed with the headers': that costs less than combining them.
constexpr std::uint32_t kLeastShared = 64;
/// A peer that nobody has seen is asked for this often.
constexpr TimeNs kAskNs = 100'000'000;
constexpr std::size_t kLargestFrame = nic::kMaxHeadBytes + 4096 + 3 + wire::kIcrcBytes;
constexpr std::uint32_t kTagBytes = sizeof(wire::VlanTag);
constexpr std::uintptr_t kCacheLine = 64;

bool can_share(const nic::Packet& p) noexcept {
  return p.payload.bytes >= kLeastShared && p.payload.bytes % 4 == 0 && p.payload.count == 1 &&
         p.payload.data() != nullptr;
}

/// Moves the beginning of an empty packet, so that its payload begins with a cache line as slots do: no word of the
/// copy then lies in two lines. Not where a buffer has no room for that.
void align_payload(rte_mbuf* m, const nic::TxFrame& frame) noexcept {
  const auto payload = reinterpret_cast<std::uintptr_t>(pipeline::frame(m)) + frame.head.size();
  const auto shift = static_cast<std::uint16_t>(-payload % kCacheLine);
  if (frame.bytes() + shift <= rte_pktmbuf_tailroom(m)) m->data_off = static_cast<std::uint16_t>(m->data_off + shift);
}

void parse(rte_mbuf* m) noexcept {
  wire::parse_frame(pipeline::frame(m), m->data_len, m->pkt_len, pipeline::meta(m).parsed);
}

}  // namespace

Emitter::Emitter(const pipeline::SwitchInfo& info, EmitterCounters counters)
    : info_(info), counters_(counters), routed_(is_routed(info)), whole_(kLargestFrame) {}

void Emitter::send(EndpointIndex to, const nic::Packet& p, bool marked) {
  const bool cnp = p.opcode == wire::Opcode::CNP;
  const wire::Ecn ecn = marked                                  ? wire::Ecn::ce
                        : p.info().has(HeaderMask::aeth) || cnp ? wire::Ecn::not_ect
                                                                : wire::Ecn::ect0;
  const GroupSpec& spec = group_->spec;
  const std::uint8_t dscp = cnp ? spec.cnp_dscp : p.opcode == wire::Opcode::RC_ACKNOWLEDGE ? spec.ack_dscp : spec.dscp;
  const auto tos = static_cast<std::uint8_t>(dscp << 2 | static_cast<std::uint8_t>(ecn));
  rte_mbuf* m = make(to, p, tos);
  if (m == nullptr) return counters_.no_buffer.add(1);
  leave(m, to);
}

void Emitter::finish() noexcept {
  shared_.data = nullptr;
}

rte_mbuf* Emitter::make(EndpointIndex to, const nic::Packet& p, std::uint8_t tos) noexcept {
  rte_mbuf* m = context_->generate();
  if (m == nullptr) return nullptr;
  Edge& edge = group_->edges[to];
  std::uint8_t head[nic::kMaxHeadBytes];
  const nic::TxFrame frame = nic::make_frame(edge.head, tos, p, edge.peer_qp, head);
  // The next switch wants header bytes in one piece. The buffers of a simulation have room for little more.
  const std::uint32_t in_one_piece = std::min<std::uint32_t>(frame.bytes(), pipeline::kHeaderBytes);
  m->data_off = static_cast<std::uint16_t>(std::min<std::uint32_t>(m->data_off, m->buf_len - in_one_piece));
  if (p.payload.bytes != 0 && p.payload.data() == nullptr && frame.bytes() > pipeline::kHeaderBytes) {
    // A simulation that leaves payload out.
    auto* at = reinterpret_cast<std::uint8_t*>(rte_pktmbuf_append(m, pipeline::kHeaderBytes));
    std::fill_n(std::copy(frame.head.begin(), frame.head.end(), at), pipeline::kHeaderBytes - frame.head.size(), 0);
    m->pkt_len = frame.bytes();
  } else if (!write(edge, p, frame, m)) {
    context_->drop(m, pipeline::DropReason::out_of_mbufs);
    return nullptr;
  }
  set_parsed(edge, p, tos, m);
  return m;
}

/// Into one buffer where it has the room, into a chain otherwise.
bool Emitter::write(Edge& edge, const nic::Packet& p, const nic::TxFrame& frame, rte_mbuf* m) noexcept {
  const std::uint32_t bytes = frame.bytes();
  const bool shared = can_share(p);
  if (shared) align_payload(m, frame);
  char* const room = rte_pktmbuf_append(m, static_cast<std::uint16_t>(bytes));
  std::uint8_t* const at = room != nullptr ? reinterpret_cast<std::uint8_t*>(room) : whole_.data();
  if (shared) {
    share(edge, p, frame, at);
  } else {
    nic::copy_frame(frame, {at, bytes});
  }
  if (room != nullptr) return true;
  rte_mbuf* last = m;
  for (std::uint32_t done = 0; done < bytes;) {
    if (done != 0) {
      rte_mbuf* next = rte_pktmbuf_alloc(m->pool);
      if (next == nullptr) return false;
      last->next = next;
      last = next;
      ++m->nb_segs;
    }
    const std::uint32_t part = std::min<std::uint32_t>(bytes - done, rte_pktmbuf_tailroom(last));
    std::memcpy(rte_pktmbuf_mtod(last, void*), whole_.data() + done, part);
    last->data_len = static_cast<std::uint16_t>(part);
    done += part;
  }
  m->pkt_len = bytes;
  return true;
}

/// Payload is copied: that costs less than two more buffers for each packet and their reference counts, with 4 KiB,
/// too. Nothing is read of what was written a moment ago, which would wait for it.
void Emitter::share(Edge& edge, const nic::Packet& p, const nic::TxFrame& frame, std::uint8_t* at) noexcept {
  const std::uint8_t* const data = p.payload.data();
  const std::uint8_t* const head = frame.head.data();
  const std::uint32_t head_part = edge.head_crc.part(head, frame.layout, p);
  if (data == shared_.data && p.payload.bytes == shared_.bytes) {
    counters_.reused.add(1);
  } else {
    shared_ = {data, p.payload.bytes, wire::payload_crc({data, p.payload.bytes})};
  }
  std::memcpy(at + frame.head.size(), data, p.payload.bytes);
  std::memcpy(at, head, frame.head.size());
  wire::store_icrc(at + frame.layout.icrc, shared_.crc ^ head_part);
}

/// What the parser would find.
void Emitter::set_parsed(const Edge& edge, const nic::Packet& p, std::uint8_t tos, rte_mbuf* m) noexcept {
  wire::Parsed& parsed = pipeline::meta(m).parsed;
  Shared& s = shared_;
  if (!can_share(p)) return parse(m);
  if (!s.known || p.opcode != s.opcode || tos != s.tos || p.solicited != s.solicited) {
    parse(m);
    s.opcode = p.opcode;
    s.tos = tos;
    s.solicited = p.solicited;
    s.parsed = parsed;
    s.known = true;
    return;
  }
  parsed = s.parsed;
  parsed.address_key = edge.sent_as.address_key;
  parsed.stored_pair_hash = edge.sent_as.stored_pair_hash;
  parsed.source_port = edge.head.path().source_port;
  parsed.dest_qp = edge.peer_qp;
  parsed.psn = p.psn;
  parsed.flags = static_cast<std::uint8_t>((parsed.flags & ~wire::ParsedFlag::ack_req) |
                                           (p.ack_req ? wire::ParsedFlag::ack_req : 0));
}

void Emitter::leave(rte_mbuf* m, EndpointIndex to) noexcept {
  counters_.sent.add(1);
  Edge& edge = group_->edges[to];
  ++edge.sent;
  if (routed_) return context_->resume(m);
  bridge(m, edge, group_->spec.edges[to]);
}

/// Straight to the port where the peer was seen: a bridge would not send a packet back to where it came from.
void Emitter::bridge(rte_mbuf* m, Edge& edge, const EdgeSpec& spec) noexcept {
  const Neighbour::Position at = edge.neighbour.get();
  if (at.port >= info_.ports.size()) {
    ask(edge, spec);
    return context_->drop(m, IncDrop::inc_no_neighbour);
  }
  auto& eth = wire::header_at<wire::EthernetHeader>(pipeline::frame(m));
  eth.source = info_.ports[at.port].mac;
  eth.destination = at.mac;
  if (at.tagged && !tag(m, at.vlan_tci)) return context_->drop(m, pipeline::DropReason::out_of_mbufs);
  context_->send(m, at.port);
}

bool Emitter::tag(rte_mbuf* m, std::uint16_t tci) noexcept {
  char* head = rte_pktmbuf_prepend(m, kTagBytes);
  if (head == nullptr) return false;
  std::memmove(head, head + kTagBytes, 2 * sizeof(wire::MacAddress));
  auto* const at = reinterpret_cast<std::uint8_t*>(head) + 2 * sizeof(wire::MacAddress);
  wire::header_at<wire::be16>(at).set(wire::EtherType::vlan);
  wire::header_at<wire::be16>(at + 2).set(tci);
  parse(m);
  return true;
}

/// Asks on all ports, without tags: the answer says where the peer is.
void Emitter::ask(Edge& edge, const EdgeSpec& spec) noexcept {
  if (edge.asked != 0 && context_->now < edge.asked + kAskNs) return;
  edge.asked = context_->now;
  for (const pipeline::PortInfo& port : info_.ports) {
    if (!context_->link_up(port.index)) continue;
    std::uint8_t frame[wire::kNeighbourBytes];
    std::size_t bytes = 0;
    if (spec.peer.is_v6()) {
      const wire::IpAddress all = tables::solicited_node(spec.peer);
      bytes = wire::write_neighbour_solicitation(frame, {port.mac, tables::multicast_mac(all)}, spec.address, all,
                                                 spec.peer);
    } else {
      const auto all = wire::MacAddress::from_u64(0xffffffffffff);
      bytes = wire::write_arp(frame, port.mac, all, wire::ArpOperation::request, spec.address, {}, spec.peer);
    }
    rte_mbuf* m = message(*context_, {frame, bytes});
    if (m == nullptr) return;
    context_->send(m, port.index);
    counters_.asked.add(1);
  }
}

bool Emitter::answer(pipeline::Context& context, const rte_mbuf* asked, const wire::IpAddress& target,
                     const wire::IpAddress& asker, wire::MacAddress asker_mac) noexcept {
  using Nd = wire::NeighbourMessage;
  const pipeline::PacketMeta& pm = pipeline::meta(asked);
  const wire::MacAddress own = info_.ports[pm.in_port].mac;
  std::uint8_t frame[wire::kNeighbourBytes];
  std::size_t bytes = 0;
  if (target.is_v6()) {
    const bool known = !asker.is_unspecified();
    const wire::IpAddress to = known ? asker : tables::kAllNodes;
    const std::uint32_t flags = (routed_ ? Nd::kRouter : 0) | Nd::kOverride | (known ? Nd::kSolicited : 0);
    bytes = wire::write_neighbour_advertisement(frame, {own, known ? asker_mac : tables::multicast_mac(to)}, target, to,
                                                flags);
  } else {
    bytes = wire::write_arp(frame, own, asker_mac, wire::ArpOperation::reply, target, asker_mac, asker);
  }
  rte_mbuf* m = message(context, {frame, bytes});
  if (m == nullptr) return false;
  if (pm.parsed.has(wire::ParsedFlag::vlan_tagged) && !tag(m, pm.parsed.vlan_tci)) {
    context.drop(m, pipeline::DropReason::out_of_mbufs);
    return false;
  }
  context.send(m, pm.in_port);
  return true;
}

rte_mbuf* Emitter::message(pipeline::Context& context, std::span<const std::uint8_t> frame) noexcept {
  rte_mbuf* m = context.generate();
  if (m == nullptr) {
    counters_.no_buffer.add(1);
    return nullptr;
  }
  std::copy(frame.begin(), frame.end(), rte_pktmbuf_append(m, static_cast<std::uint16_t>(frame.size())));
  parse(m);
  return m;
}

}  // namespace weft::inc
