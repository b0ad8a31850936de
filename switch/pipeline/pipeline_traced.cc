// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Running bursts while some packets are traced. A traced packet goes through each stage alone, so that what the stage
// did and counted meanwhile is about this packet. Its cycles are not metered: they would be those of a burst of one.
#include <algorithm>
#include <utility>

#include "switch/pipeline/pipeline.h"

namespace weft::pipeline {

bool Pipeline::add_tap(Tap& tap) noexcept {
  if (tap_count_ == kMaxTaps) return false;
  // Those that see traffic are the first.
  taps_[tap_count_++] = &tap;
  if (tap.sees_traffic()) std::swap(taps_[tap_count_ - 1], taps_[traffic_taps_++]);
  return true;
}

void Pipeline::remove_tap(const Tap& tap) noexcept {
  const auto end = std::remove(taps_.begin(), taps_.begin() + static_cast<std::ptrdiff_t>(tap_count_), &tap);
  tap_count_ = static_cast<std::size_t>(end - taps_.begin());
  traffic_taps_ =
      static_cast<std::size_t>(std::count_if(taps_.begin(), end, [](const Tap* each) { return each->sees_traffic(); }));
}

/// What there was before a stage ran, to tell afterwards what it did.
struct Pipeline::TraceBefore {
  static constexpr std::size_t kCounters = 64;

  TraceBefore(const Pipeline& p, std::size_t position, rte_mbuf* traced) noexcept
      : packet(traced),
        out(meta(traced).out_port),
        group(meta(traced).next_hop),
        consumed(p.totals_.consumed.value()),
        replicated(p.totals_.replicated.value()),
        generated(p.totals_.generated.value()),
        stage(*p.slots_[position].stage),
        held(stage.held()) {
    const auto counters = stage.counters();
    for (std::size_t i = 0; i < std::min(counters.size(), kCounters); ++i) value[i] = counters[i].value();
  }

  /// Bit i: counter i went up.
  [[nodiscard]] std::uint64_t counted() const noexcept {
    std::uint64_t bits = 0;
    const auto counters = stage.counters();
    for (std::size_t i = 0; i < std::min(counters.size(), kCounters); ++i) {
      if (counters[i].value() != value[i]) bits |= std::uint64_t{1} << i;
    }
    return bits;
  }

