// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "collectives/engine/mode_i.h"

#include <algorithm>
#include <cassert>
#include <cstring>

namespace weft::inc {
namespace {

using wire::Opcode;

constexpr nic::Pd kDomain{1};
/// Where the room without bytes begins: behind any memory.
constexpr std::uint64_t kUnknown = std::uint64_t{1} << 40;
/// Sums of 16-bit floats are made in 32 bits.
constexpr std::size_t kWidest = 2;

std::uint32_t bytes_of_message(const GroupConfig& g) noexcept {
  return std::max<std::uint32_t>(g.message_packets * g.mtu, kControlPayloadBytes);
}

nic::QpConfig qp_config(const GroupConfig& g, const EndpointConfig& e) {
  nic::QpConfig c;
  c.path_mtu = g.mtu;
  c.loss_recovery = e.loss_recovery;
  // A host whose CPUs are busy is silent for longer than all retries take at the same pace.
  c.rto_mode = nic::RtoMode::doubled;
  c.rto_ns = nic::Time{4096} << g.timeout;
  if (g.adaptive_timeouts && e.rank) {
    c.rto_mode = nic::RtoMode::adaptive;
    c.rto_low_ns = c.rto_ns;
    c.rto_ns = c.rto_low_ns * kLongestTimeout;
  }
  c.retry_count = std::min<std::uint8_t>(g.retries, 7);
  c.min_rnr_timer = g.rnr_timer;
  c.max_inflight_packets = 2 * g.window * g.message_packets;
  c.send_queue_depth = 2 * g.window;
  c.receive_queue_depth = g.window;
  // Ranks send; they neither read nor write memory of a switch.
  c.access = 0;
  c.max_rd_atomic = c.max_dest_rd_atomic = 1;
  return c;
}

}  // namespace

std::optional<std::string> check_mode_i(const GroupConfig& group) {
  return check(group);
}

std::size_t ModeI::memory_bytes(const GroupConfig& g) noexcept {
  return (g.endpoints.size() + 2) * g.window * bytes_of_message(g) + kWidest * g.mtu;
}

ModeI::ModeI(const GroupConfig& group, SlotMemory memory)
    : Context(group),
      message_bytes_(bytes_of_message(group)),
      stride_(memory.bytes().empty() ? kControlPayloadBytes : message_bytes_),
      memory_(std::move(memory)),
      cells_(2 * group.window),
      cq_(static_cast<std::uint32_t>(8 * group.window * (group.endpoints.size() + 1))) {
  const std::size_t bytes = (group.endpoints.size() + 2) * group.window * stride_;
  if (memory_.bytes().empty()) small_.resize(bytes + kWidest * group.mtu);
  assert(memory_.bytes().empty() || memory_.bytes().size() >= memory_bytes(group));
  known_ = table_of_memory_.add(kDomain, base(), bytes, nic::Access::all, 0);
  unknown_ = table_of_memory_.add(kDomain, nullptr, message_bytes_, nic::Access::all, kUnknown);
  endpoints_.reserve(group.endpoints.size());
  for (const EndpointConfig& e : group.endpoints) {
    const nic::QpConfig config = qp_config(group, e);
    const wire::Qpn qpn(static_cast<std::uint32_t>(endpoints_.size()));
    endpoints_.push_back({.requester = nic::Requester(config, kDomain, table_of_memory_, qpn),
                          .responder = nic::Responder(config, kDomain, table_of_memory_, qpn)});
    Endpoint& made = endpoints_.back();
    made.messages.resize(group.window);
    made.landings = Landings(group.window);
    made.sending.reserve(2 * group.window);
    made.requester.connect(e.first_tx);
    made.responder.connect(e.first_rx);
    for (std::uint32_t n = 0; n < group.window; ++n) post_receive(static_cast<EndpointIndex>(qpn.value()));
  }
}

ModeI::ModeI(const ModeI& o)
    : Context(o),
      message_bytes_(o.message_bytes_),
      stride_(o.stride_),
      memory_(o.memory_),
      small_(o.small_),
      table_of_memory_(o.table_of_memory_),
      known_(o.known_),
      unknown_(o.unknown_),
      endpoints_(o.endpoints_),
      cells_(o.cells_),
      cq_(o.cq_),
      stirred_(o.stirred_) {
  use_memory(o, *this);
}

ModeI& ModeI::operator=(const ModeI& o) {
  if (this == &o) return *this;
  Context::operator=(o);
  message_bytes_ = o.message_bytes_;
  stride_ = o.stride_;
  memory_ = o.memory_;
  small_ = o.small_;
  table_of_memory_ = o.table_of_memory_;
  known_ = o.known_;
  unknown_ = o.unknown_;
  endpoints_ = o.endpoints_;
  cells_ = o.cells_;
  cq_ = o.cq_;
  stirred_ = o.stirred_;
  use_memory(o, *this);
  return *this;
}

/// What refers to memory of `from` refers to that of `to` from now on.
void ModeI::use_memory(const ModeI& from, ModeI& to) {
  const nic::Relocation moved{from.base(), (endpoints_.size() + 2) * group_.window * stride_, to.base()};
  to.table_of_memory_.relocate(moved);
  for (Endpoint& e : endpoints_) {
    e.requester.relocate(to.table_of_memory_, moved);
    e.responder.relocate(to.table_of_memory_, moved);
  }
}

bool operator==(const ModeI& a, const ModeI& b) {
  const auto words = [](const ModeI& m) {
    std::vector<std::uint64_t> out;
    m.hash_state([&](std::uint64_t v) { out.push_back(v); }, 0);
    return out;
  };
  const auto& base_a = static_cast<const Context&>(a);
  if (!(base_a == static_cast<const Context&>(b)) || a.cells_ != b.cells_ || words(a) != words(b)) return false;
  ModeI c = b;
  ModeI d = a;
  c.use_memory(c, d);
  return c.endpoints_ == d.endpoints_;
}

std::uint8_t* ModeI::base() const noexcept {
  if (memory_.bytes().empty()) return const_cast<std::uint8_t*>(small_.data());
  return reinterpret_cast<std::uint8_t*>(memory_.bytes().data());
}

/// The buffer of the message that comes `window` after the last one that was used.
void ModeI::post_receive(EndpointIndex e) {
  nic::Responder& responder = endpoints_[e].responder;
  const std::uint64_t number = endpoints_[e].received + responder.posted();
  nic::RecvWr wr;
  wr.sge[0] = {buffer_at(e, number), static_cast<std::uint32_t>(stride_), known_.key};
  wr.sge[1] = {kUnknown, static_cast<std::uint32_t>(message_bytes_ - stride_), unknown_.key};
  wr.sge_count = 2;
  static_cast<void>(responder.post(wr, cq_));
}

void ModeI::on_packet(nic::Time now, EndpointIndex from, const nic::Packet& p, bool marked, Sink& sink) {
  if (p.opcode == Opcode::CNP) return on_cnp(from, p, sink);
  Endpoint& e = endpoints_[from];
  const bool request = p.info().is_request();
  if (failure_) return request ? refuse(from, sink) : void();
  if (request && is_write(p.opcode)) {
    if (p.info().has(wire::HeaderMask::reth) && !take_landing(from, p)) return;
    nic::Packet sent = p;
    sent.opcode = send_of_write(p.opcode);
    respond(now, from, sent, marked, sink);
    if (failure_) return;
  } else if (request) {
    respond(now, from, p, marked, sink);
    if (failure_) return;
  } else {
    const wire::Syndrome syndrome(p.syndrome);
    // A peer that has failed says so whether or not we have sent it anything.
    if (syndrome.is_nak() && !syndrome.is_sequence_nak()) return fail(Failure::Reason::peer_failed, from, {}, sink);
    e.requester.on_response(now, p, cq_);
  }
  settle(now, sink);
}

/// Gives a request to the responder, which knows of no WRITEs.
void ModeI::respond(nic::Time now, EndpointIndex from, const nic::Packet& p, bool marked, Sink& sink) {
  Endpoint& e = endpoints_[from];
  const nic::ResponderCounters before = e.responder.counters();
  e.marked = e.marked || marked;
  e.elided = e.elided || (p.payload.bytes != 0 && p.payload.data() == nullptr);
  e.responder.on_request(now, p, cq_);
  const nic::ResponderCounters& after = e.responder.counters();
  counters_.duplicates += after.duplicates - before.duplicates;
  counters_.rnr_naks += after.rnr_naks_sent - before.rnr_naks_sent;
  counters_.naks += after.naks_sent - before.naks_sent;
  note_answers(from);
  if (e.responder.failed()) fail(Failure::Reason::bad_shape, from, {}, sink);
}

/// Notes where a WRITE goes that begins. False: its packet cannot be taken now.
bool ModeI::take_landing(EndpointIndex from, const nic::Packet& write) {
  Endpoint& e = endpoints_[from];
  // Of a message that has begun to arrive it is known.
  if (write.psn.distance_from(e.responder.expected_psn()) < 0) return true;
  return e.landings.note({write.psn, offset_of(from, write), write.dma_length});
}

nic::Time ModeI::next_deadline() const noexcept {
  nic::Time next = nic::kNever;
  if (failure_) return next;
  for (const Endpoint& e : endpoints_) next = std::min(next, e.requester.next_deadline());
  return next;
}

void ModeI::on_timer(nic::Time now, Sink& sink) {
  if (failure_) return;
  for (Endpoint& e : endpoints_) {
    if (e.requester.next_deadline() > now) continue;
    const std::uint64_t before = e.requester.counters().timeouts;
    e.requester.on_timer(now, cq_);
    counters_.timeouts += e.requester.counters().timeouts - before;
  }
  settle(now, sink);
}

/// What a fatal NAK has to name, should the group fail.
void ModeI::note_answers(EndpointIndex from) {
  const std::int32_t more = endpoints_[from].responder.expected_psn().distance_from(unanswered(from));
  answered_[from].packets += static_cast<std::uint64_t>(std::max(more, 0));
}

/// Does all that can be done by now.
void ModeI::settle(nic::Time now, Sink& sink) {
  do {
    complete(sink);
    while (!failure_ && stirred_) {
      stirred_ = advance(sink);
      retire();
    }
    if (failure_) return;
    transmit(now, sink);
  } while (cq_.size() > 0);
}

void ModeI::complete(Sink& sink) {
  nic::Wc wc;
  while (!failure_ && cq_.poll({&wc, 1}) == 1) {
    const auto from = static_cast<EndpointIndex>(wc.qpn.value());
    Endpoint& e = endpoints_[from];
    if (wc.status == nic::WcStatus::retry_exceeded) return fail(Failure::Reason::peer_silent, from, {}, sink);
    if (wc.status != nic::WcStatus::success) return fail(Failure::Reason::peer_failed, from, {}, sink);
    stirred_ = true;
    if (wc.opcode == nic::WcOpcode::receive) {
      received(from, wc);
      continue;
    }
    cells_[e.sending.front().cell].pending.remove(from);
    e.delivered += e.sending.front().packets;
    e.sending.erase(e.sending.begin());
  }
}

void ModeI::received(EndpointIndex from, const nic::Wc& wc) {
  Endpoint& e = endpoints_[from];
  std::uint64_t before = e.rx_packets;
  for (std::uint64_t n = e.consumed; n < e.received; ++n) before += message_packets(e.messages[n % e.messages.size()]);
  const auto landing =
      e.landings.take(group_.endpoints[from].first_rx + static_cast<std::uint32_t>(before & wire::Psn::kMask));
  Message& m = e.messages[e.received++ % e.messages.size()];
  // A WRITE that is not as long as it said counts as a SEND, which fits nowhere where WRITEs are.
  const bool written = landing && landing->bytes == wc.byte_length;
  m = {.bytes = wc.byte_length,
       .immediate = wc.with_immediate ? wc.immediate : 0,
       .with_immediate = wc.with_immediate,
       .solicited = wc.solicited,
       .marked = e.marked,
       .values = wc.byte_length <= (e.elided ? kControlPayloadBytes : stride_) &&
                 ((wc.with_immediate && !written) || !e.elided),
       .written = written,
       .offset = written ? landing->offset : 0};
  e.marked = false;
  ++answered_[from].messages;
}

/// Finds places of messages that are next in their streams, and sends what is complete. False: nothing was to be done.
bool ModeI::advance(Sink& sink) {
  bool moved = false;
  for (EndpointIndex e = 0; e < endpoints() && !failure_; ++e) {
    if (endpoints_[e].consumed == endpoints_[e].received || find_place(e, sink) != Found::placed) continue;
    moved = forward(e, sink) || moved;
  }
  return moved;
}

ModeI::Found ModeI::find_place(EndpointIndex e, Sink& sink) {
  Endpoint& n = endpoints_[e];
  Message& m = n.messages[n.consumed % n.messages.size()];
  if (m.placed) return Found::placed;
  nic::Packet first;
  first.psn = group_.endpoints[e].first_rx + static_cast<std::uint32_t>(n.rx_packets & wire::Psn::kMask);
  first.immediate = m.immediate;
  const bool one = m.bytes <= group_.mtu;
  first.opcode = !one ? Opcode::RC_SEND_FIRST : m.with_immediate ? Opcode::RC_SEND_ONLY_IMM : Opcode::RC_SEND_ONLY;
  if (m.written) {
    first.opcode = !one ? Opcode::RC_RDMA_WRITE_FIRST
                        : (m.with_immediate ? Opcode::RC_RDMA_WRITE_ONLY_IMM : Opcode::RC_RDMA_WRITE_ONLY);
  }
  first.payload.set(buffer(n, n.consumed), std::min(m.bytes, group_.mtu));
  const auto failed = [&](Failure::Reason reason, const Place& place) {
    fail(reason, e, place, sink);
    return Found::failed;
  };
  Place place;
  switch (table_.request(e, first, place)) {
    case Refusal::none:
      break;
    case Refusal::unknown_invocation:
    case Refusal::too_many:
      return Found::waits;
    case Refusal::disagreement:
      return failed(Failure::Reason::disagreement, place);
    case Refusal::too_old:
    case Refusal::bad_control:
      return failed(Failure::Reason::bad_control, place);
    case Refusal::bad_shape:
      return failed(Failure::Reason::bad_shape, place);
  }
  if (!place.is_control()) {
    const std::uint64_t left = place.invocation->message.bytes - (place.index - 1) * group_.mtu;
    const std::uint64_t full = std::uint64_t{group_.message_packets} * group_.mtu;
    if (m.bytes != std::min(left, full)) return failed(Failure::Reason::bad_shape, place);
  }
  m.placed = true;
  counters_.contributions += message_packets(m);
  return Found::placed;
}

/// The place of the message that is used next of an endpoint; nullopt when there is none yet.
std::optional<Place> ModeI::head(EndpointIndex e) {
  const Endpoint& n = endpoints_[e];
  if (n.consumed == n.received || !n.messages[n.consumed % n.messages.size()].placed) return std::nullopt;
  return table_.rx_at(e, n.rx_packets);
}

/// A collective of everyone takes two steps where there is a parent: up, and then down.
bool ModeI::sends_here(EndpointIndex e, const Invocation& i, bool down) const noexcept {
  return everyone_takes_part(i) ? (e == group_.parent) == down : table_.role(e, i).sends;
}

bool ModeI::gets(EndpointIndex e, const Invocation& i, bool down) const noexcept {
  if (!everyone_takes_part(i)) return table_.role(e, i).receives;
  return !group_.parent || (e == group_.parent) != down;
}

/// Sends what the message at the head of an endpoint belongs to, when it is complete, when it is next in the streams of
/// those who get it, and when there is a cell for it.
bool ModeI::forward(EndpointIndex from, Sink& sink) {
  const auto at = head(from);
  if (!at) return false;
  const Place place = *at;
  const Invocation& i = *place.invocation;
  const bool down = everyone_takes_part(i) && from == group_.parent;
  const Message like = endpoints_[from].messages[endpoints_[from].consumed % group_.window];
  for (EndpointIndex e = 0; e < endpoints(); ++e) {
    if (gets(e, i, down) && endpoints_[e].posted != tx_of(e, place)) return false;
    if (!sends_here(e, i, down)) continue;
    const auto other = head(e);
    // All who send to a collective are at the same message of it: a sum takes one message of each.
    if (!other || other->invocation != place.invocation) return false;
    const Message& m = endpoints_[e].messages[endpoints_[e].consumed % group_.window];
    const bool same = m.immediate == like.immediate && m.with_immediate == like.with_immediate &&
                      m.written == like.written && m.offset == like.offset;
    if (same) continue;
    fail(Failure::Reason::bad_shape, e, place, sink);
    return false;
  }
  const auto c = free_cell(i, down);
  if (!c) return false;
  fill(*c, place, down);
  for (EndpointIndex e = 0; e < endpoints(); ++e) {
    Endpoint& n = endpoints_[e];
    if (sends_here(e, i, down)) {
      n.rx_packets += message_packets(like);
      ++n.consumed;
      post_receive(e);
    }
    if (gets(e, i, down)) send(e, *c, like);
  }
  counters_.completed += message_packets(like);
  if (!place.is_control()) counters_.completed_bytes += like.bytes;
  if (down) counters_.results += message_packets(like);
  return true;
}

std::optional<std::uint32_t> ModeI::free_cell(const Invocation& i, bool down) const noexcept {
  const bool up = group_.parent && gets(*group_.parent, i, down);
  const std::uint32_t first = up ? 0 : group_.window;
  for (std::uint32_t c = first; c < first + group_.window; ++c) {
    if (cells_[c].pending.size() == 0) return c;
  }
  return std::nullopt;
}

/// The sum of the messages at the heads of those who send, or the only one.
void ModeI::fill(std::uint32_t c, const Place& place, bool down) {
  Cell& cell = cells_[c];
  cell = Cell{.pending = {}, .bytes = 0, .marked = false, .values = true};
  const std::uint8_t* only = nullptr;
  for (EndpointIndex e = 0; e < endpoints(); ++e) {
    if (!sends_here(e, *place.invocation, down)) continue;
    const Message& m = endpoints_[e].messages[endpoints_[e].consumed % group_.window];
    cell.bytes = m.bytes;
    cell.marked = cell.marked || m.marked;
    cell.values = cell.values && m.values;
    if (only == nullptr) only = buffer(endpoints_[e], endpoints_[e].consumed);
  }
  if (!cell.values) return;
  const bool adds = !down && place.invocation->message.primitive != Primitive::broadcast && !place.is_control();
  if (adds) return add_up(c, place);
  std::memcpy(base() + cell_at(c), only, cell.bytes);
}

/// In the order of the endpoints, packet by packet: what is added stays in the cache.
void ModeI::add_up(std::uint32_t c, const Place& place) {
  const ControlMessage& message = place.invocation->message;
  const Arithmetic* const how = arithmetic(message.type, message.op, group_.overflow);
  auto* const out = reinterpret_cast<std::byte*>(base() + cell_at(c));
  auto* const sum = reinterpret_cast<std::byte*>(base() + cell_at(cells_.size()));
  for (std::uint32_t at = 0; at < cells_[c].bytes; at += group_.mtu) {
    const std::size_t elements = std::min(group_.mtu, cells_[c].bytes - at) / how->element_bytes;
    bool first = true;
    for (EndpointIndex e = 0; e < endpoints(); ++e) {
      if (!sends_here(e, *place.invocation, false)) continue;
      const auto* data = reinterpret_cast<const std::byte*>(buffer(endpoints_[e], endpoints_[e].consumed)) + at;
      (first ? how->load : how->combine)(sum, data, elements);
      first = false;
    }
    how->store(out + at, sum, elements);
  }
}

void ModeI::send(EndpointIndex to, std::uint32_t c, const Message& like) {
  Endpoint& e = endpoints_[to];
  nic::SendWr wr;
  wr.opcode = like.with_immediate ? nic::WrOpcode::send_imm : nic::WrOpcode::send;
  if (like.written) {
    wr.opcode = like.with_immediate ? nic::WrOpcode::write_imm : nic::WrOpcode::write;
    wr.remote_address = group_.endpoints[to].address + like.offset;
    wr.rkey = group_.endpoints[to].rkey;
  }
  wr.immediate = like.immediate;
  wr.solicited = like.solicited;
  if (cells_[c].values) {
    wr.with({cell_at(c), like.bytes, known_.key});
  } else {
    wr.with({kUnknown, like.bytes, unknown_.key});
  }
  static_cast<void>(e.requester.post(wr, cq_));
  cells_[c].pending.add(to);
  e.sending.push_back({c, message_packets(like)});
  e.posted += message_packets(like);
}

void ModeI::transmit(nic::Time now, Sink& sink) {
  nic::Packet p;
  for (EndpointIndex to = 0; to < endpoints(); ++to) {
    Endpoint& e = endpoints_[to];
    while (e.responder.can_transmit() && e.responder.transmit(p, cq_)) {
      sink.send(to, p, false);
      if (wire::Syndrome(p.syndrome).is_rnr_nak()) acknowledge_rnr(to, sink);
    }
    while (e.requester.can_transmit() && e.requester.transmit(now, p, cq_)) {
      counters_.resent += p.retransmission ? 1 : 0;
      sink.send(to, p, carries_mark(e, to, p.psn));
    }
  }
}

/// Whether a packet is of a message to which something with a congestion mark was added.
bool ModeI::carries_mark(const Endpoint& e, EndpointIndex to, wire::Psn psn) const noexcept {
  std::int64_t ahead =
      psn.distance_from(group_.endpoints[to].first_tx + static_cast<std::uint32_t>(e.delivered & wire::Psn::kMask));
  for (const Sent& s : e.sending) {
    if (ahead < s.packets) return ahead >= 0 && cells_[s.cell].marked;
    ahead -= s.packets;
  }
  return false;
}

/// Forgets collectives of which all messages were used, and so posted to all who get them.
void ModeI::retire() noexcept {
  while (table_.live() > 0) {
    const Invocation& i = table_.live(0);
    for (EndpointIndex e = 0; e < endpoints(); ++e) {
      if (table_.role(e, i).sends && endpoints_[e].rx_packets < i.streams[e].rx + i.packets) return;
    }
    table_.forget_oldest();
    stirred_ = true;
  }
}

std::optional<ModeI::Waiting> ModeI::waiting() const {
  std::optional<Waiting> oldest;
  std::uint32_t age = 0;
  bool down = false;
  for (EndpointIndex e = 0; e < endpoints(); ++e) {
    const Endpoint& n = endpoints_[e];
    if (n.consumed == n.received || !n.messages[n.consumed % n.messages.size()].placed) continue;
    for (std::uint32_t k = 0; k < table_.live(); ++k) {
      const Invocation& i = table_.live(k);
      if (!table_.role(e, i).sends || n.rx_packets < i.streams[e].rx || n.rx_packets >= i.streams[e].rx + i.packets) {
        continue;
      }
      const std::uint64_t index = n.rx_packets - i.streams[e].rx;
      if (oldest && (k > age || (k == age && index >= oldest->index))) continue;
      oldest = Waiting{&i, index, {}, false};
      age = k;
      down = everyone_takes_part(i) && e == group_.parent;
    }
  }
  if (oldest) find_missing(*oldest, down);
  return oldest;
}

/// Who has not sent a message of a collective's step; if all have, who holds the cells that its sum needs.
void ModeI::find_missing(Waiting& w, bool down) const {
  const Invocation& i = *w.invocation;
  for (EndpointIndex e = 0; e < endpoints(); ++e) {
    if (!sends_here(e, i, down)) continue;
    const Endpoint& n = endpoints_[e];
    const bool there = n.consumed != n.received && n.messages[n.consumed % n.messages.size()].placed;
    if (!there || n.rx_packets != i.streams[e].rx + w.index) w.missing.add(e);
  }
  if (w.missing.size() > 0) return;
  w.for_result = true;
  const bool up = group_.parent && gets(*group_.parent, i, down);
  for (std::uint32_t c = 0; c < group_.window; ++c) {
    const EndpointSet& pending = cells_[(up ? 0 : group_.window) + c].pending;
    for (EndpointIndex e = 0; e < endpoints(); ++e) {
      if (pending.has(e)) w.missing.add(e);
    }
  }
}

}  // namespace weft::inc
