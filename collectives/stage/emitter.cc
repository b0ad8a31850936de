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

/// A peer that nobody has seen is asked for this often.
constexpr TimeNs kAskNs = 100'000'000;
constexpr std::size_t kLargestFrame = nic::kMaxHeadBytes + 4096 + 3 + wire::kIcrcBytes;
constexpr std::uint32_t kTagBytes = sizeof(wire::VlanTag);
constexpr std::uintptr_t kCacheLine = 64;

/// Moves the beginning of an empty packet, so that its payload begins with a cache line as slots do: no word of the
/// copy then lies in two lines. Not where a buffer has no room for that.
void align_payload(rte_mbuf* m, std::uint32_t head, std::uint32_t bytes) noexcept {
  const auto payload = reinterpret_cast<std::uintptr_t>(pipeline::frame(m)) + head;
  const auto shift = static_cast<std::uint16_t>(-payload % kCacheLine);
  if (bytes + shift <= rte_pktmbuf_tailroom(m)) m->data_off = static_cast<std::uint16_t>(m->data_off + shift);
}

/// The next switch wants header bytes in one piece. The buffers of a simulation have room for little more.
void make_room(rte_mbuf* m, std::uint32_t bytes) noexcept {
  const std::uint32_t in_one_piece = std::min<std::uint32_t>(bytes, pipeline::kHeaderBytes);
  m->data_off = static_cast<std::uint16_t>(std::min<std::uint32_t>(m->data_off, m->buf_len - in_one_piece));
}

void parse(rte_mbuf* m) noexcept {
  wire::parse_frame(pipeline::frame(m), m->data_len, m->pkt_len, pipeline::meta(m).parsed);
}

}  // namespace

Emitter::Emitter(const pipeline::SwitchInfo& info, EmitterCounters counters)
    : info_(info), counters_(counters), routed_(is_routed(info)), whole_(kLargestFrame) {}

void Emitter::send(EndpointIndex to, const nic::Packet& p, bool marked) {
  const std::uint8_t tos = tos_of(p, marked);
  rte_mbuf* m = context_->generate();
  if (m == nullptr) return counters_.no_buffer.add(1);
  Edge& edge = group_->edges[to];
  leave(m, to, SentHead::fits(p) ? place(m, edge, p, p.psn, tos, crc_of(p, 1)) : make(m, edge, p, tos));
}

void Emitter::replicate(const nic::Packet& packet, std::span<const Copy> copies, bool marked) {
  rte_mbuf* made[kMaxEndpoints];
  // Where buffers are short, some of the copies may still get one.
  if (!SentHead::fits(packet) || copies.size() > kMaxEndpoints ||
      !context_->generate(made, static_cast<std::uint32_t>(copies.size()))) {
    return Sink::replicate(packet, copies, marked);
  }
  const std::uint8_t tos = tos_of(packet, marked);
  const std::uint32_t crc = crc_of(packet, copies.size());
  for (std::size_t i = 0; i < copies.size(); ++i) {
    const Copy& copy = copies[i];
    leave(made[i], copy.to, place(made[i], group_->edges[copy.to], packet, copy.psn, tos, crc));
  }
}

void Emitter::finish() noexcept {
  last_.data = nullptr;
}

std::uint8_t Emitter::tos_of(const nic::Packet& p, bool marked) const noexcept {
  const bool cnp = p.opcode == wire::Opcode::CNP;
  const wire::Ecn ecn = marked                                  ? wire::Ecn::ce
                        : p.info().has(HeaderMask::aeth) || cnp ? wire::Ecn::not_ect
                                                                : wire::Ecn::ect0;
  const GroupSpec& spec = group_->spec;
  const std::uint8_t dscp = cnp ? spec.cnp_dscp : p.opcode == wire::Opcode::RC_ACKNOWLEDGE ? spec.ack_dscp : spec.dscp;
  return static_cast<std::uint8_t>(dscp << 2 | static_cast<std::uint8_t>(ecn));
}

/// The payload's share of the ICRCs of so many packets.
std::uint32_t Emitter::crc_of(const nic::Packet& p, std::size_t packets) noexcept {
  const std::uint8_t* const data = p.payload.data();
  if (data == nullptr) return 0;
  const bool known = data == last_.data && p.payload.bytes == last_.bytes;
  if (!known) last_ = {data, p.payload.bytes, wire::payload_crc({data, p.payload.bytes})};
  counters_.reused.add(packets - (known ? 0 : 1));
  return last_.crc;
}

/// A packet that SentHead fits. False: buffers are missing.
///
/// Payload is copied: that costs less than two more buffers for each packet and their reference counts, with 4 KiB,
/// too. Nothing is read of what was written a moment ago, which would wait for it.
bool Emitter::place(rte_mbuf* m, Edge& edge, const nic::Packet& p, wire::Psn psn, std::uint8_t tos,
                    std::uint32_t crc) noexcept {
  SentHead& head = edge.sent_heads[SentHead::kind(p)];
  head.set(edge.head, tos, p, psn, edge.peer_qp);
  head.write_parsed(p, psn, pipeline::meta(m).parsed);
  const std::uint32_t bytes = head.frame_bytes();
  align_payload(m, head.size(), bytes);
  const bool one_piece = std::max<std::uint32_t>(bytes, SentHead::kBytes) <= rte_pktmbuf_tailroom(m);
  std::uint8_t* const at = one_piece ? pipeline::frame(m) : whole_.data();
  head.write(at);
  if (p.payload.bytes != 0) std::memcpy(at + head.size(), p.payload.data(), p.payload.bytes);
  wire::store_icrc(at + bytes - wire::kIcrcBytes, head.crc() ^ crc);
  if (!one_piece) return spread(m, bytes);
  m->data_len = static_cast<std::uint16_t>(bytes);
  m->pkt_len = bytes;
  return true;
}

/// Any packet. False: buffers are missing.
bool Emitter::make(rte_mbuf* m, const Edge& edge, const nic::Packet& p, std::uint8_t tos) noexcept {
  std::uint8_t head[nic::kMaxHeadBytes];
  const nic::TxFrame frame = nic::make_frame(edge.head, tos, p, edge.peer_qp, head);
  const std::uint32_t bytes = frame.bytes();
  if (p.payload.bytes != 0 && p.payload.data() == nullptr && bytes > pipeline::kHeaderBytes) {
    // A simulation that leaves payload out.
    make_room(m, bytes);
    auto* at = reinterpret_cast<std::uint8_t*>(rte_pktmbuf_append(m, pipeline::kHeaderBytes));
    std::fill_n(std::copy(frame.head.begin(), frame.head.end(), at), pipeline::kHeaderBytes - frame.head.size(), 0);
    m->pkt_len = bytes;
  } else {
    nic::copy_frame(frame, {whole_.data(), bytes});
    if (!spread(m, bytes)) return false;
  }
  parse(m);
  return true;
}

/// The frame in whole_: into one buffer where it has the room, into a chain otherwise.
bool Emitter::spread(rte_mbuf* m, std::uint32_t bytes) noexcept {
  make_room(m, bytes);
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

/// Sends a packet that is whole, and drops another.
void Emitter::leave(rte_mbuf* m, EndpointIndex to, bool whole) noexcept {
  if (!whole) [[unlikely]] {
    context_->drop(m, pipeline::DropReason::out_of_mbufs);
    return counters_.no_buffer.add(1);
  }
  counters_.sent.add(1);
  Edge& edge = group_->edges[to];
  ++edge.sent;
  if (routed_) {
    pipeline::meta(m).qp_handle = edge.flow;
    return context_->resume(m);
  }
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
