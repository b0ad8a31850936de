// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/pipeline/pipeline.h"

#include <rte_cycles.h>
#include <rte_prefetch.h>

#include <algorithm>
#include <cassert>

#include "switch/pipeline/pool.h"

namespace weft::pipeline {
namespace {

// Marks a packet handed to the owner of its egress port: all ingress stages are behind it.
constexpr std::uint8_t kToEgress = 0xff;

constexpr std::uint16_t kTxBurst = 32;

// Stages report counters; these do the same for both halves.
void count(StageTotals& totals, std::uint16_t packets, std::uint64_t cycles) noexcept {
  totals.packets.add(packets);
  totals.bursts.add(1);
  totals.cycles.add(cycles);
}

}  // namespace

Pipeline::Pipeline(SwitchState& state, PipelineHost host)
    : state_(state),
      host_(std::move(host)),
      rng_(host_.seed + 0x9e37 * host_.worker),
      slot_count_(state.info().pipeline.size()),
      slots_(std::make_unique<Slot[]>(slot_count_)),
      port_totals_(std::make_unique<PortTotals[]>(state.info().ports.size())) {
  const SwitchInfo& info = state_.info();
  for (std::size_t i = 0; i < slot_count_; ++i) {
    const StageBuild build{info.pipeline[i].options, info, host_.worker, state_.workers(),
                           [this](std::string_view name) { return state_.shared(name); }, state_.steer_table()};
    const StageType& type = *state_.types()[i];
    slots_[i].stage = type.make(build, state_.shared(i));
    if (type.has_egress) egress_stages_.push_back(static_cast<std::uint8_t>(i));
    if (type.wants_drops) drop_listeners_.push_back(static_cast<std::uint8_t>(i));
  }
  for (const PortInfo& port : info.ports) {
    max_frame_.push_back(port.max_frame_bytes());
    const bool mine = state_.owner_of_port(port.index) == host_.worker;
    egress_.push_back(mine ? std::make_unique<EgressQueue>(port.queue_packets, port.rate_mbps, port.delay_ns)
                           : nullptr);
  }
}

Pipeline::~Pipeline() = default;

std::uint64_t Pipeline::cycles() const noexcept { return host_.meter ? rte_rdtsc() : 0; }

// --- reception and the ingress half -----------------------------------------------------------------------------

void Pipeline::receive(TimeNs now, PortIndex port, rte_mbuf** packets, std::uint16_t count_in) noexcept {
  now_ = now;
  Batch batch;
  std::uint64_t bytes = 0;
  for (std::uint16_t i = 0; i < count_in; ++i) {
    rte_mbuf* m = packets[i];
    PacketMeta& pm = meta(m);
    pm.in_port = port;
    pm.out_port = kNoPort;
    pm.switch_index = state_.info().index;
    pm.qp_handle = 0;
    pm.queue_class = 0;
    pm.time = now;
    bytes += m->pkt_len;
    batch.push(m);
  }
  totals_.rx.add(count_in);
  totals_.rx_bytes.add(bytes);
  port_totals_[port].rx.add(count_in);
  port_totals_[port].rx_bytes.add(bytes);
  run_ingress(now, batch, 0);
}

void Pipeline::run_ingress(TimeNs now, Batch& batch, std::size_t first) noexcept {
  std::uint64_t before = cycles();
  for (std::size_t i = first; i < slot_count_ && batch.size != 0; ++i) {
    Slot& slot = slots_[i];
    const std::uint16_t entered = batch.size;
    Context context(now, host_.worker, rng_, *this, static_cast<std::uint8_t>(i));
    slot.stage->ingress(context, batch);
    if (batch.removed != 0) batch.compact();
    if (i == 0 && host_.handoff != nullptr) steer(batch);
    const std::uint64_t after = cycles();
    count(slot.ingress, entered, after - before);
    before = after;
    // What the stage resumed goes behind what it left in the batch.
    if (slot.resumed.size != 0) {
      if (batch.size + slot.resumed.size > Batch::kCapacity) {
        if (batch.size != 0) {
          run_ingress(now, batch, i + 1);
          batch.size = 0;
        }
        run_resumed(now, i);
        return;
      }
      for (std::uint16_t k = 0; k < slot.resumed.size; ++k) batch.push(slot.resumed.packet[k]);
      slot.resumed.size = 0;
    }
  }
  if (batch.size != 0) admit(now, batch);
}

void Pipeline::run_resumed(TimeNs now, std::size_t stage) noexcept {
  if (slots_[stage].resumed.size == 0) return;
  Batch batch = slots_[stage].resumed;
  slots_[stage].resumed.size = 0;
  run_ingress(now, batch, stage + 1);
}

void Pipeline::steer(Batch& batch) noexcept {
  for (std::uint16_t i = 0; i < batch.size; ++i) {
    const std::uint16_t owner = state_.owner_of(meta(batch.packet[i]).parsed);
    if (owner == host_.worker) continue;
    batch.remove(i);
    if (!hand_over(owner, batch.packet[i], 1)) drop(now_, batch.packet[i], DropReason::handoff_full);
  }
  if (batch.removed != 0) batch.compact();
}

bool Pipeline::hand_over(std::uint16_t worker, rte_mbuf* m, std::uint8_t stage) noexcept {
  meta(m).stage = stage;
  if (!host_.handoff->push(worker, m)) return false;
  totals_.handed_out.add(1);
  return true;
}

void Pipeline::take_handoff(TimeNs now, rte_mbuf** packets, std::uint16_t count_in) noexcept {
  now_ = now;
  totals_.handed_in.add(count_in);
  Batch batch;
  std::uint8_t at = 0;
  for (std::uint16_t i = 0; i < count_in; ++i) {
    rte_mbuf* m = packets[i];
    if (meta(m).stage == kToEgress) {
      admit_one(now, m);
      continue;
    }
    if (batch.size != 0 && (meta(m).stage != at || batch.full())) {
      run_ingress(now, batch, at);
      batch.size = 0;
    }
    at = meta(m).stage;
    batch.push(m);
  }
  if (batch.size != 0) run_ingress(now, batch, at);
}

// --- admission ---------------------------------------------------------------------------------------------------

void Pipeline::admit(TimeNs now, Batch& batch) noexcept {
  const std::uint64_t before = cycles();
  for (std::uint16_t i = 0; i < batch.size; ++i) admit_one(now, batch.packet[i]);
  count(admission_, batch.size, cycles() - before);
}

void Pipeline::admit_one(TimeNs now, rte_mbuf* m) noexcept {
  const PortIndex out = meta(m).out_port;
  if (out >= egress_.size()) return drop(now, m, DropReason::no_egress);
  EgressQueue* queue = egress_[out].get();
  if (queue == nullptr) {
    if (!hand_over(state_.owner_of_port(out), m, kToEgress)) drop(now, m, DropReason::handoff_full);
    return;
  }
  if (m->pkt_len > max_frame_[out]) [[unlikely]] return drop(now, m, DropReason::egress_mtu);
  if (!state_.link_up(out)) [[unlikely]] return drop(now, m, DropReason::egress_down);
  if (!queue->push(now, m)) [[unlikely]] {
    port_totals_[out].dropped.add(1);
    drop(now, m, DropReason::egress_queue_full);
  }
}

// --- the egress half ---------------------------------------------------------------------------------------------

std::uint32_t Pipeline::serve_port(TimeNs now, PortIndex port) noexcept {
  now_ = now;
  EgressQueue& queue = *egress_[port];
  if (queue.held() == 0) return 0;
  if (!state_.link_up(port)) [[unlikely]] return drain_port(port, DropReason::egress_down);
  return queue.direct() && queue.line_empty() ? serve_direct(now, port) : serve_emulated(now, port);
}

std::uint32_t Pipeline::serve_direct(TimeNs now, PortIndex port) noexcept {
  EgressQueue& queue = *egress_[port];
  Batch batch;
  TimeNs sent_at = now;
  while (batch.size < kTxBurst) {
    rte_mbuf* m = queue.pop(now, sent_at);
    if (m == nullptr) break;
    batch.push(m);
  }
  const std::uint32_t taken = batch.size;
  run_egress(now, port, batch);
  const std::uint64_t before = cycles();
  const std::uint16_t sent = send_to_device(port, batch.packet, batch.size);
  count(tx_, sent, cycles() - before);
  // What the busy device left has been through the egress half already: it waits in the line, not in the FIFO.
  for (std::uint16_t i = sent; i < batch.size; ++i) queue.line_push(batch.packet[i], now);
  return taken;
}

std::uint32_t Pipeline::serve_emulated(TimeNs now, PortIndex port) noexcept {
  EgressQueue& queue = *egress_[port];
  std::uint32_t progress = 0;
  if (queue.line_has_room(kTxBurst)) {
    Batch batch;
    TimeNs sent_at[kTxBurst];
    while (batch.size < kTxBurst) {
      rte_mbuf* m = queue.pop(now, sent_at[batch.size]);
      if (m == nullptr) break;
      meta(m).time = sent_at[batch.size];
      batch.push(m);
    }
    progress += batch.size;
    if (batch.size != 0) run_egress(now, port, batch);
    for (std::uint16_t i = 0; i < batch.size; ++i) queue.line_push(batch.packet[i], meta(batch.packet[i]).time);
  }
  rte_mbuf* due[kTxBurst];
  const std::uint16_t ready = queue.line_due(now, due, kTxBurst);
  if (ready != 0) {
    const std::uint64_t before = cycles();
    const std::uint16_t sent = send_to_device(port, due, ready);
    queue.line_pop(sent);
    count(tx_, sent, cycles() - before);
    progress += sent;
  }
  return progress;
}

void Pipeline::run_egress(TimeNs now, PortIndex port, Batch& batch) noexcept {
  for (const std::uint8_t i : egress_stages_) {
    if (batch.size == 0) return;
    const std::uint64_t before = cycles();
    const std::uint16_t entered = batch.size;
    Context context(now, host_.worker, rng_, *this, i);
    slots_[i].stage->egress(context, port, batch);
    if (batch.removed != 0) batch.compact();
    count(slots_[i].egress, entered, cycles() - before);
  }
}

std::uint16_t Pipeline::send_to_device(PortIndex port, rte_mbuf** packets, std::uint16_t count_in) noexcept {
  std::uint32_t length[kTxBurst];
  for (std::uint16_t i = 0; i < count_in; ++i) length[i] = packets[i]->pkt_len;
  const TxResult result = host_.ports[port]->transmit(packets, count_in);
  std::uint64_t bytes = 0;
  for (std::uint16_t i = 0; i < result.taken; ++i) bytes += length[i];
  if (result.rejected != 0) [[unlikely]] {
    totals_.dropped[static_cast<std::size_t>(DropReason::tx_failed)].add(result.rejected);
    port_totals_[port].dropped.add(result.rejected);
    bytes -= result.rejected_bytes;
  }
  const std::uint64_t sent = result.taken - result.rejected;
  totals_.tx.add(sent);
  totals_.tx_bytes.add(bytes);
  port_totals_[port].tx.add(sent);
  port_totals_[port].tx_bytes.add(bytes);
  return result.taken;
}

// --- time --------------------------------------------------------------------------------------------------------

void Pipeline::run_timers(TimeNs now) noexcept {
  now_ = now;
  for (std::size_t i = 0; i < slot_count_; ++i) {
    if (slots_[i].stage->next_deadline() > now) continue;
    Context context(now, host_.worker, rng_, *this, static_cast<std::uint8_t>(i));
    slots_[i].stage->on_timer(context);
    run_resumed(now, i);
  }
}

TimeNs Pipeline::port_deadline(PortIndex port) const noexcept {
  return egress_[port] ? egress_[port]->next_deadline() : kNever;
}

TimeNs Pipeline::next_deadline() const noexcept {
  TimeNs next = kNever;
  for (std::size_t i = 0; i < slot_count_; ++i) next = std::min(next, slots_[i].stage->next_deadline());
  for (const auto& queue : egress_) {
    if (queue) next = std::min(next, queue->next_deadline());
  }
  return next;
}

void Pipeline::flush_stages(TimeNs now) noexcept {
  now_ = now;
  for (std::size_t i = 0; i < slot_count_; ++i) {
    Context context(now, host_.worker, rng_, *this, static_cast<std::uint8_t>(i));
    slots_[i].stage->flush(context);
    run_resumed(now, i);
  }
}

std::uint32_t Pipeline::drain_port(PortIndex port, DropReason reason) noexcept {
  std::uint32_t count = 0;
  while (rte_mbuf* m = egress_[port]->take_any()) {
    drop(now_, m, reason);
    ++count;
  }
  port_totals_[port].dropped.add(count);
  return count;
}

void Pipeline::drop_queued() noexcept {
  for (std::size_t port = 0; port < egress_.size(); ++port) {
    if (egress_[port]) drain_port(static_cast<PortIndex>(port), DropReason::shutdown);
  }
}

std::uint64_t Pipeline::held() const noexcept {
  std::uint64_t total = 0;
  for (std::size_t i = 0; i < slot_count_; ++i) total += slots_[i].stage->held() + slots_[i].resumed.size;
  for (const auto& queue : egress_) {
    if (queue) total += queue->held();
  }
  return total;
}

void Pipeline::drop(TimeNs now, rte_mbuf* m, DropReason reason) noexcept {
  totals_.dropped[static_cast<std::size_t>(reason)].add(1);
  for (const std::uint8_t i : drop_listeners_) {
    Context context(now, host_.worker, rng_, *this, i);
    slots_[i].stage->on_drop(context, m, reason);
  }
  rte_pktmbuf_free(m);
}

// --- what stages may do ------------------------------------------------------------------------------------------

void Context::drop(rte_mbuf* m, DropReason reason) noexcept { pipeline_.drop(now, m, reason); }

void Context::consume(rte_mbuf* m) noexcept {
  pipeline_.totals_.consumed.add(1);
  rte_pktmbuf_free(m);
}

rte_mbuf* Context::generate() noexcept {
  rte_mbuf* m = rte_pktmbuf_alloc(pipeline_.host_.pool);
  if (m == nullptr) return nullptr;
  meta(m) = PacketMeta{};
  meta(m).in_port = kNoPort;
  meta(m).out_port = kNoPort;
  meta(m).switch_index = pipeline_.state_.info().index;
  meta(m).time = now;
  pipeline_.totals_.generated.add(1);
  return m;
}

rte_mbuf* Context::replicate(rte_mbuf* m) noexcept {
  rte_mbuf* copy = weft::pipeline::replicate(pipeline_.host_.pool, m);
  if (copy != nullptr) pipeline_.totals_.replicated.add(1);
  return copy;
}

void Context::send(rte_mbuf* m, PortIndex out) noexcept {
  meta(m).out_port = out;
  pipeline_.admit_one(now, m);
}

void Context::resume(rte_mbuf* m) noexcept {
  Batch& resumed = pipeline_.slots_[stage_].resumed;
  if (resumed.full()) pipeline_.run_resumed(now, stage_);
  resumed.push(m);
}

bool Context::link_up(PortIndex port) const noexcept { return pipeline_.state_.link_up(port); }

}  // namespace weft::pipeline
