// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "collectives/engine/mode_iii.h"

#include <algorithm>
#include <utility>

namespace weft::inc {
namespace {

using wire::Opcode;
using wire::Syndrome;

/// Contributes at the root what the aggregation pipe gives to the broadcast pipe.
constexpr EndpointIndex kBridge = kMaxEndpoints;

}  // namespace

std::optional<std::string> check_mode_iii(const GroupConfig& group) {
  return check(group);
}

ModeIII::ModeIII(const GroupConfig& group, SlotMemory up, SlotMemory down)
    : Context(group),
      up_{Slots(group, std::move(up)), 0},
      down_{Slots(group, std::move(down), Slots::Room::packets), 0},
      endpoints_(group.endpoints.size()) {
  // What an endpoint has sent, or gets, is in slots of either pipe.
  for (std::size_t e = 0; e < endpoints_.size(); ++e) {
    endpoints_[e].asked.resize(2 * group.slots);
    if (group.endpoints[e].loss_recovery == nic::LossRecovery::irn) endpoints_[e].there.resize(2 * group.slots);
  }
}

Pipe& ModeIII::pipe_from(EndpointIndex e, const Place& place) noexcept {
  const Primitive primitive = place.invocation->message.primitive;
  if (primitive == Primitive::reduce) return up_;
  return primitive == Primitive::broadcast || e == group_.parent ? down_ : up_;
}

Pipe& ModeIII::pipe_to(EndpointIndex e, const Place& place) noexcept {
  const Primitive primitive = place.invocation->message.primitive;
  if (primitive == Primitive::reduce) return up_;
  return primitive == Primitive::broadcast || e != group_.parent ? down_ : up_;
}

void ModeIII::on_packet(nic::Time now, EndpointIndex from, const nic::Packet& p, bool marked, Sink& sink) {
  if (p.opcode == Opcode::CNP) return on_cnp(from, p, sink);
  if (p.opcode == Opcode::RC_ACKNOWLEDGE) return on_response(now, from, p, sink);
  if (!p.info().is_request()) return;
  if (failure_) return refuse(from, sink);
  on_request(now, from, p, marked, sink);
}

bool ModeIII::in_order(EndpointIndex from, wire::Psn psn) const noexcept {
  return table_.rx_sequence(from, psn) == endpoints_[from].expected;
}

void ModeIII::on_request(nic::Time now, EndpointIndex from, const nic::Packet& p, bool marked, Sink& sink) {
  const auto sequence = table_.rx_sequence(from, p.psn);
  if (!sequence || *sequence < endpoints_[from].expected) return on_repeated(from, sequence.value_or(0), sink);
  Place place;
  switch (table_.request(from, p, place)) {
    case Refusal::none:
      return on_place(now, from, p, place, marked, sink);
    case Refusal::too_many:
    case Refusal::unknown_invocation:
      ++counters_.refused;
      return in_order(from, p.psn) ? run_ahead(from, sink) : gap(from, std::nullopt, sink);
    case Refusal::too_old:
      ++counters_.stale;
      return;
    case Refusal::bad_control:
      return fail(Failure::Reason::bad_control, from, place, sink);
    case Refusal::bad_shape:
      return fail(Failure::Reason::bad_shape, from, place, sink);
    case Refusal::disagreement:
      return fail(Failure::Reason::disagreement, from, place, sink);
  }
}

void ModeIII::on_place(nic::Time now, EndpointIndex from, const nic::Packet& p, const Place& place, bool marked,
                       Sink& sink) {
  Pipe& pipe = pipe_from(from, place);
  const bool expected = in_order(from, p.psn);
  const std::uint64_t at = position(pipe, place);
  if (!pipe.takes(at)) {
    ++counters_.ahead;
    return expected ? run_ahead(from, sink) : gap(from, std::nullopt, sink);
  }
  const EndpointConfig& peer = group_.endpoints[from];
  if (!expected && group_.epsn_filter && peer.loss_recovery == nic::LossRecovery::gbn) {
    ++counters_.filtered;
    return gap(from, std::nullopt, sink);
  }
  const ControlMessage& m = place.invocation->message;
  const bool adds = &pipe == &up_ && !place.is_control();
  const Arithmetic* const how = adds ? arithmetic(m.type, m.op, group_.overflow) : nullptr;
  const std::uint32_t senders = &pipe == &up_ ? table_.senders(*place.invocation) : 1;
  const auto became = pipe.slots.contribute(at, from, p, offset_of(from, p), marked, how, senders);
  if (became == Contribution::different) return fail(Failure::Reason::bad_shape, from, place, sink);
  if (became == Contribution::duplicate || became == Contribution::stale) {
    ++counters_.duplicates;
    return gap(from, p.psn, sink);
  }
  ++counters_.contributions;
  Endpoint& e = endpoints_[from];
  if (p.ack_req) {
    const std::uint64_t sequence = rx_of(from, place);
    e.asked[sequence % e.asked.size()] = true;
    e.wanted = std::max(e.wanted, sequence + 1);
  }
  if (expected) {
    advance_expected(from);
    e.nak_sent = false;
    acknowledge_room(from, sink);
  } else {
    gap(from, p.psn, sink);
  }
  if (became != Contribution::complete) return;
  ++counters_.completed;
  if (!place.is_control()) counters_.completed_bytes += p.payload.bytes;
  if (&pipe == &down_) ++counters_.results;
  pipe.slots.at(at).result = &pipe == &down_ || !everyone_takes_part(*place.invocation);
  settle(now, sink);
}

/// A packet that was taken before. While its ACK is held back its sender is told to wait, as long as it is the oldest
/// that the sender waits for.
void ModeIII::on_repeated(EndpointIndex from, std::uint64_t sequence, Sink& sink) {
  ++counters_.duplicates;
  if (sequence < answered_[from].packets) return acknowledge(from, sink);
  if (sequence > answered_[from].packets) return;
  ++counters_.rnr_naks;
  ask_for(from, Syndrome::rnr_nak(group_.rnr_timer), sink);
}

/// Moves on past all that has arrived.
void ModeIII::advance_expected(EndpointIndex from) {
  Endpoint& e = endpoints_[from];
  for (auto place = table_.rx_at(from, e.expected); place; place = table_.rx_at(from, e.expected)) {
    Pipe& pipe = pipe_from(from, *place);
    const Slot* const slot = pipe.slots.find(position(pipe, *place));
    if (slot == nullptr || !slot->arrived.has(from)) break;
    ++e.expected;
  }
}

/// Positions behind the start of a pipe that may be acknowledged: what the sender then sends fits.
std::uint64_t ModeIII::room_behind(EndpointIndex from) const noexcept {
  if (group_.acks == Acks::arrival) return group_.slots;
  // Another switch sends what is in its own slots, as many as ours.
  const std::uint64_t window = std::uint64_t{group_.window} * group_.message_packets;
  return group_.endpoints[from].rank && window < group_.slots ? group_.slots - window : 0;
}

/// Module SendAck: of what has arrived in order, all that may be acknowledged by now. Senders ask for answers where
/// they want them; halfway they get one in any case, so that they need not stop.
void ModeIII::acknowledge_room(EndpointIndex to, Sink& sink) {
  const Endpoint& e = endpoints_[to];
  const std::uint64_t before = answered_[to].packets;
  if (e.wanted <= before || e.expected == before) return;
  const std::uint64_t room = room_behind(to);
  Answered now = answered_[to];
  bool asked = false;
  while (now.packets < e.expected) {
    const auto place = table_.rx_at(to, now.packets);
    const Pipe& pipe = pipe_from(to, *place);
    if (position(pipe, *place) >= pipe.start + room) break;
    asked = asked || e.asked[now.packets % e.asked.size()];
    now = {now.packets + 1, table_.rx_msn(to, *place)};
  }
  const std::uint64_t half = std::max<std::uint64_t>(1, group_.slots / 2);
  if (!asked && now.packets - before < half) return;
  answer(to, now);
  acknowledge(to, sink);
}

void ModeIII::answer(EndpointIndex to, const Answered& now) {
  Endpoint& e = endpoints_[to];
  for (std::uint64_t s = answered_[to].packets; s < now.packets; ++s) e.asked[s % e.asked.size()] = false;
  answered_[to] = now;
}

/// A NAK acknowledges all before the packet that it asks for.
void ModeIII::admit_all(EndpointIndex from) {
  const std::uint64_t expected = endpoints_[from].expected;
  if (expected == answered_[from].packets) return;
  answer(from, {expected, table_.rx_msn(from, *table_.rx_at(from, expected - 1))});
}

/// The next packet in order, for which there is no room yet. Those behind it are dropped without a word.
void ModeIII::run_ahead(EndpointIndex from, Sink& sink) {
  endpoints_[from].nak_sent = true;
  ++counters_.rnr_naks;
  admit_all(from);
  ask_for(from, Syndrome::rnr_nak(group_.rnr_timer), sink);
  if (!group_.early_cnp || !group_.endpoints[from].rank) return;
  ++counters_.cnps;
  nic::Packet cnp;
  cnp.opcode = Opcode::CNP;
  sink.send(from, cnp, false);
}

/// Something before a packet is missing. An IRN sender is told of each packet that was taken, and of no other: it never
/// sends those again.
void ModeIII::gap(EndpointIndex from, std::optional<wire::Psn> taken, Sink& sink) {
  Endpoint& e = endpoints_[from];
  const bool irn = group_.endpoints[from].loss_recovery == nic::LossRecovery::irn;
  if (irn ? !taken : e.nak_sent) return;
  e.nak_sent = true;
  ++counters_.naks;
  admit_all(from);
  ask_for(from, Syndrome::nak(wire::NakCode::psn_sequence_error), sink, irn ? taken : std::nullopt);
}

void ModeIII::on_response(nic::Time now, EndpointIndex from, const nic::Packet& p, Sink& sink) {
  const Syndrome syndrome(p.syndrome);
  if (syndrome.is_nak() && !syndrome.is_sequence_nak()) {
    if (!failure_) fail(Failure::Reason::peer_failed, from, {}, sink);
    return;
  }
  Endpoint& e = endpoints_[from];
  const auto place = table_.response(from, p.psn);
  if (!place || failure_ || tx_of(from, *place) >= e.sent) {
    ++counters_.stale;
    return;
  }
  const std::uint64_t sequence = tx_of(from, *place);
  const std::uint64_t has = sequence + (syndrome.is_ack() ? 1 : 0);
  if (has < e.delivered) {
    ++counters_.stale;
    return;
  }
  if (has > e.delivered) deliver_until(now, e, has);
  if (syndrome.is_rnr_nak()) {
    e.waits = true;
    e.retries = 0;
    e.deadline = now + static_cast<nic::Time>(wire::rnr_timer_ns(p.syndrome & 0x1f));
  } else if (!syndrome.is_ack()) {
    // An IRN NAK names in its MSN the packet that came instead.
    const bool irn = group_.endpoints[from].loss_recovery == nic::LossRecovery::irn;
    const auto arrived = irn ? table_.response(from, wire::Psn(p.msn)) : std::nullopt;
    repair(from, sequence, arrived ? std::optional(tx_of(from, *arrived)) : std::nullopt);
  }
  settle(now, sink);
}

void ModeIII::deliver_until(nic::Time now, Endpoint& e, std::uint64_t sequence) noexcept {
  for (; e.delivered < sequence; ++e.delivered) {
    if (!e.there.empty()) e.there[e.delivered % e.there.size()] = false;
  }
  e.next = std::max(e.next, sequence);
  e.again = std::max(e.again, sequence);
  if (const nic::Time rtt = e.round_trips.acknowledged(sequence, now); rtt >= 0) e.round_trips.take(rtt);
  e.retries = 0;
  e.waits = false;
  e.deadline = e.sent > sequence ? now + patience(e) : nic::kNever;
}

/// Module Retransmission, after a NAK for `sequence`. A go-back-N receiver has dropped every packet after the one that
/// it asks for, so all of them are sent again. An IRN receiver keeps packets that come early and names in each NAK the
/// one that has `arrived`: only packets below it that no NAK has named are sent again, each once. Another repair begins
/// when a NAK asks for a packet that left after the last repair, or names one: the gap is new, or the last repair was
/// lost too. Receivers of other kinds name no packet, so only `sequence` is sent again.
void ModeIII::repair(EndpointIndex to, std::uint64_t sequence, std::optional<std::uint64_t> arrived) noexcept {
  Endpoint& e = endpoints_[to];
  if (e.waits) return;
  if (group_.endpoints[to].loss_recovery == nic::LossRecovery::gbn) {
    e.next = sequence;
    return;
  }
  if (arrived && *arrived > sequence && *arrived < e.sent) e.there[*arrived % e.there.size()] = true;
  e.missing = std::max(e.missing, arrived.value_or(sequence) + 1);
  if (sequence >= e.behind || (arrived && *arrived >= e.behind)) {
    e.again = sequence;
    e.behind = std::max(e.sent, sequence + 1);
  }
}

nic::Time ModeIII::patience(const Endpoint& e) const noexcept {
  return adapts(e) ? e.round_trips.timeout(first_timeout(), first_timeout() * kLongestTimeout)
                   : first_timeout() << e.retries;
}

nic::Time ModeIII::next_deadline() const noexcept {
  nic::Time next = nic::kNever;
  if (failure_) return next;
  for (const Endpoint& e : endpoints_) next = std::min(next, e.deadline);
  return next;
}

void ModeIII::on_timer(nic::Time now, Sink& sink) {
  for (EndpointIndex n = 0; n < endpoints() && !failure_; ++n) {
    Endpoint& e = endpoints_[n];
    if (e.deadline > now) continue;
    e.deadline = nic::kNever;
    if (!e.waits) {
      ++counters_.timeouts;
      const bool counts = !adapts(e) || patience(e) >= first_timeout() * kLongestTimeout;
      if (counts && e.retries == group_.retries) return fail(Failure::Reason::peer_silent, n, {}, sink);
      e.retries += counts ? 1 : 0;
      e.round_trips.expired();
    }
    resume(now, n, sink);
  }
}

/// Starts sending again after a timeout, or an RNR NAK's time. An IRN receiver is sent the oldest packet, even if it
/// had said that it came early (an RNR NAK may have thrown it away), and the newest, for which it says what else is
/// missing. To send everything instead would fill the queue of the port for longer than the next timeout, and the one
/// packet that all wait for would come last.
void ModeIII::resume(nic::Time now, EndpointIndex to, Sink& sink) {
  Endpoint& e = endpoints_[to];
  const bool waited = std::exchange(e.waits, false), irn = !e.there.empty();
  if (group_.endpoints[to].loss_recovery == nic::LossRecovery::gbn || (waited && !irn)) {
    e.next = e.delivered;
    return pump(now, to, sink);
  }
  e.again = e.delivered;
  e.behind = e.sent;
  if (irn) e.there[e.delivered % e.there.size()] = false;
  e.missing = irn ? std::max(e.missing, e.delivered + 1) : e.sent;
  pump(now, to, sink);
  if (e.missing >= e.sent) return;
  ++counters_.resent;
  static_cast<void>(send_one(now, to, e.sent - 1, sink));
}

/// Moves on as far as answers and sums allow.
void ModeIII::settle(nic::Time now, Sink& sink) {
  recycle(down_);
  recycle(up_);
  for (EndpointIndex e = 0; e < endpoints(); ++e) {
    pump(now, e, sink);
    acknowledge_room(e, sink);
  }
  retire();
}

/// Module RecycleBuffer: gives back the slots of what everyone has.
void ModeIII::recycle(Pipe& pipe) {
  for (;; ++pipe.start) {
    const Slot* const slot = pipe.slots.find(pipe.start);
    if (slot == nullptr || !slot->full) return;
    const auto place = &pipe == &up_ ? table_.at(pipe.start) : table_.down_at(pipe.start);
    if (!place || !passed_on(pipe, *place, *slot)) return;
    pipe.slots.recycle(pipe.start);
  }
}

bool ModeIII::passed_on(const Pipe& pipe, const Place& place, const Slot& slot) {
  const bool everyone = everyone_takes_part(*place.invocation);
  if (&pipe == &up_ && everyone && !group_.parent) return bridge(place, slot);
  for (EndpointIndex e = 0; e < endpoints(); ++e) {
    const bool gets = everyone ? (e == group_.parent) == (&pipe == &up_) : table_.role(e, *place.invocation).receives;
    if (gets && endpoints_[e].delivered <= tx_of(e, place)) return false;
  }
  return true;
}

/// At the root a sum becomes a result when the broadcast pipe has room for it (appendix H.4).
bool ModeIII::bridge(const Place& place, const Slot& slot) {
  if (!down_.takes(place.down_position())) return false;
  nic::Packet p;
  p.opcode = slot.opcode;
  p.ack_req = slot.ack_req;
  p.solicited = slot.solicited;
  p.immediate = slot.immediate;
  p.dma_length = slot.dma_length;
  p.payload.set(up_.slots.payload(slot), slot.bytes);
  static_cast<void>(down_.slots.contribute(place.down_position(), kBridge, p, slot.offset, slot.marked, nullptr, 1));
  down_.slots.at(place.down_position()).result = true;
  return true;
}

/// Sends what is missing, and then what is ready, in order.
void ModeIII::pump(nic::Time now, EndpointIndex to, Sink& sink) {
  Endpoint& e = endpoints_[to];
  if (e.waits) return;
  for (; e.again < std::min(e.missing, e.next); ++e.again) {
    if (!e.there.empty() && e.there[e.again % e.there.size()]) continue;
    ++counters_.resent;
    static_cast<void>(send_one(now, to, e.again, sink));
    e.behind = e.sent;
  }
  while (send_one(now, to, e.next, sink)) {
    counters_.resent += e.next < e.sent ? 1 : 0;
    e.sent = std::max(e.sent, ++e.next);
  }
  if (e.deadline == nic::kNever && e.sent > e.delivered) e.deadline = now + patience(e);
}

/// Modules ReplicateData, TranslateHeader and Forward for one receiver. False when the packet is not there yet.
bool ModeIII::send_one(nic::Time now, EndpointIndex to, std::uint64_t sequence, Sink& sink) {
  const auto place = table_.tx_at(to, sequence);
  if (!place) return false;
  Pipe& pipe = pipe_to(to, *place);
  const std::uint64_t at = position(pipe, *place);
  const Slot* const slot = pipe.slots.find(at);
  if (slot == nullptr || !slot->full) return false;
  // Half a pipe in front of its end, so that slots come free while others are filled.
  const std::uint32_t half = std::max(1u, pipe.slots.size() / 2);
  Endpoint& e = endpoints_[to];
  const bool again = sequence < e.sent;
  const bool ack_req = slot->ack_req || at % half == half - 1 || again;
  if (ack_req && !again) e.round_trips.sent(sequence, now);
  sink.send(to, translate(to, *place, pipe.slots, *slot, ack_req), slot->marked);
  return true;
}

/// Forgets collectives of which everyone has sent and got all.
void ModeIII::retire() noexcept {
  while (table_.live() > 0) {
    const Invocation& i = table_.live(0);
    for (EndpointIndex e = 0; e < endpoints(); ++e) {
      const Role role = table_.role(e, i);
      if (role.sends && answered_[e].packets < i.streams[e].rx + i.packets) return;
      if (role.receives && endpoints_[e].delivered < i.streams[e].tx + i.packets) return;
    }
    table_.forget_oldest();
  }
}

}  // namespace weft::inc
