// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "collectives/engine/mode_ii.h"

#include <algorithm>
#include <array>
#include <utility>

#include "switch/wire/payload_crc.h"

namespace weft::inc {
namespace {

using wire::HeaderMask;
using wire::Opcode;
using wire::Syndrome;

/// A smaller table is soon full of collectives whose ACKs were lost and whose senders have not repeated yet, and a
/// switch that sends cannot be told to wait.
constexpr std::uint32_t kLeastInvocations = 64;
/// Copies of a result that are handed over at once.
constexpr std::size_t kCopies = 16;

bool everyone_takes_part(const Place& place) noexcept {
  return everyone_takes_part(*place.invocation);
}

}  // namespace

std::optional<std::string> check_mode_ii(const GroupConfig& group) {
  if (auto error = check(group)) return error;
  const std::uint64_t slots = 2 * std::uint64_t{group.window} * group.message_packets;
  if (group.slots != slots) return "slots are twice the window in packets, " + std::to_string(slots);
  // Barriers take no more than a slot each and are known for a lap; others until their senders have been told.
  const std::uint32_t least = std::min(std::max(group.slots + 2, kLeastInvocations), kMaxInvocations);
  if (group.invocations < least) return "invocations are " + std::to_string(least) + " at least";
  return std::nullopt;
}

ModeII::ModeII(const GroupConfig& group, SlotMemory memory, MemoryLock* lock)
    : Context(group), slots_(group, std::move(memory)), progress_(group.endpoints.size()), lock_(lock) {}

void ModeII::on_packet(EndpointIndex from, const nic::Packet& p, bool marked, Sink& sink) {
  if (p.opcode == Opcode::CNP) return on_cnp(from, p, sink);
  if (p.opcode == Opcode::RC_ACKNOWLEDGE) return on_response(from, p, sink);
  if (!p.info().is_request()) return;
  if (failure_) return refuse(from, sink);
  if (acknowledge_again(from, p.psn, sink)) return;
  on_request(from, p, marked, sink);
}

bool ModeII::on_unchecked(EndpointIndex from, const nic::Packet& p, std::uint32_t crc, bool marked, Sink& sink) {
  if (Place place; place_of_contribution(from, p, place)) {
    const ControlMessage& m = place.invocation->message;
    const CheckedLoops* const how = checked_loops(m.type, m.op, group_.overflow);
    const Checked checked =
        how == nullptr ? Checked::unfit : slots_.add_checked(place.position(), from, p, offset_of(from, p), *how, crc);
    if (checked == Checked::wrong) return false;
    if (checked == Checked::added) {
      on_contribution(from, p, place, marked, sink, true);
      return true;
    }
  }
  if (wire::payload_crc({p.payload.data(), p.payload.bytes}) != crc) return false;
  on_packet(from, p, marked, sink);
  return true;
}

bool ModeII::adds_unchecked() const noexcept {
  if (table_.live() == 0 || group_.reproducible || group_.epsn_filter) return false;
  const ControlMessage& newest = table_.live(table_.live() - 1).message;
  return checked_loops(newest.type, newest.op, group_.overflow) != nullptr;
}

/// Where on_packet() would come to on_contribution() with this packet, and to nothing else.
bool ModeII::place_of_contribution(EndpointIndex from, const nic::Packet& p, Place& place) {
  if (failure_ || group_.epsn_filter || !p.info().is_request() || !table_.data_request(from, p, place)) return false;
  if (group_.endpoints[from].rank && rx_of(from, place) < answered_[from].packets) return false;
  if (place.invocation->message.primitive == Primitive::broadcast) return false;
  return from != group_.parent || !everyone_takes_part(place);
}

void ModeII::on_request(EndpointIndex from, const nic::Packet& p, bool marked, Sink& sink) {
  Place place;
  Refusal refusal = table_.request(from, p, place);
  if (refusal == Refusal::too_many) {
    retire(0);
    refusal = table_.request(from, p, place);
  }
  switch (refusal) {
    case Refusal::none:
      break;
    case Refusal::too_many:
      ++counters_.refused;
      ask_below(sink);
      return no_room(from, p.psn, sink);
    case Refusal::unknown_invocation:
      ++counters_.refused;
      return;
    case Refusal::too_old:
      ++counters_.stale;
      return acknowledge_retired(from, p.psn, sink);
    case Refusal::bad_control:
      return fail(Failure::Reason::bad_control, from, place, sink);
    case Refusal::bad_shape:
      return fail(Failure::Reason::bad_shape, from, place, sink);
    case Refusal::disagreement:
      return fail(Failure::Reason::disagreement, from, place, sink);
  }
  if (place.is_control() && !may_begin(*place.invocation)) {
    return fail(Failure::Reason::bad_control, from, place, sink);
  }
  if (filtered(from, rx_of(from, place))) return;
  if (place.is_control() && is_turn(*place.invocation)) return on_turn(from, p, place, marked, sink);
  if (place.invocation->message.primitive == Primitive::broadcast) return on_broadcast(from, p, place, marked, sink);
  if (from == group_.parent && everyone_takes_part(place)) return on_result(p, place, marked, sink);
  on_contribution(from, p, place, marked, sink);
}

/// A rank repeats a packet that was answered: it gets the answer again, without a look at the slot, which may hold
/// something else by now. Not so a switch: an ACK to it does not say that all ranks behind it have the result.
bool ModeII::acknowledge_again(EndpointIndex from, wire::Psn psn, Sink& sink) {
  if (!group_.endpoints[from].rank) return false;
  const auto sequence = table_.rx_sequence(from, psn);
  if (sequence && *sequence >= answered_[from].packets) return false;
  ++counters_.duplicates;
  acknowledge(from, sink);
  return true;
}

/// A rank begins another collective while the table is full of some that not everybody has heard the end of.
void ModeII::no_room(EndpointIndex from, wire::Psn psn, Sink& sink) {
  if (!group_.endpoints[from].rank || table_.rx_sequence(from, psn) != answered_[from].packets) return;
  ++counters_.rnr_naks;
  ask_for(from, Syndrome::rnr_nak(group_.rnr_timer), sink);
}

/// The oldest collective stays because switches below have not said that all behind them have its result, and those
/// that fill the table will not bring a lap: Broadcasts take no slots. The end of the result goes to these switches
/// again. One where the collective is over answers; that is so where a collective for which there is no room here has
/// come from, since all tables of a group have the same size.
void ModeII::ask_below(Sink& sink) {
  Invocation& oldest = table_.live(0);
  if (!everyone_takes_part(oldest) || !settled(oldest)) return;
  const Place last{&oldest, oldest.packets - 1};
  const Slot* const slot = slots_.find(last.position());
  if (slot == nullptr || !slot->result) return;
  for (EndpointIndex e = 0; e < endpoints(); ++e) {
    if (!may_miss(e, oldest)) continue;
    ++counters_.copies;
    forward(e, last, *slot, true, sink);
  }
}

/// Another switch repeats what belongs to a collective that is over here: then all behind us have it, and our ACK was
/// lost. It says no more than that: the other one finds by the PSN whose sender waits for it.
void ModeII::acknowledge_retired(EndpointIndex from, wire::Psn psn, Sink& sink) {
  const auto sequence = table_.rx_sequence(from, psn);
  if (group_.endpoints[from].rank || !sequence || *sequence >= table_.rx_retired(from)) return;
  nic::Packet p;
  p.opcode = Opcode::RC_ACKNOWLEDGE;
  p.psn = psn;
  p.syndrome = Syndrome::ack().raw();
  sink.send(from, p, false);
}

/// Forgets what nobody will ask for again. `furthest`: one past a position whose sum is complete.
void ModeII::retire(std::uint64_t furthest) noexcept {
  while (table_.live() > 0 && over(table_.live(0), furthest)) table_.forget_oldest();
}

/// Senders have been told that all has arrived; of what everyone gets, receivers behind other switches have it, too.
/// They have said so by an answer to something later, or are a lap behind: nobody could be there before.
bool ModeII::over(const Invocation& i, std::uint64_t furthest) const noexcept {
  if (!settled(i)) return false;
  if (!everyone_takes_part(i) || i.end() + slots_.size() <= furthest) return true;
  for (EndpointIndex e = 0; e < endpoints(); ++e) {
    if (may_miss(e, i)) return false;
  }
  return true;
}

/// Behind a switch below, somebody may not have what everyone gets.
bool ModeII::may_miss(EndpointIndex e, const Invocation& i) const noexcept {
  const bool switch_below = e != group_.parent && !group_.endpoints[e].rank;
  return switch_below && progress_[e].delivered < i.streams[e].tx + i.packets;
}

bool ModeII::settled(const Invocation& i) const noexcept {
  for (EndpointIndex e = 0; e < endpoints(); ++e) {
    // Switches are not told of results that everyone gets: they find the ranks' answers themselves.
    const bool told = table_.role(e, i).sends && (group_.endpoints[e].rank || !everyone_takes_part(i));
    if (told && answered_[e].packets < i.streams[e].rx + i.packets) return false;
  }
  return true;
}

/// EPIC appendices C and D: what a go-back-N sender will send again need not be worked on. Of ranks alone: switches
/// send in the order in which sums become full, and repeat only what they are asked for.
bool ModeII::filtered(EndpointIndex from, std::uint64_t seq) noexcept {
  const EndpointConfig& e = group_.endpoints[from];
  if (!group_.epsn_filter || !e.rank || e.loss_recovery != nic::LossRecovery::gbn) return false;
  std::uint64_t& expected = progress_[from].expected;
  if (seq > expected) {
    ++counters_.filtered;
    return true;
  }
  expected += seq == expected ? 1 : 0;
  return false;
}

void ModeII::on_contribution(EndpointIndex from, const nic::Packet& p, const Place& place, bool marked, Sink& sink,
                             bool added) {
  const ControlMessage& m = place.invocation->message;
  // What was added before has its sum in the type of the wire already.
  const Arithmetic* const how = added || place.is_control() ? nullptr : arithmetic(m.type, m.op, group_.overflow);
  const std::uint64_t position = place.position();
  const std::uint32_t senders = table_.senders(*place.invocation);
  switch (slots_.contribute(position, from, p, offset_of(from, p), marked, how, senders, added)) {
    case Contribution::stale:
      ++counters_.stale;
      // A Reduce: its slot is in use again, so the root has the sum, and this sender has missed its ACK.
      if (!everyone_takes_part(place)) answer(from, place, Syndrome::ack(), std::nullopt, sink);
      return;
    case Contribution::different:
      return fail(Failure::Reason::bad_shape, from, place, sink);
    case Contribution::duplicate:
      return on_duplicate(from, place, slots_.at(position), sink);
    case Contribution::partial:
      ++counters_.contributions;
      return;
    case Contribution::complete:
      ++counters_.contributions;
      ++counters_.completed;
      if (!place.is_control()) {
        counters_.completed_bytes += p.payload.bytes;
      } else if (is_turn(*place.invocation) && !all_want(*place.invocation)) {
        return fail(Failure::Reason::bad_control, from, place, sink);
      }
      break;
  }
  Slot& slot = slots_.at(position);
  if (everyone_takes_part(place) && group_.parent) {
    forward(*group_.parent, place, slot, slot.ack_req, sink);
  } else {
    slot.result = true;
    replicate(place, slot, sink);
  }
  retire(position + 1);
}

/// To everyone who receives what this slot holds.
void ModeII::replicate(const Place& place, const Slot& slot, Sink& sink) {
  // Once for all receivers, because ends_message() divides.
  const bool ack_req = slot.ack_req || table_.ends_message(*place.invocation, place.index);
  const nic::Packet p = translate(0, place, slots_, slot, ack_req);
  const bool everyone = everyone_takes_part(place);
  std::array<Copy, kCopies> copies;
  std::size_t count = 0;
  for (EndpointIndex e = 0; e < endpoints(); ++e) {
    if (everyone ? e == group_.parent : !table_.role(e, *place.invocation).receives) continue;
    if (count == copies.size()) {
      sink.replicate(p, copies, slot.marked);
      count = 0;
    }
    copy_for(e, place, slot, copies[count++]);
  }
  if (count != 0) sink.replicate(p, std::span(copies).first(count), slot.marked);
}

/// Whether a repeated packet sends its full slot on once more. The first one does so for all who miss the same; whoever
/// comes back a second time does so anew. When everybody's timers expire, one copy of each packet leaves the switch and
/// not one for each child, which would slow the tree down by their number.
bool ModeII::asks_anew(EndpointIndex from, Slot& slot) const noexcept {
  if (group_.duplicates == Duplicates::reforward) return true;
  const bool anew = slot.repeated.size() == 0 || slot.repeated.has(from);
  if (anew) slot.repeated.clear();
  slot.repeated.add(from);
  return anew;
}

void ModeII::on_duplicate(EndpointIndex from, const Place& place, Slot& slot, Sink& sink) {
  ++counters_.duplicates;
  if (!slot.full) return not_ready(from, place, sink);
  const bool cached = group_.duplicates == Duplicates::cache;
  if (everyone_takes_part(place)) {
    if (group_.parent && !(slot.result && cached)) {
      // The sum may have been lost on its way up, or the result on its way down.
      if (asks_anew(from, slot)) {
        ++counters_.copies;
        forward(*group_.parent, place, slot, true, sink);
      }
      if (!slot.result) not_ready(from, place, sink);
    } else if (cached) {
      ++counters_.copies;
      forward(from, place, slot, true, sink);
    } else {
      counters_.copies += endpoints();
      replicate(place, slot, sink);
    }
    return;
  }
  const EndpointIndex root = table_.root_endpoint(*place.invocation);
  if (progress_[root].delivered > tx_of(root, place)) {
    // The ACK to this sender was lost, or the root's ACK named a later collective and went to the senders of that.
    answer(from, place, Syndrome::ack(), std::nullopt, sink);
    if (cached) return;
  }
  if (!asks_anew(from, slot)) return;
  ++counters_.copies;
  forward(root, place, slot, true, sink);
}

/// A Barrier of a turn. Its payload is not kept in slots, whose memory may be another group's: see Context::said_of().
void ModeII::on_turn(EndpointIndex from, const nic::Packet& p, const Place& place, bool marked, Sink& sink) {
  nic::Packet bare = p;
  bare.payload.set(nullptr, p.payload.bytes);
  if (from == group_.parent) return on_verdict(bare, place, marked, sink);
  ControlMessage& m = place.invocation->message;
  if (table_.heard().refused) {
    if (group_.endpoints[from].rank) return fail(Failure::Reason::bad_control, from, place, sink);
    m.refused = true;
  }
  on_contribution(from, bare, place, marked, sink);
}

/// What all of the tree have agreed on comes from its root.
void ModeII::on_verdict(const nic::Packet& p, const Place& place, bool marked, Sink& sink) {
  Invocation& i = *place.invocation;
  const Slot* const slot = slots_.find(place.position());
  if (slot != nullptr && slot->full && !slot->result) {
    i.message.refused = table_.heard().refused;
    i.said = control_payload(i.message);
    decided(i);
  }
  on_result(p, place, marked, sink);
}

/// Whether a collective may begin whose control message has come. Of a group that shares memory, one with data may when
/// the memory has come with the last Barrier of a turn that began; so none that is in the table writes to memory of
/// others: with the end of a turn all before it are forgotten, and nothing with data is behind it.
bool ModeII::may_begin(const Invocation& i) noexcept {
  if (lock_ == nullptr || &i != &table_.live(table_.live() - 1)) return true;
  if (!is_turn(i)) return has_memory_ && begun_turn_ == turn_with_memory_;
  begun_turn_ = i.message.sequence;
  return true;
}

/// All ranks behind us have begun a Barrier of a turn, which goes up now; at the root it is decided. False: it means
/// nothing, because another turn is under way.
bool ModeII::all_want(Invocation& i) {
  ControlMessage& m = i.message;
  if (lock_ != nullptr) {
    if (begun_turn_ != m.sequence || (m.turn == Turn::take && has_memory_)) return false;
    // Where a switch below has been refused nobody gets it.
    if (m.turn == Turn::take && !m.refused) {
      has_memory_ = lock_->take();
      turn_with_memory_ = m.sequence;
      m.refused = !has_memory_;
      counters_.memory_busy += m.refused ? 1 : 0;
    }
  }
  i.said = control_payload(m);
  if (!group_.parent) decided(i);
  return true;
}

void ModeII::decided(const Invocation& i) {
  if (i.message.turn == Turn::take) {
    ++(i.message.refused ? counters_.turns_refused : counters_.turns);
    if (i.message.refused) give_memory();
    return;
  }
  // All ranks of the tree have all that came before, and were told that the others have it.
  while (&table_.live(0) != &i) table_.forget_oldest();
  give_memory();
}

void ModeII::give_memory() noexcept {
  if (has_memory_) lock_->give();
  has_memory_ = false;
}

/// A group that has failed looks at no slot any more.
void ModeII::fail(Failure::Reason reason, EndpointIndex from, const Place& place, Sink& sink) {
  Context::fail(reason, from, place, sink);
  give_memory();
}

void ModeII::on_result(const nic::Packet& p, const Place& place, bool marked, Sink& sink) {
  Slot* const slot = slots_.find(place.position());
  if (slot == nullptr || !slot->full) {
    ++counters_.stale;
    return;
  }
  if (slot->result) {
    ++counters_.duplicates;
    if (group_.duplicates == Duplicates::cache) return;
    counters_.copies += endpoints() - 1u;
  } else {
    ++counters_.results;
    slots_.replace(place.position(), p, offset_of(*group_.parent, p), marked);
  }
  replicate(place, *slot, sink);
}

void ModeII::on_broadcast(EndpointIndex from, const nic::Packet& p, const Place& place, bool marked, Sink& sink) {
  for (EndpointIndex e = 0; e < endpoints(); ++e) {
    if (group_.endpoints[e].loss_recovery == nic::LossRecovery::irn) {
      return fail(Failure::Reason::irn_broadcast, e, place, sink);
    }
  }
  std::uint64_t& forwarded = progress_[from].broadcast;
  const bool again = rx_of(from, place) < forwarded;
  forwarded = std::max(forwarded, rx_of(from, place) + 1);
  counters_.duplicates += again ? 1 : 0;
  const std::uint64_t offset = offset_of(from, p);
  bool everyone_has = true;
  for (EndpointIndex e = 0; e < endpoints(); ++e) {
    if (e == from) continue;
    const bool has = progress_[e].delivered > tx_of(e, place);
    everyone_has &= has;
    if (has && group_.duplicates == Duplicates::cache) continue;
    counters_.copies += again ? 1 : 0;
    nic::Packet out = p;
    out.psn = table_.tx_psn(e, place);
    out.ack_req = p.ack_req || again || table_.ends_message(*place.invocation, place.index);
    if (out.info().has(HeaderMask::reth)) {
      out.remote_address = group_.endpoints[e].address + offset;
      out.rkey = group_.endpoints[e].rkey;
    }
    sink.send(e, out, marked);
  }
  // Our ACK was lost. The receivers' ACKs say nothing new, and merge() passes on only what is new.
  if (everyone_has) answer(from, place, Syndrome::ack(), std::nullopt, sink);
  retire(0);
}

void ModeII::forward(EndpointIndex to, const Place& place, const Slot& slot, bool ack_req, Sink& sink) {
  sink.send(to, translate(to, place, slots_, slot, ack_req), slot.marked);
}

/// An answer to the packet at this place of what `to` sends. An ACK covers it, a NAK all before it.
void ModeII::answer(EndpointIndex to, const Place& place, Syndrome syndrome, std::optional<wire::Psn> sack,
                    Sink& sink) {
  const bool ack = syndrome.is_ack();
  const std::uint64_t covered = rx_of(to, place) + (ack ? 1 : 0);
  nic::Packet p;
  p.opcode = Opcode::RC_ACKNOWLEDGE;
  p.psn = table_.rx_psn(to, place);
  // No credits: a receiver counts them for the switch's messages to it, which are not those of `to`.
  p.syndrome = ack ? Syndrome::ack().raw() : syndrome.raw();
  const bool ends = table_.ends_message(*place.invocation, place.index);
  const std::uint32_t messages = (table_.rx_msn(to, place) - (!ack && ends ? 1 : 0)) & 0xffffff;
  p.msn = sack ? sack->value() : messages;
  if (covered > answered_[to].packets) {
    answered_[to].packets = covered;
    answered_[to].messages = messages;
  }
  sink.send(to, p, false);
  if (syndrome.is_rnr_nak()) acknowledge_rnr(to, sink);
}

void ModeII::not_ready(EndpointIndex to, const Place& place, Sink& sink) {
  // An RNR NAK acknowledges all before it, so it may name the first unanswered packet alone.
  const std::uint64_t sequence = rx_of(to, place);
  if (!group_.endpoints[to].rank || sequence != answered_[to].packets) return;
  // This repeat follows a NAK that was passed on, also to those whose packet had come. An RNR NAK would make the sender
  // pause, and the others wait for it. The next repeat of this packet is its timer's, and gets the RNR NAK.
  if (progress_[to].asked == sequence && std::exchange(progress_[to].spare, false)) return;
  ++counters_.rnr_naks;
  answer(to, place, Syndrome::rnr_nak(group_.rnr_timer), std::nullopt, sink);
}

/// A NAK for this packet is passed on: it will be repeated although nobody waits for a timer.
void ModeII::spare(EndpointIndex to, std::uint64_t sequence) noexcept {
  Progress& p = progress_[to];
  if (p.asked == sequence) return;
  p.asked = sequence;
  p.spare = true;
}

void ModeII::on_response(EndpointIndex from, const nic::Packet& p, Sink& sink) {
  const Syndrome syndrome(p.syndrome);
  if (syndrome.is_nak() && !syndrome.is_sequence_nak()) {
    if (!failure_) fail(Failure::Reason::peer_failed, from, {}, sink);
    return;
  }
  const auto place = table_.response(from, p.psn);
  if (!place || failure_) {
    ++counters_.stale;
    return;
  }
  Progress& progress = progress_[from];
  progress.delivered = std::max(progress.delivered, tx_of(from, *place) + (syndrome.is_ack() ? 1 : 0));
  if (!everyone_takes_part(*place)) acknowledge_results(from, sink);
  if (place->invocation->message.primitive == Primitive::broadcast) {
    if (syndrome.is_ack()) {
      if (progress.held && *progress.held < progress.delivered) progress.held.reset();
    } else if (tx_of(from, *place) >= progress.delivered) {
      progress.held = tx_of(from, *place);
      progress.held_syndrome = p.syndrome;
    }
    return merge(*place, sink);
  }
  // An IRN NAK names in its MSN the packet that came instead. Where that is of a collective in which the other side
  // sends nothing, it has no name there, and the NAK stays here: a timeout repairs that.
  const bool names_another =
      syndrome.is_sequence_nak() && group_.endpoints[from].loss_recovery == nic::LossRecovery::irn;
  const Place sack = names_another ? table_.response(from, wire::Psn(p.msn)).value_or(Place{}) : Place{};
  const auto pass = [&](EndpointIndex to) {
    if (names_another && (sack.invocation == nullptr || !table_.role(to, *sack.invocation).sends)) return;
    ++counters_.answers;
    if (syndrome.is_sequence_nak()) spare(to, rx_of(to, *place));
    answer(to, *place, syndrome, names_another ? std::optional(table_.rx_psn(to, sack)) : std::nullopt, sink);
  };
  if (everyone_takes_part(*place)) {
    // A host has contributed to the result that it answers: its answer covers its own packet. Switches do not answer.
    if (group_.endpoints[from].rank) pass(from);
    return;
  }
  for (EndpointIndex e = 0; e < endpoints(); ++e) {
    if (e != from) pass(e);
  }
}

/// A rank has answered for something later: the results before that have arrived.
void ModeII::acknowledge_results(EndpointIndex to, Sink& sink) {
  if (!group_.endpoints[to].rank) return;
  std::optional<Place> last;
  for (std::uint32_t n = 0; n < table_.live(); ++n) {
    Invocation& i = table_.live(n);
    const std::uint64_t begin = i.streams[to].tx, has = progress_[to].delivered;
    if (!everyone_takes_part({&i, 0}) || has <= begin) continue;
    const std::uint64_t packets = std::min(has - begin, i.packets);
    if (i.streams[to].rx + packets > answered_[to].packets) last = Place{&i, packets - 1};
  }
  if (last) answer(to, *last, Syndrome::ack(), std::nullopt, sink);
}

/// The ACKs of a Broadcast's receivers: the sender hears of the slowest one (`nodeAckPsn`). A NAK, which says that all
/// before it has arrived, waits until that is so for everyone.
void ModeII::merge(const Place& place, Sink& sink) {
  const Invocation& i = *place.invocation;
  const EndpointIndex root = table_.root_endpoint(i);
  std::uint64_t slowest = i.packets;
  bool earlier = false;  // somebody still waits for what came before this collective
  for (EndpointIndex e = 0; e < endpoints(); ++e) {
    if (e == root) continue;
    const std::uint64_t begin = i.streams[e].tx, has = progress_[e].delivered;
    slowest = std::min(slowest, has > begin ? has - begin : 0);
    earlier |= has < begin;
  }
  if (slowest > 0 && i.streams[root].rx + slowest > answered_[root].packets) {
    ++counters_.answers;
    answer(root, {place.invocation, slowest - 1}, Syndrome::ack(), std::nullopt, sink);
  } else {
    ++counters_.merged;
  }
  if (earlier) return;
  for (EndpointIndex e = 0; e < endpoints(); ++e) {
    Progress& p = progress_[e];
    if (!p.held || *p.held != i.streams[e].tx + slowest) continue;
    ++counters_.answers;
    p.held.reset();
    answer(root, {place.invocation, slowest}, Syndrome(p.held_syndrome), std::nullopt, sink);
    break;
  }
}

}  // namespace weft::inc
