// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/stages/nack_filter/stage.h"

#include <algorithm>
#include <cstring>

#include "switch/pipeline/set_words.h"
#include "switch/stages/nack_filter/drops.h"
#include "switch/stages/rdma_track/order.h"
#include "switch/wire/icrc.h"
#include "switch/wire/parse.h"
#include "switch/wire/roce_editor.h"

namespace weft::stages {

using pipeline::Batch;
using pipeline::Context;
using pipeline::DropReason;
using pipeline::PacketMeta;
using pipeline::PortIndex;
using wire::Psn;

namespace {

constexpr std::size_t kLine = 64;
constexpr auto kReadRequest = static_cast<std::uint8_t>(wire::Opcode::RC_RDMA_READ_REQUEST);
// Slots that one packet without room looks at for one whose queue pair is gone.
constexpr std::uint32_t kEvictionTries = 16;

std::size_t round_up(std::size_t bytes) noexcept {
  return (bytes + kLine - 1) / kLine * kLine;
}

std::uint32_t msn_of(const rte_mbuf* m) noexcept {
  const std::uint8_t* bth = pipeline::frame(m) + pipeline::meta(m).parsed.l4_offset + sizeof(wire::UdpHeader);
  return wire::header_at<wire::Aeth>(bth + sizeof(wire::Bth)).msn.value();
}

// What a READ request asks for; 0 for all other packets.
std::uint32_t read_bytes_of(const rte_mbuf* m) noexcept {
  const wire::Parsed& parsed = pipeline::meta(m).parsed;
  if (parsed.opcode != kReadRequest) [[likely]]
    return 0;
  const std::uint8_t* reth = pipeline::frame(m) + parsed.l4_offset + sizeof(wire::UdpHeader) + sizeof(wire::Bth);
  return wire::header_at<wire::Reth>(reth).dma_length.value();
}

}  // namespace

// --- the stage ---------------------------------------------------------------------------------------------------

NackFilterStage::NackFilterStage(const pipeline::StageBuild& build, NackFilterShared& shared)
    : options_(nack_options(build.options, build.info)),
      unit_(options_.rules),
      known_(build),
      shared_(shared),
      worker_(build.worker),
      icrc_mode_(build.info.icrc == pipeline::IcrcUpdate::full ? wire::IcrcMode::full : wire::IcrcMode::incremental),
      info_(build.info),
      slot_of_position_(known_.tracker().table().slots()),
      extra_at_(round_up(unit_.bytes())),
      stride_(extra_at_ + sizeof(Extra)),
      pages_((std::size_t{options_.max_qps} + 1) * stride_),
      memory_(static_cast<std::byte*>(pages_.data())),
      no_slot_state_(memory_ + options_.max_qps * stride_),
      usual_paths_(options_.rules.paths),
      mail_lost_seen_(build.workers, 0),
      draining_(build.info.ports.size()) {
  free_.reserve(options_.max_qps);
  timers_.resize(options_.max_qps);
  for (std::uint16_t from = 0; from < build.workers; ++from) {
    if (from != worker_) mail_lost_seen_[from] = shared.lost(from, worker_);
  }
}

void NackFilterStage::ingress(Context& context, Batch& batch) {
  if (shared_.workers() > 1) read_mail(context);
  for (std::uint16_t i = 0; i < batch.size; ++i) {
    rte_mbuf* m = batch.packet[i];
    const PacketMeta& pm = pipeline::meta(m);
    if (!kRcResponses[pm.parsed.opcode] || pm.parsed.kind != wire::FrameKind::roce) continue;
    if (!is_host_port(pm.in_port)) {
      if (has_in_order_mark(pipeline::frame(m), pm.parsed)) [[unlikely]]
        read_mark(m);
      continue;
    }
    if (on_response(context, m)) continue;
    if (options_.on_block == OnBlock::ack) {
      make_ack(m);
    } else {
      context.drop(batch, i, NackDrop::nack_blocked);
    }
  }
}

void NackFilterStage::egress(Context& context, PortIndex port, Batch& batch) {
  if (!options_.enabled || options_.uplink_of_port[port] != NackOptions::kNoUplink) return;
  if (shared_.workers() > 1) {
    record_for_owners(context, port, batch);
  } else {
    record_all(context, port, batch);
  }
  if (draining_count_ != 0) [[unlikely]]
    release_drained(context);
}

void NackFilterStage::record_all(Context& context, PortIndex port, const Batch& batch) noexcept {
  // First which packets are of interest and where their state is, so that it is on its way while the others are looked
  // at; then nearly all are the next ones of their paths.
  struct Wanted {
    const rte_mbuf* packet;
    std::byte* memory;
  };
  std::array<Wanted, Batch::kCapacity> wanted;
  Wanted* end = wanted.data();
  const std::uint32_t slots = known_.tracker().table().slots();
  for (std::uint32_t i = 0; i < batch.size; ++i) {
    const rte_mbuf* m = batch.packet[i];
    const PacketMeta& pm = pipeline::meta(m);
    if (!to_host(pm, port) || pm.qp_handle > slots) continue;
    const std::uint32_t slot = slot_of_position_[pm.qp_handle - 1] - 1;
    std::byte* memory = slot != kNone ? slot_memory(slot) : no_slot_state_;
    __builtin_prefetch(memory);
    __builtin_prefetch(memory + sizeof(NackState) + sizeof(NackPath) * usual_paths_.class_of(pm.parsed.psn));
    *end++ = {m, memory};
  }
  for (const Wanted* w = wanted.data(); w != end; ++w) {
    const PacketMeta& pm = pipeline::meta(w->packet);
    const NackQp state = unit_.view(w->memory);
    const bool same = state.state().address_key == pm.parsed.address_key &&
                      state.state().dest_qp == pm.parsed.dest_qp.value() && pm.parsed.opcode != kReadRequest;
    if (same && unit_.on_next_data(state, pm.parsed.psn, uplink_of(pm))) [[likely]]
      continue;
    record(context, mail_of(w->packet, false));
  }
}

void NackFilterStage::record_for_owners(Context& context, PortIndex port, const Batch& batch) noexcept {
  for (std::uint16_t i = 0; i < batch.size; ++i) {
    const PacketMeta& pm = pipeline::meta(batch.packet[i]);
    if (to_host(pm, port)) tell_owner(context, batch.packet[i], false);
  }
}

void NackFilterStage::tell_owner(Context& context, const rte_mbuf* m, bool dropped) noexcept {
  const std::uint16_t owner = shared_.workers() > 1 ? shared_.owner(pipeline::meta(m).parsed) : worker_;
  if (owner == worker_) {
    record(context, mail_of(m, dropped));
  } else {
    shared_.push(worker_, owner, mail_of(m, dropped));
  }
}

void NackFilterStage::on_drop(Context& context, const rte_mbuf* packet, DropReason /*reason*/) {
  const PacketMeta& pm = pipeline::meta(packet);
  if (to_host(pm, pm.out_port)) tell_owner(context, packet, true);
}

NackMail NackFilterStage::mail_of(const rte_mbuf* m, bool dropped) const noexcept {
  const PacketMeta& pm = pipeline::meta(m);
  return {pm.parsed.address_key, pm.qp_handle, pm.parsed.dest_qp.value(), pm.parsed.psn.value(), read_bytes_of(m),
          uplink_of(pm),         dropped};
}

void NackFilterStage::record(Context& context, const NackMail& mail) noexcept {
  // A worker may still tell of packets when this one has been switched off.
  const std::uint32_t slot = options_.enabled ? slot_of_request(context, mail) : kNone;
  if (slot == kNone) return;
  const DataVerdict verdict = mail.dropped ? unit_.on_dropped(qp(slot), Psn(mail.psn))
                                           : unit_.on_data(qp(slot), Psn(mail.psn), mail.uplink, psns_of(mail));
  if (verdict.any()) [[unlikely]]
    act(context, slot, verdict);
}

// How many PSNs a request of a queue pair in slot_of_position_ spans. Until the path MTU is known this is the least
// possible number: PSNs beyond it count as lost, but no NACK asks for them (explored: nack_filter/exhaustive_test.cc).
std::uint32_t NackFilterStage::psns_of(const NackMail& mail) const noexcept {
  if (mail.read_bytes == 0) [[likely]]
    return 1;
  constexpr std::uint32_t kLargestPmtu = 4096;
  const std::uint8_t code = known_.tracker().table().entry(mail.handle - 1).pmtu_code();
  return read_span(mail.read_bytes, code != 0 ? pmtu_bytes(code) : kLargestPmtu);
}

void NackFilterStage::act(Context& context, std::uint32_t slot, const DataVerdict& verdict) noexcept {
  if (verdict.spurious) {
    count(NackCounter::spurious_retransmissions);
    ++extra(slot).spurious;
  }
  if (verdict.after_block) {
    count(NackCounter::retransmitted_after_block);
    if (++extra(slot).after_block == kWarnAfter) set_warned(extra(slot), true);
  }
  if (verdict.mismatch) count(NackCounter::path_mismatches);
  if (verdict.compensate) send_nack(context, slot, NackCounter::compensated_packet);
  if (verdict.release) send_nack(context, slot, NackCounter::nacks_released);
}

void NackFilterStage::read_mail(Context& context) noexcept {
  NackMail mail;
  for (std::uint16_t from = 0; from < shared_.workers(); ++from) {
    if (from == worker_) continue;
    // Messages about some packets were lost, so that the history of the queue pairs may have gaps.
    const std::uint64_t lost = shared_.lost(from, worker_);
    if (lost != mail_lost_seen_[from]) {
      count(NackCounter::mail_lost, lost - mail_lost_seen_[from]);
      mail_lost_seen_[from] = lost;
      release_all(context);
      for (std::uint32_t slot = 0; slot < used_; ++slot) {
        const NackState& s = qp(slot).state();
        if (s.dest_qp != 0 && (s.flags & NackFlag::in_order) == 0) unit_.start(qp(slot), std::nullopt);
      }
    }
    while (shared_.pop(from, worker_, mail)) record(context, mail);
  }
}

// --- state of queue pairs ----------------------------------------------------------------------------------------

std::uint32_t NackFilterStage::slot_of_request(Context& context, const NackMail& mail) noexcept {
  if (mail.handle > known_.tracker().table().slots()) return kNone;
  const std::uint32_t slot = slot_of_position_[mail.handle - 1] - 1;
  if (slot != kNone) [[likely]] {
    const NackState& s = qp(slot).state();
    if (s.address_key == mail.address_key && s.dest_qp == mail.dest_qp) [[likely]]
      return slot;
    // Another queue pair has this place in the table now.
    evict(context, slot);
  }
  return create(context, mail);
}

std::uint32_t NackFilterStage::create(Context& context, const NackMail& mail) noexcept {
  const QpTracker& tracker = known_.tracker();
  const std::uint32_t position = mail.handle - 1;
  const tables::QpEntry& entry = tracker.table().entry(position);
  if (entry.dest_qp().value() != mail.dest_qp || !known_.counts(entry)) return kNone;
  if (!entry.is_v6() && entry.addresses != mail.address_key) return kNone;
  const std::uint32_t slot = free_slot(context);
  if (slot == kNone) {
    count(NackCounter::table_full);
    return kNone;
  }
  Extra& e = extra(slot);
  e = {};
  e.addresses = entry.addresses;
  e.position = position;
  NackState& s = qp(slot).state();
  s.address_key = mail.address_key;
  s.dest_qp = mail.dest_qp;
  unit_.start(qp(slot), began_before_me(position) ? std::nullopt : tracker.first_psn(position));
  slot_of_position_[position] = slot + 1;
  count(NackCounter::qps_active);
  return slot;
}

// Some packets of a queue pair have left before everything was forgotten: its first PSN says nothing about the others.
bool NackFilterStage::began_before_me(std::uint32_t position) const noexcept {
  if (began_anew_ == 0) return false;
  const tables::QpDetail& detail = known_.tracker().table().detail(position);
  const std::uint32_t age = (tables::age_tick_of(began_anew_) - detail.first_seen) & tables::QpDetail::kAgeMask;
  return age <= tables::QpDetail::kAgeMask / 2;
}

std::uint32_t NackFilterStage::free_slot(Context& context) noexcept {
  if (used_ < options_.max_qps) return used_++;
  for (std::uint32_t tries = 0; free_.empty() && tries < kEvictionTries; ++tries) {
    sweep_at_ = sweep_at_ + 1 < used_ ? sweep_at_ + 1 : 0;
    if (!in_use(sweep_at_)) evict(context, sweep_at_);
  }
  if (free_.empty()) return kNone;
  const std::uint32_t slot = free_.back();
  free_.pop_back();
  return slot;
}

// Its entry in the table of rdma_track is still that of the same queue pair.
bool NackFilterStage::in_use(std::uint32_t slot) const noexcept {
  const Extra& e = extra(slot);
  const tables::QpEntry& entry = known_.tracker().table().entry(e.position);
  return entry.addresses == e.addresses && entry.dest_qp().value() == qp(slot).state().dest_qp;
}

void NackFilterStage::evict(Context& context, std::uint32_t slot) noexcept {
  if (unit_.release(qp(slot))) send_nack(context, slot, NackCounter::nacks_released);
  set_warned(extra(slot), false);
  const std::uint32_t position = extra(slot).position;
  if (slot_of_position_[position] == slot + 1) slot_of_position_[position] = 0;
  qp(slot).state().dest_qp = 0;
  free_.push_back(slot);
  count(NackCounter::qps_active, ~std::uint64_t{0});
}

std::uint32_t NackFilterStage::slot_of_response(const PacketMeta& pm) const noexcept {
  const tables::QpEntry* entry = known_.entry(pm);
  if (entry == nullptr) return kNone;
  const std::uint32_t slot = slot_of_position_[entry->peer] - 1;
  if (slot == kNone) return kNone;
  const Extra& e = extra(slot);
  const tables::QpEntry& requests = known_.tracker().table().entry(entry->peer);
  const bool same = e.position == entry->peer && e.addresses == requests.addresses &&
                    qp(slot).state().dest_qp == requests.dest_qp().value();
  return same ? slot : kNone;
}

// Releases the blocked NACKs of the hosts at a port if the packets that they ask for were to come in through an uplink
// that is down or excluded.
void NackFilterStage::release_cut(Context& context, PortIndex port) noexcept {
  for (std::uint32_t slot = 0; slot < used_; ++slot) {
    if (qp(slot).state().dest_qp == 0 || extra(slot).in_port != port) continue;
    if (unit_.on_uplinks_down(qp(slot), uplinks_down_)) send_nack(context, slot, NackCounter::compensated_path_down);
  }
}

// A packet that came in before the link went down may still wait in the queue to its host. So nothing counts as lost
// for a port until its queue has been empty once.
void NackFilterStage::on_links(Context& context) {
  note_excluded(context);
  if (!options_.rules.arrival_check) return;
  const std::uint64_t down = uplinks_where([&](PortIndex port) { return !context.path_up(port); });
  const bool more = (down & ~uplinks_down_) != 0;
  uplinks_down_ = down;
  if (!more) return;
  draining_count_ = 0;
  for (PortIndex port = 0; port < draining_.size(); ++port) {
    draining_[port] = is_host_port(port);
    draining_count_ += draining_[port] ? 1 : 0;
  }
  release_drained(context);
}

// The owner of a port tells what has left before it tells that nothing waits any more.
void NackFilterStage::release_drained(Context& context) noexcept {
  look_at_drains_ = context.now + kRetryNs;
  for (PortIndex port = 0; port < draining_.size(); ++port) {
    if (!draining_[port] || context.queue_depth(port) != 0) continue;
    draining_[port] = false;
    --draining_count_;
    if (shared_.workers() > 1) read_mail(context);
    release_cut(context, port);
  }
  context.at(deadline(0));
}

// N changes when uplinks are excluded at both ToRs. Arriving packets show such a change as well.
void NackFilterStage::note_excluded(Context& context) noexcept {
  const std::uint64_t excluded = uplinks_where([&](PortIndex port) { return context.excluded(port); });
  if (excluded == excluded_) return;
  excluded_ = excluded;
  unit_.set_paths(options_.rules.paths_without(excluded));
  usual_paths_ = PathCount(unit_.paths());
  for (std::uint32_t slot = 0; slot < used_ && !options_.rules.arrival_check; ++slot) {
    if (qp(slot).state().dest_qp == 0) continue;
    if (unit_.on_new_paths(qp(slot))) send_nack(context, slot, NackCounter::nacks_released);
  }
}

void NackFilterStage::release_all(Context& context) noexcept {
  for (std::uint32_t slot = 0; slot < used_; ++slot) {
    if (qp(slot).state().dest_qp != 0 && unit_.release(qp(slot))) {
      send_nack(context, slot, NackCounter::nacks_released);
    }
  }
}

// --- what receivers say ------------------------------------------------------------------------------------------

// False when the packet is a NACK that must not go on.
bool NackFilterStage::on_response(Context& context, rte_mbuf* m) noexcept {
  const PacketMeta& pm = pipeline::meta(m);
  const wire::Syndrome syndrome(pm.parsed.syndrome);
  const bool acknowledges = pm.parsed.opcode == static_cast<std::uint8_t>(wire::Opcode::RC_ACKNOWLEDGE);
  const bool nack = acknowledges && syndrome.is_sequence_nak();
  const std::uint32_t slot = slot_of_response(pm);
  if (nack) {
    count(NackCounter::nacks_seen);
    if (!on_nack(context, slot, m)) return false;
  }
  if (slot == kNone) return true;
  if ((qp(slot).state().flags & NackFlag::in_order) != 0) [[unlikely]]
    set_in_order_mark(pipeline::frame(m), pm.parsed, true);
  if (nack) return true;
  if (!acknowledges || syndrome.is_ack()) {
    unit_.on_receipt(qp(slot), pm.parsed.psn);
  } else if (syndrome.is_rnr_nak()) {
    unit_.on_not_ready(qp(slot), pm.parsed.psn);
  }
  return true;
}

bool NackFilterStage::on_nack(Context& context, std::uint32_t slot, rte_mbuf* m) noexcept {
  const PacketMeta& pm = pipeline::meta(m);
  const std::uint32_t bytes = std::uint32_t{pm.parsed.l3_offset} + pm.parsed.l3_length;
  if (slot == kNone || bytes > NackFrame::kMaxBytes || m->data_len < bytes ||
      !wire::icrc_ok(pipeline::frame(m), pm.parsed)) {
    count(NackCounter::nacks_unknown);
    return true;
  }
  Extra& e = extra(slot);
  ++e.nacks;
  const std::uint64_t down = draining_[pm.in_port] ? 0 : uplinks_down_;
  const bool was_in_order = (qp(slot).state().flags & NackFlag::in_order) != 0;
  const NackVerdict verdict = unit_.on_nack(qp(slot), context.now, pm.parsed.psn, msn_of(m), down);
  if (stops(verdict)) {
    count(NackCounter::nacks_blocked);
    ++e.blocked;
    if (verdict == NackVerdict::blocked) return false;
    e.in_port = pm.in_port;
    static_cast<void>(e.frame.become(pipeline::frame(m), pm.parsed));  // it fits: see above
    if (qp(slot).state().guard_at != 0) start_timer(context, slot);
    return false;
  }
  if (verdict == NackVerdict::valid) {
    count(NackCounter::nacks_valid);
    ++e.valid;
  } else if (verdict == NackVerdict::path_down) {
    count(NackCounter::nacks_path_down);
  } else if (verdict == NackVerdict::in_order) {
    count(NackCounter::nacks_in_order);
    if (!was_in_order) note_in_order(slot);
  } else {
    count(NackCounter::nacks_unknown);
    ++e.unknown;
  }
  return true;
}

// A response on its way to the sender, which is a host of this ToR.
void NackFilterStage::read_mark(rte_mbuf* m) noexcept {
  const PacketMeta& pm = pipeline::meta(m);
  set_in_order_mark(pipeline::frame(m), pm.parsed, false);
  const tables::QpEntry* entry = known_.entry(pm);
  if (entry != nullptr) known_.set_in_order(*entry);
}

void NackFilterStage::note_in_order(std::uint32_t slot) noexcept {
  count(NackCounter::receivers_in_order);
  set_warned(extra(slot), false);
}

void NackFilterStage::set_warned(Extra& e, bool warned) noexcept {
  warned_ += (warned ? 1 : 0) - (e.warned ? 1 : 0);
  e.warned = warned;
}

// The NACK acknowledges what came before the PSN that it asks for; as an ACK it says only that. Nothing is said about
// credits.
void NackFilterStage::make_ack(rte_mbuf* m) const noexcept {
  PacketMeta& pm = pipeline::meta(m);
  const std::uint32_t msn = msn_of(m);
  wire::RoceEditor editor(pipeline::frame(m), pm.parsed);
  editor.set_psn(pm.parsed.psn - 1);
  editor.set_aeth(wire::Syndrome::ack(), msn);
  editor.finish(icrc_mode_);
}

void NackFilterStage::send_nack(Context& context, std::uint32_t slot, NackCounter why) noexcept {
  NackState& s = qp(slot).state();
  Extra& e = extra(slot);
  if (!send_frame(context, s, e)) {
    count(NackCounter::no_buffer);
    s.flags |= NackFlag::pending;
    s.guard_at = context.now + kRetryNs;
    start_timer(context, slot);
    return;
  }
  count(why);
  e.compensated += why == NackCounter::compensated_packet ? 1 : 0;
  e.guard += why == NackCounter::compensated_guard ? 1 : 0;
  e.released += why == NackCounter::nacks_released ? 1 : 0;
}

// The blocked NACK goes on behind this stage. False when there is no buffer for it.
bool NackFilterStage::send_frame(Context& context, const NackState& s, const Extra& e) const noexcept {
  rte_mbuf* m = context.generate();
  if (m == nullptr) return false;
  auto* to = reinterpret_cast<std::uint8_t*>(rte_pktmbuf_append(m, static_cast<std::uint16_t>(e.frame.bytes())));
  e.frame.write(to, Psn(s.blocked), s.blocked_msn, icrc_mode_, pipeline::meta(m).parsed);
  pipeline::meta(m).in_port = e.in_port;
  context.resume(m);
  return true;
}

// --- time --------------------------------------------------------------------------------------------------------

// A blocked NACK for another PSN starts the guard anew. The timer of the guard before then stays where it is, because
// moving it with every NACK costs more than one call that comes too early: on_timer() puts it back.
void NackFilterStage::start_timer(Context& context, std::uint32_t slot) noexcept {
  const TimeNs before = timers_.next();
  timers_.arm(slot, qp(slot).state().guard_at);
  if (timers_.next() != before) context.at(deadline(0));
}

TimeNs NackFilterStage::deadline(std::uint32_t) const {
  const TimeNs drains = shared_.workers() > 1 && draining_count_ != 0 ? look_at_drains_ : kNever;
  return std::min(drains, timers_.next());
}

void NackFilterStage::on_timer(Context& context, std::uint32_t) {
  if (shared_.workers() > 1) {
    read_mail(context);
    if (draining_count_ != 0 && context.now >= look_at_drains_) release_drained(context);
  }
  while (timers_.next() <= context.now) {
    const std::uint32_t slot = timers_.pop();
    if (unit_.on_guard(qp(slot), context.now)) {
      send_nack(context, slot, NackCounter::compensated_guard);
      if ((qp(slot).state().flags & NackFlag::in_order) != 0) note_in_order(slot);
    } else if (qp(slot).state().guard_at != 0) {
      start_timer(context, slot);
    }
  }
  context.at(deadline(0));
}

// States hold uplinks by their place in the options, and no ports: those may have other numbers now.
void NackFilterStage::adopt(Context& context, Stage& old_stage, const pipeline::Adoption& adoption) {
  auto& old = dynamic_cast<NackFilterStage&>(old_stage);
  const bool same_table = &old.known_.tracker() == &known_.tracker();
  const bool same = adoption.same_options && same_table;
  for (std::uint32_t slot = 0; slot < old.used_; ++slot) {
    NackState& s = old.qp(slot).state();
    if (s.dest_qp == 0) continue;
    Extra& e = old.extra(slot);
    e.in_port = adoption.ports(e.in_port);
    const bool host_is_gone = e.in_port == pipeline::kNoPort;
    if (same && !host_is_gone) continue;
    const bool due = old.unit_.release(old.qp(slot)) && !host_is_gone;
    if (due) count(send_frame(context, s, e) ? NackCounter::nacks_released : NackCounter::no_buffer);
    if (same) continue;
    count(NackCounter::qps_active, ~std::uint64_t{0});
    s.dest_qp = 0;
  }
  if (!same) {
    began_anew_ = context.now;
    // Mail about packets that left before says nothing about states that have just begun.
    NackMail unread;
    for (std::uint16_t from = 0; from < shared_.workers(); ++from) {
      while (from != worker_ && shared_.pop(from, worker_, unread)) {
      }
    }
    return;
  }
  std::swap(slot_of_position_, old.slot_of_position_);
  std::swap(pages_, old.pages_);
  std::swap(memory_, old.memory_);
  std::swap(no_slot_state_, old.no_slot_state_);
  std::swap(used_, old.used_);
  std::swap(free_, old.free_);
  std::swap(timers_, old.timers_);
  std::swap(mail_lost_seen_, old.mail_lost_seen_);
  std::swap(warned_, old.warned_);
  excluded_ = old.excluded_;
  began_anew_ = old.began_anew_;
  unit_.set_paths(old.unit_.paths());
  usual_paths_ = old.usual_paths_;
}

pipeline::StageType nack_filter_stage_type() {
  pipeline::StageType type;
  type.name = "nack_filter";
  type.summary = "Stops the NACKs of hosts about packets that are not lost but late (Themis-D).";
  type.has_egress = true;
  type.wants_drops = true;
  type.needs = {"parsed", "qp"};
  type.before = {{"l2", "it judges NACKs before they are forwarded"},
                 {"l3", "it judges NACKs before they are forwarded"}};
  type.options = nack_options_schema();
  type.counters = {
#define WEFT_COUNTER(name, unit, kind, text) {#name, unit, pipeline::CounterKind::kind, text},
#include "switch/stages/nack_filter/counters.def"
#undef WEFT_COUNTER
  };
  type.drops = {NackDrop::block()};
  type.check = check_nack_options;
  type.set = [](const config::Value& options, const pipeline::SwitchInfo& info, const std::vector<std::string>& words,
                std::uint16_t /*workers*/) {
    return pipeline::set_by_words("nack_filter", nack_options_schema(), check_nack_options, options, info, words);
  };
  type.make_shared = [](const pipeline::StageBuild& build) { return std::make_unique<NackFilterShared>(build); };
  type.make = [](const pipeline::StageBuild& build, pipeline::StageShared* shared) {
    return std::make_unique<NackFilterStage>(build, dynamic_cast<NackFilterShared&>(*shared));
  };
  return type;
}

}  // namespace weft::stages
