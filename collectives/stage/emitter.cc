// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "collectives/stage/emitter.h"

#include <algorithm>
#include <cstring>

#include "collectives/stage/drops.h"
#include "switch/pipeline/edit_roce.h"
#include "switch/wire/emit.h"
#include "switch/wire/parse.h"

namespace weft::inc {
namespace {

using wire::HeaderMask;

/// The ICRC of a shorter payload is computed again: that costs less than what headers change of it.
constexpr std::uint32_t kLeastShared = 256;
/// A peer that nobody has seen is asked for this often.
constexpr TimeNs kAskNs = 100'000'000;
constexpr std::size_t kLargestFrame = nic::kMaxHeadBytes + 4096 + 3 + wire::kIcrcBytes;
constexpr std::uint32_t kTagBytes = sizeof(wire::VlanTag);

void parse(rte_mbuf* m) noexcept {
  wire::parse_frame(pipeline::frame(m), m->data_len, m->pkt_len, pipeline::meta(m).parsed);
}

}  // namespace

Emitter::Emitter(const pipeline::SwitchInfo& info, EmitterCounters counters)
    : info_(info),
      counters_(counters),
      routed_(is_routed(info)),
      icrc_mode_(info.icrc == pipeline::IcrcUpdate::full ? wire::IcrcMode::full : wire::IcrcMode::incremental),
      whole_(kLargestFrame) {}

void Emitter::send(EndpointIndex to, const nic::Packet& p, bool marked) {
  const bool cnp = p.opcode == wire::Opcode::CNP;
  const wire::Ecn ecn = marked                                  ? wire::Ecn::ce
                        : p.info().has(HeaderMask::aeth) || cnp ? wire::Ecn::not_ect
                                                                : wire::Ecn::ect0;
  const std::uint8_t dscp = cnp ? group_->spec.cnp_dscp : group_->spec.dscp;
  const auto tos = static_cast<std::uint8_t>(dscp << 2 | static_cast<std::uint8_t>(ecn));
  rte_mbuf* m = nullptr;
  if (can_reuse(to, p, tos)) {
    m = reuse(to, p);
    if (m != nullptr) {
      counters_.reused.add(1);
      return leave(m, to);
    }
  }
  finish();
  m = make(to, p, tos);
  if (m == nullptr) return counters_.no_buffer.add(1);
  if (p.payload.bytes < kLeastShared || p.payload.data() == nullptr) return leave(m, to);
  kept_ = {m, p.payload.data(), p.payload.bytes, p.opcode, to, tos, p.solicited};
}

void Emitter::finish() noexcept {
  if (kept_.m == nullptr) return;
  leave(kept_.m, kept_.to);
  kept_.m = nullptr;
}

/// To another endpoint: packets to one leave in the order in which they are sent.
bool Emitter::can_reuse(EndpointIndex to, const nic::Packet& p, std::uint8_t tos) const noexcept {
  return kept_.m != nullptr && to != kept_.to && p.payload.data() == kept_.payload && p.payload.bytes == kept_.bytes &&
         p.opcode == kept_.opcode && tos == kept_.tos && p.solicited == kept_.solicited;
}

rte_mbuf* Emitter::reuse(EndpointIndex to, const nic::Packet& p) noexcept {
  // A copy costs less than two more buffers and their reference counts, with 4 KiB, too.
  rte_mbuf* m = kept_.m->nb_segs == 1 ? copy(kept_.m) : context_->replicate(kept_.m);
  if (m == nullptr) return nullptr;
  const EdgeSpec& edge = group_->spec.edges[to];
  const bool edited = pipeline::edit_roce(m, icrc_mode_, [&](wire::RoceEditor& editor) {
    editor.set_source(edge.address);
    editor.set_destination(edge.peer);
    editor.set_source_port(edge.source_port);
    editor.set_dest_qp(edge.peer_qp);
    editor.set_psn(p.psn);
    editor.set_ack_req(p.ack_req);
    if (p.info().has(HeaderMask::reth)) editor.set_reth(p.remote_address, p.rkey, p.dma_length);
  });
  if (edited) return m;
  context_->drop(m, pipeline::DropReason::out_of_mbufs);
  return nullptr;
}

rte_mbuf* Emitter::copy(const rte_mbuf* from) noexcept {
  rte_mbuf* m = context_->generate();
  if (m == nullptr) return nullptr;
  char* at = rte_pktmbuf_append(m, from->data_len);
  if (at == nullptr) {
    context_->drop(m, pipeline::DropReason::out_of_mbufs);
    return nullptr;
  }
  std::memcpy(at, pipeline::frame(from), from->data_len);
  pipeline::meta(m).parsed = pipeline::meta(from).parsed;
  return m;
}

rte_mbuf* Emitter::make(EndpointIndex to, const nic::Packet& p, std::uint8_t tos) noexcept {
  rte_mbuf* m = context_->generate();
  if (m == nullptr) return nullptr;
  const Edge& edge = group_->edges[to];
  std::uint8_t head[nic::kMaxHeadBytes];
  const nic::TxFrame frame = nic::make_frame(edge.head, tos, p, edge.peer_qp, head);
  if (p.payload.bytes != 0 && p.payload.data() == nullptr && frame.bytes() > pipeline::kHeaderBytes) {
    // A simulation that leaves payload out: the next switch wants the header bytes in one piece, and buffers have room
    // for little more.
    m->data_off = static_cast<std::uint16_t>(std::min<std::uint32_t>(m->data_off, m->buf_len - pipeline::kHeaderBytes));
    auto* at = reinterpret_cast<std::uint8_t*>(rte_pktmbuf_append(m, pipeline::kHeaderBytes));
    std::fill_n(std::copy(frame.head.begin(), frame.head.end(), at), pipeline::kHeaderBytes - frame.head.size(), 0);
    m->pkt_len = frame.bytes();
  } else if (!write(frame, m)) {
    context_->drop(m, pipeline::DropReason::out_of_mbufs);
    return nullptr;
  }
  parse(m);
  return m;
}

/// Into one buffer where it has the room, into a chain otherwise.
bool Emitter::write(const nic::TxFrame& frame, rte_mbuf* m) noexcept {
  const std::uint32_t bytes = frame.bytes();
  if (char* at = rte_pktmbuf_append(m, static_cast<std::uint16_t>(bytes)); at != nullptr) {
    nic::copy_frame(frame, {reinterpret_cast<std::uint8_t*>(at), bytes});
    return true;
  }
  nic::copy_frame(frame, whole_);
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
  if (at.tagged) {
    char* head = rte_pktmbuf_prepend(m, kTagBytes);
    if (head == nullptr) return context_->drop(m, pipeline::DropReason::out_of_mbufs);
    std::memmove(head, head + kTagBytes, 2 * sizeof(wire::MacAddress));
    wire::header_at<wire::be16>(reinterpret_cast<std::uint8_t*>(head) + 2 * sizeof(wire::MacAddress))
        .set(wire::EtherType::vlan);
    wire::header_at<wire::be16>(reinterpret_cast<std::uint8_t*>(head) + 2 * sizeof(wire::MacAddress) + 2)
        .set(at.vlan_tci);
    parse(m);
  }
  context_->send(m, at.port);
}

/// Asks on all ports, without tags: the answer says where the peer is.
void Emitter::ask(Edge& edge, const EdgeSpec& spec) noexcept {
  if (edge.asked != 0 && context_->now < edge.asked + kAskNs) return;
  edge.asked = context_->now;
  for (const pipeline::PortInfo& port : info_.ports) {
    if (!context_->link_up(port.index)) continue;
    const auto all = wire::MacAddress::from_u64(0xffffffffffff);
    if (!send_arp(*context_, port.index, all, wire::ArpOperation::request, spec.address, {}, spec.peer)) return;
    counters_.arp_asked.add(1);
  }
}

bool Emitter::send_arp(pipeline::Context& context, pipeline::PortIndex port, wire::MacAddress destination,
                       std::uint16_t operation, const wire::IpAddress& sender, wire::MacAddress target_mac,
                       const wire::IpAddress& target) noexcept {
  rte_mbuf* m = context.generate();
  if (m == nullptr) {
    counters_.no_buffer.add(1);
    return false;
  }
  auto* at = reinterpret_cast<std::uint8_t*>(rte_pktmbuf_append(m, wire::kMinFrameBytes));
  wire::write_arp({at, wire::kMinFrameBytes}, info_.ports[port].mac, destination, operation, sender, target_mac,
                  target);
  parse(m);
  context.send(m, port);
  return true;
}

}  // namespace weft::inc
