// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// How a pipeline replaces an older one of the same switch after a reload.
#include <cassert>
#include <utility>

#include "switch/pipeline/pipeline.h"

namespace weft::pipeline {
namespace {

void carry(StageTotals& to, const StageTotals& from) noexcept {
  to.packets.carry(from.packets);
  to.bursts.carry(from.bursts);
  to.cycles.carry(from.cycles);
}

void carry(PortTotals& to, const PortTotals& from) noexcept {
  to.rx.carry(from.rx);
  to.rx_bytes.carry(from.rx_bytes);
  to.tx.carry(from.tx);
  to.tx_bytes.carry(from.tx_bytes);
  to.dropped.carry(from.dropped);
  for (std::size_t i = 0; i < to.in_dropped.size(); ++i) to.in_dropped[i].carry(from.in_dropped[i]);
}

void carry(FlowTotals& to, const FlowTotals& from) noexcept {
  for (Counter FlowTotals::*counter :
       {&FlowTotals::rx, &FlowTotals::rx_bytes, &FlowTotals::generated, &FlowTotals::replicated, &FlowTotals::tx,
        &FlowTotals::tx_bytes, &FlowTotals::consumed, &FlowTotals::handed_in, &FlowTotals::handed_out}) {
    (to.*counter).carry(from.*counter);
  }
  for (std::size_t i = 0; i < to.dropped.size(); ++i) to.dropped[i].carry(from.dropped[i]);
}

// Stages expose their counters as const, because only they may count. No worker runs now and the object itself is not
// const, so that the cast is safe.
void carry(Stage& to, const Stage& from) noexcept {
  const auto counters = to.counters();
  for (std::size_t i = 0; i < counters.size(); ++i) const_cast<Counter&>(counters[i]).carry(from.counters()[i]);
}

}  // namespace

void Pipeline::adopt(TimeNs now, Pipeline& old, const PortMap& ports) {
  rng_ = old.rng_;
  adopting_ = true;
  // Captures and traces that look at the old pipeline look at this one from now on.
  taps_ = old.taps_;
  tap_count_ = old.tap_count_;
  traffic_taps_ = old.traffic_taps_;
  tracer_ = old.tracer_;
  for (std::size_t i = 0; i < tap_count_ && !ports.identity(); ++i) taps_[i]->ports_renamed(ports);
  adopt_counters(old, ports);
  adopt_queues(now, old, ports);
  adopt_outbox(now, old, ports);
  charge_held(old);
  adopt_stages(now, old, ports);
  adopt_rest(now, old, ports);
  adopting_ = false;
  list_mail_takers();
  for (std::size_t i = 0; i < slot_count_; ++i) ask_deadlines(i);
}

void Pipeline::adopt_counters(const Pipeline& old, const PortMap& ports) {
  carry(totals_, old.totals_);
  carry(admission_, old.admission_);
  carry(tx_, old.tx_);
  for (std::size_t port = 0; port < ports.size(); ++port) {
    const PortIndex to = ports(static_cast<PortIndex>(port));
    if (to == kNoPort) continue;
    carry(port_totals_[to], old.port_totals_[port]);
    for (unsigned queue = 0; queue < residence_queues_; ++queue) {
      residence_[to * residence_queues_ + queue].carry(*old.residence(static_cast<PortIndex>(port), queue));
    }
  }
  for (std::size_t i = 0; i < slot_count_; ++i) {
    const auto before = old.state_.position(state_.types()[i]->name);
    if (!before) continue;
    carry(slots_[i].ingress, old.slots_[*before].ingress);
    carry(slots_[i].egress, old.slots_[*before].egress);
    if (!state_.kept(i)) carry(*slots_[i].stage, *old.slots_[*before].stage);
  }
}

// Another worker sends through the port from now on.
void Pipeline::hand_over_queue(TimeNs now, PortIndex port, EgressQueue& queue) noexcept {
  while (rte_mbuf* m = queue.take_any()) {
    meta(m).out_port = port;
    hand_over(now, state_.owner_of_port(port), m, kToEgress);
  }
}

void Pipeline::leave_to_owner(TimeNs now, PortIndex port) noexcept {
  if (egress_[port] == nullptr || state_.owner_of_port(port) == host_.worker) return;
  hand_over_queue(now, port, *egress_[port]);
  tell_port(now, port);
  egress_[port].reset();
  set_gates();
  settle(now);
}

// A port keeps its owner. Whether other workers send through it too may change.
void Pipeline::adopt_queues(TimeNs now, Pipeline& old, const PortMap& ports) {
  for (std::size_t port = 0; port < ports.size(); ++port) {
    const PortIndex to = ports(static_cast<PortIndex>(port));
    auto& from = old.egress_[port];
    if (!from || to == kNoPort) continue;
    if (!egress_[to]) {
      from->for_each([&](rte_mbuf* m) { meta(m).in_port = ports(meta(m).in_port); });
      hand_over_queue(now, to, *from);
      continue;
    }
    const PortInfo& was = old.state_.info().ports[port];
    const PortInfo& is = state_.info().ports[to];
    if (was.queue_packets == is.queue_packets && was.rate_mbps == is.rate_mbps && was.delay_ns == is.delay_ns &&
        was.framing == is.framing) {
      std::swap(egress_[to], from);
    } else {
      egress_[to]->adopt(*from);
      while (rte_mbuf* m = from->take_any()) drop_at_port(now, to, m, DropReason::egress_queue_full);
    }
    if (qos_ != nullptr) adopt_classes(now, old, ports, static_cast<PortIndex>(port), to);
    if (ports.identity()) continue;
    // Where it came from does not matter any more, so that port may be gone.
    egress_[to]->for_each([&](rte_mbuf* m) {
      meta(m).in_port = ports(meta(m).in_port);
      meta(m).out_port = to;
    });
  }
  set_gates();
}

void Pipeline::exchange_wire(TimeNs now, PortIndex port, std::unique_ptr<EgressQueue>& wire) noexcept {
  wire->adopt(*egress_[port]);
  std::swap(egress_[port], wire);
  while (rte_mbuf* m = wire->take_any()) drop_at_port(now, port, m, DropReason::egress_queue_full);
  set_gates();
  settle(now);
}

void Pipeline::exchange_stage(TimeNs now, std::size_t i, std::shared_ptr<Stage>& stage, const PortMap& ports) noexcept {
  assert(slots_[i].stage->held() == 0 && stage->timers() == slots_[i].stage->timers());
  carry(*stage, *slots_[i].stage);
  std::swap(slots_[i].stage, stage);
  Context context(now, host_.worker, rng_, *this, static_cast<std::uint8_t>(i));
  slots_[i].stage->adopt(context, *stage, {ports, false});
  slots_[i].stage->on_links(context);
  list_mail_takers();
  ask_deadlines(i);
  settle(now);
}

void Pipeline::adopt_stages(TimeNs now, Pipeline& old, const PortMap& ports) {
  for (std::size_t i = 0; i < slot_count_; ++i) {
    const auto before = old.state_.position(state_.types()[i]->name);
    if (!before) continue;
    const bool same = config::equal(state_.info().pipeline[i].options, old.state_.info().pipeline[*before].options);
    if (state_.kept(i)) {
      if (!same) state_.types()[i]->update(*slots_[i].stage, state_.build_of(i, host_.worker));
      continue;
    }
    Context context(now, host_.worker, rng_, *this, static_cast<std::uint8_t>(i));
    slots_[i].stage->adopt(context, *old.slots_[*before].stage, {ports, same});
  }
  run_all_resumed(now);
}

// Packets that found no room in a ring to another worker still wait for it.
void Pipeline::adopt_outbox(TimeNs now, Pipeline& old, const PortMap& ports) {
  if (old.outbox_ == nullptr) return;
  old.outbox_->drain([&](std::uint16_t worker, rte_mbuf* m) {
    const Half half = meta(m).stage == kToEgress ? Half::egress : Half::ingress;
    if (!ports.rename(m)) return drop(now, m, DropReason::port_removed, half);
    keep_handoff(m);
    if (!outbox_->push(worker, m)) drop(now, m, DropReason::handoff_full, half);
  });
}

// What stages hold takes room of the new packet memory, before any of them lets a packet go on, which gives it back.
void Pipeline::charge_held(const Pipeline& old) {
  if (qos_ == nullptr) return;
  for (std::size_t i = 0; i < old.slot_count_; ++i) {
    old.slots_[i].stage->for_each_charged([this](rte_mbuf* m) { charge_group(m); });
  }
}

// A packet whose stage is gone continues behind the last earlier stage that both pipelines have. A packet to a port
// that is gone is dropped.
void Pipeline::adopt_rest(TimeNs now, Pipeline& old, const PortMap& ports) {
  std::size_t behind = 0;
  for (std::size_t i = 0; i < old.slot_count_; ++i) {
    const auto at = state_.position(old.state_.types()[i]->name);
    behind = at.value_or(behind);
    if ((at && state_.kept(*at)) || old.slots_[i].stage->held() == 0) continue;
    Context context(now, host_.worker, rng_, *this, static_cast<std::uint8_t>(behind));
    old.slots_[i].stage->flush(context);
    Resumed resumed = std::exchange(slots_[behind].resumed, {});
    resumed_count_ -= resumed.count;
    while (resumed.count-- != 0) {
      rte_mbuf* m = resumed.first;
      resumed.first = reinterpret_cast<rte_mbuf*>(scratch(m));
      if (ports.rename(m)) {
        resume(behind, m);
      } else {
        drop(now, m, DropReason::port_removed, Half::ingress);
      }
    }
    run_all_resumed(now);
  }
  for (PortIndex port = 0; port < old.egress_.size(); ++port) {
    while (rte_mbuf* m = old.take_from_port(port)) drop(now, m, DropReason::port_removed, Half::egress);
  }
  settle(now);
}

void Pipeline::refuse_handoff(TimeNs now, rte_mbuf* m, DropReason reason) noexcept {
  totals_.handed_in.add(1);
  drop(now, m, reason, Half::ingress);
}

}  // namespace weft::pipeline