  rte_mbuf* packet;
  PortIndex out;
  std::uint32_t group;
  std::uint64_t consumed, replicated, generated;
  const Stage& stage;
  std::size_t held;
  std::uint64_t value[kCounters];
};

// Keeps the order of the burst: packets between traced ones go together.
void Pipeline::run_ingress_traced(TimeNs now, Batch& batch, std::size_t first) noexcept {
  Batch part;
  for (std::uint16_t i = 0; i < batch.size; ++i) {
    rte_mbuf* m = batch.packet[i];
    const int handle = tracer_->find(m);
    if (handle == Tracer::kNone) {
      part.push(m);
      continue;
    }
    if (part.size != 0) run_stages(now, part, first);
    part = {};
    run_traced_packet(now, m, handle, first);
  }
  if (part.size != 0) run_stages(now, part, first);
}

void Pipeline::run_traced_packet(TimeNs now, rte_mbuf* m, int handle, std::size_t first) noexcept {
  Batch batch;
  batch.push(m);
  TraceEvent event{.time = now, .switch_index = state_.info().index, .worker = host_.worker};
  for (std::size_t i = first; i < slot_count_ && batch.size != 0; ++i) {
    Slot& slot = slots_[i];
    event.place = {static_cast<std::uint8_t>(i), false};
    tracer_->enter(handle, event.place);
    const TraceBefore before(*this, i, batch.packet[0]);
    Context context(now, host_.worker, rng_, *this, static_cast<std::uint8_t>(i));
    event.reason = {};
    context.set_traced(event.reason);
    batch.departs = false;
    slot.stage->ingress(context, batch);
    if (batch.removed != 0) batch.compact();
    slot.ingress.packets.add(1);
    slot.ingress.bursts.add(1);
    judge(handle, before, batch, event);
    if (slot.resumed.count != 0) {
      take_resumed(now, i, batch);
      return run_ingress_traced(now, batch, i + 1);
    }
    if (i != 0 || host_.handoff == nullptr || batch.size == 0) continue;
    const std::uint16_t owner = state_.owner_of(meta(batch.packet[0]).parsed);
    if (owner == host_.worker) continue;
    // Noted first: afterwards the packet is the other worker's.
    event.verdict = TraceVerdict::handed_over;
    event.detail = owner;
    event.reason = {};
    tracer_->note(handle, event);
    steer(now, batch);
  }
  if (batch.size != 0) admit_traced(now, batch, handle);
}

// What a stage did to the packet that it had alone. Drops have been noted when they happened.
void Pipeline::judge(int handle, const TraceBefore& before, const Batch& batch, TraceEvent event) noexcept {
  if (!tracer_->open(handle)) return;
  event.counted = before.counted();
  event.copies = static_cast<std::uint16_t>(totals_.replicated.value() - before.replicated);
  event.generated = static_cast<std::uint16_t>(totals_.generated.value() - before.generated);
  const Resumed& resumed = slots_[event.place.stage].resumed;
  rte_mbuf* m = batch.size != 0 ? batch.packet[0] : nullptr;
  if (m == nullptr && resumed.count != 0) {
    rte_mbuf* at = resumed.first;
    for (std::uint32_t i = 0; i < resumed.count && m == nullptr; ++i) {
      if (at == before.packet) m = at;
      if (at != resumed.last) at = reinterpret_cast<rte_mbuf*>(scratch(at));
    }
  }
  if (m != nullptr) {
    if (m != before.packet) tracer_->moved(handle, m);
    const PacketMeta& pm = meta(m);
    event.verdict = TraceVerdict::passed;
    if (pm.out_port == kGroupPort && (before.out != kGroupPort || pm.next_hop != before.group)) {
      event.verdict = TraceVerdict::grouped;
      event.detail = pm.next_hop;
    } else if (pm.out_port != before.out) {
      event.verdict = TraceVerdict::forwarded;
      event.port = pm.out_port;
    }
  } else if (totals_.consumed.value() != before.consumed) {
    event.verdict = TraceVerdict::consumed;
  } else if (before.stage.held() > before.held) {
    event.verdict = TraceVerdict::held;
  } else {
    event.verdict = TraceVerdict::dispatched;
  }
  tracer_->note(handle, event);
  if (event.verdict == TraceVerdict::consumed) tracer_->close(handle);
}

void Pipeline::admit_traced(TimeNs now, Batch& batch, int handle) noexcept {
  const PortIndex out = meta(batch.packet[0]).out_port;
  TraceEvent event{.time = now, .port = out, .switch_index = state_.info().index, .worker = host_.worker};
  event.place = {TracePlace::kAdmission, false};
  tracer_->enter(handle, event.place);
  const bool known = out < egress_.size();
  if (known && egress_[out] == nullptr) {
    event.verdict = TraceVerdict::handed_over;
    event.detail = state_.owner_of_port(out);
    tracer_->note(handle, event);
    return admit(now, batch, cycles());
  }
  if (known) event.detail = queue_depth(out);
  admit(now, batch, cycles());
  if (!tracer_->open(handle)) return;
  event.verdict = TraceVerdict::queued;
  tracer_->note(handle, event);
}

void Pipeline::run_egress_traced(TimeNs now, PortIndex port, Batch& batch) noexcept {
  for (const std::uint8_t i : egress_stages_) {
    if (batch.size == 0) break;
    const std::uint16_t entered = batch.size;
    TraceEvent event{.time = now, .port = port, .switch_index = state_.info().index, .worker = host_.worker};
    event.place = {i, true};
    int handle[Batch::kCapacity];
    rte_mbuf* packet[Batch::kCapacity];
    std::uint16_t traced = 0;
    for (std::uint16_t k = 0; k < entered; ++k) {
      packet[traced] = batch.packet[k];
      handle[traced] = tracer_->find(batch.packet[k]);
      if (handle[traced] == Tracer::kNone) continue;
      tracer_->enter(handle[traced++], event.place);
    }
    Context context(now, host_.worker, rng_, *this, i, true);
    slots_[i].stage->egress(context, port, batch);
    if (batch.removed != 0) batch.compact();
    slots_[i].egress.packets.add(entered);
    slots_[i].egress.bursts.add(1);
    for (std::uint16_t k = 0; k < traced; ++k) {
      if (!tracer_->open(handle[k])) continue;
      const bool there = std::find(batch.packet, batch.packet + batch.size, packet[k]) != batch.packet + batch.size;
      event.verdict = there ? TraceVerdict::passed : TraceVerdict::lost_sight;
      tracer_->note(handle[k], event);
      if (!there) tracer_->close(handle[k]);
    }
  }
}

}  // namespace weft::pipeline
