// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/pipeline/pipeline.h"

#include <emmintrin.h>
#include <rte_cycles.h>
#include <rte_prefetch.h>

#include <algorithm>
#include <bit>
#include <cassert>

#include "switch/pipeline/class_queues.h"

namespace weft::pipeline {
namespace {

constexpr std::uint16_t kTxBurst = EgressQueue::kBurst;

// Stages report counters; these do the same for both halves.
void count(StageTotals& totals, std::uint16_t packets, std::uint64_t cycles) noexcept {
  totals.packets.add(packets);
  totals.bursts.add(1);
  totals.cycles.add(cycles);
}

std::uint64_t bytes_of(rte_mbuf* const* packets, std::uint32_t count) noexcept {
  std::uint64_t bytes = 0;
  for (std::uint32_t i = 0; i < count; ++i) bytes += packets[i]->pkt_len;
  return bytes;
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
  if (host_.buffers == 0 && host_.pool != nullptr) host_.buffers = host_.pool->size;
  for (std::size_t i = 0; i < slot_count_; ++i) {
    const StageType& type = *state_.types()[i];
    const auto kept = state_.kept(i);
    slots_[i].stage =
        kept ? host_.previous->slots_[*kept].stage : type.make(state_.build_of(i, host_.worker), state_.shared(i));
    if (type.has_egress) egress_stages_.push_back(static_cast<std::uint8_t>(i));
    if (type.wants_drops) drop_listeners_.push_back(static_cast<std::uint8_t>(i));
  }
  make_timers();
  for (const PortInfo& port : info.ports) {
    max_frame_.push_back(port.max_frame_bytes());
    const bool mine = state_.owner_of_port(port.index) == host_.worker || state_.tx_per_worker(port.index);
    egress_.push_back(
        mine ? std::make_unique<EgressQueue>(port.queue_packets, port.rate_mbps, port.delay_ns, port.framing)
             : nullptr);
  }
  gates_.resize(egress_.size() + 1);
  set_gates();
  if (state_.links().all_paths_up()) stages_generation_ = gates_generation_;
  if (info.qos) make_qos();
  if (host_.clock != nullptr) {
    residence_queues_ = info.qos ? qos::kClasses : 1;
    residence_ = std::make_unique<Residence[]>(info.ports.size() * residence_queues_);
  }
  if (host_.handoff == nullptr) return;
  outbox_ = std::make_unique<Outbox>(state_.workers(), host_.buffers);
  outbox_most_ = host_.buffers / state_.workers();
}

Pipeline::~Pipeline() = default;

// Of packets that are offered to a device: a device that takes them may free them.
struct Pipeline::Sample {
  TimeNs arrived[Batch::kCapacity];
  std::uint8_t queue[Batch::kCapacity];
};

void Pipeline::take_sample(rte_mbuf* const* packets, std::uint16_t count_in, Sample& sample) const noexcept {
  for (std::uint16_t i = 0; i < count_in; ++i) {
    const PacketMeta& pm = meta(packets[i]);
    sample.arrived[i] = pm.arrived;
    sample.queue[i] = qos_ != nullptr ? pm.queue_class % qos::kClasses : 0;
  }
}

void Pipeline::note_residence(PortIndex port, std::uint16_t count_in, const Sample& sample) noexcept {
  const TimeNs here = (*host_.clock)();
  for (std::uint16_t i = 0; i < count_in; ++i) {
    const TimeNs arrived = std::min(sample.arrived[i], here);
    residence_[port * residence_queues_ + sample.queue[i]].add(here - arrived);
  }
}

std::uint64_t Pipeline::cycles() const noexcept {
  return metering_ ? rte_rdtsc() * kMeterEvery : 0;
}

// --- reception and the ingress half -----------------------------------------------------------------------------

void Pipeline::receive(TimeNs now, PortIndex port, rte_mbuf** packets, std::uint16_t count_in) noexcept {
  metering_ = host_.meter && bursts_++ % kMeterEvery == 0;
  PacketRoute arrived;
  arrived.in_port = port;
  arrived.switch_index = state_.info().index;
  // One store for all of it.
  const __m128i route = std::bit_cast<__m128i>(arrived);
  assert(count_in <= Batch::kCapacity);
  Batch batch;
  std::uint64_t bytes = 0;
  for (std::uint32_t i = 0; i < count_in; ++i) {
    rte_mbuf* m = packets[i];
    PacketMeta& pm = meta(m);
    _mm_store_si128(reinterpret_cast<__m128i*>(&pm), route);
    pm.arrived = now;
    rte_prefetch0(frame(m));
    bytes += m->pkt_len;
    batch.packet[i] = m;
  }
  batch.size = count_in;
  totals_.rx.add(count_in);
  totals_.rx_bytes.add(bytes);
  port_totals_[port].rx.add(count_in);
  port_totals_[port].rx_bytes.add(bytes);
  if (traffic_taps_ != 0) [[unlikely]] {
    for (std::size_t i = 0; i < traffic_taps_; ++i) taps_[i]->received(now, port, batch.packet, batch.size);
  }
  run_ingress(now, batch, 0);
  settle(now);
}

void Pipeline::receive_mixed(TimeNs now, rte_mbuf** packets, std::uint16_t count_in) noexcept {
  metering_ = false;
  assert(count_in <= Batch::kCapacity);
  Batch batch;
  std::uint64_t bytes = 0;
  for (std::uint32_t i = 0; i < count_in; ++i) {
    rte_mbuf* m = packets[i];
    PacketMeta& pm = meta(m);
    const PortIndex port = pm.in_port;
    static_cast<PacketRoute&>(pm) = {.in_port = port, .switch_index = state_.info().index};
    pm.arrived = now;
    bytes += m->pkt_len;
    port_totals_[port].rx.add(1);
    port_totals_[port].rx_bytes.add(m->pkt_len);
    batch.packet[i] = m;
    for (std::size_t k = 0; k < traffic_taps_; ++k) taps_[k]->received(now, port, &m, 1);
  }
  batch.size = count_in;
  totals_.rx.add(count_in);
  totals_.rx_bytes.add(bytes);
  run_ingress(now, batch, 0);
  settle(now);
}

void Pipeline::run_ingress(TimeNs now, Batch& batch, std::size_t first) noexcept {
  if (tracer_ != nullptr) [[unlikely]]
    return run_ingress_traced(now, batch, first);
  run_stages(now, batch, first);
}

void Pipeline::run_stages(TimeNs now, Batch& batch, std::size_t first) noexcept {
  std::uint64_t before = cycles();
  for (std::size_t i = first; i < slot_count_ && batch.size != 0; ++i) {
    Slot& slot = slots_[i];
    const std::uint16_t entered = batch.size;
    Context context(now, host_.worker, rng_, *this, static_cast<std::uint8_t>(i));
    batch.departs = false;
    slot.stage->ingress(context, batch);
    if (batch.removed != 0) batch.compact();
    if (i == 0 && host_.handoff != nullptr) steer(now, batch);
    const std::uint64_t after = cycles();
    count(slot.ingress, entered, after - before);
    before = after;
    if (slot.resumed.count != 0) {
      take_resumed(now, i, batch);
      // A packet that a stage resumes may be a traced one.
      if (tracer_ != nullptr) return run_ingress_traced(now, batch, i + 1);
    }
  }
  if (batch.size != 0) admit(now, batch, before);
}

// Appends the packets that a stage resumed to those that it left in the batch. A batch that is full runs through the
// remaining stages here; the last one is left to the caller.
void Pipeline::take_resumed(TimeNs now, std::size_t stage, Batch& batch) noexcept {
  Resumed& resumed = slots_[stage].resumed;
  while (resumed.count != 0) {
    if (batch.full()) {
      run_ingress(now, batch, stage + 1);
      batch.size = 0;
      continue;
    }
    rte_mbuf* m = resumed.first;
    resumed.first = reinterpret_cast<rte_mbuf*>(scratch(m));
    --resumed.count;
    --resumed_count_;
    batch.push(m);
  }
}

void Pipeline::resume(std::size_t stage, rte_mbuf* m) noexcept {
  Resumed& resumed = slots_[stage].resumed;
  if (resumed.count == 0) {
    resumed.first = m;
  } else {
    scratch(resumed.last) = reinterpret_cast<std::uint64_t>(m);
  }
  resumed.last = m;
  ++resumed.count;
  ++resumed_count_;
}

void Pipeline::run_resumed(TimeNs now, std::size_t stage) noexcept {
  if (slots_[stage].resumed.count == 0) return;
  Batch batch;
  take_resumed(now, stage, batch);
  run_ingress(now, batch, stage + 1);
}

// Stages may also resume packets outside of their ingress half: when they see a packet leave, or hear of a drop.
void Pipeline::run_all_resumed(TimeNs now) noexcept {
  while (resumed_count_ != 0) [[unlikely]] {
      for (std::size_t i = 0; i < slot_count_; ++i) run_resumed(now, i);
    }
}

// Every entry point ends with this: resumed packets run on, and packets for other workers go into their rings.
void Pipeline::settle(TimeNs now) noexcept {
  run_all_resumed(now);
  if (qos_ != nullptr) charge_all_handoffs(now);
  flush_outbox();
}

// --- admission ---------------------------------------------------------------------------------------------------

// Of a batch whose last stage has not done it, if all packets leave through the same port.
void Pipeline::add_up(Batch& batch) noexcept {
  Departure all{.port = meta(batch.packet[0]).out_port};
  for (std::uint32_t i = 0; i < batch.size; ++i) {
    if (meta(batch.packet[i]).out_port != all.port) return;
    all.add(batch.packet[i]);
  }
  batch.depart(all);
}

void Pipeline::admit(TimeNs now, Batch& batch, std::uint64_t before) noexcept {
  if (gates_generation_ != state_.link_generation()) [[unlikely]]
    set_gates();
  if (!batch.departs) add_up(batch);
  if (batch.departs) {
    admit_all(now, batch.packet, batch.size, batch.departure);
  } else {
    admit_mixed(now, batch.packet, batch.size);
  }
  count(admission_, batch.size, cycles() - before - passing_through_);
  passing_through_ = 0;
}

// `size` packets, which are all of `departure`. It may count shorter packets as longer.
void Pipeline::admit_all(TimeNs now, rte_mbuf** packets, std::uint32_t size, const Departure& departure) noexcept {
  const PortIndex port = departure.port;
  const Gate& gate = gates_[std::min<std::size_t>(port, egress_.size())];
  if (departure.longest < gate.too_large) [[likely]] {
    note_admitted(port);
    if (qos_ != nullptr) return admit_classes(now, port, packets, size);
    if (gate.direct && size <= kTxBurst && gate.queue->held() == 0 && tracer_ == nullptr) [[likely]] {
      return pass_through(now, *gate.queue, port, packets, static_cast<std::uint16_t>(size), departure.bytes);
    }
    if (gate.queue->push_all(now, packets, size, departure.bytes)) [[likely]] {
      queued_ = true;
      return;
    }
  }
  for (std::uint32_t i = 0; i < size; ++i) admit_one(now, packets[i]);
}

// Shortcut past the queue: it is empty, no rate or delay is emulated, and no stage has an egress half.
void Pipeline::pass_through(TimeNs now, EgressQueue& queue, PortIndex port, rte_mbuf** packets, std::uint16_t size,
                            std::uint64_t bytes) noexcept {
  const std::uint64_t before = cycles();
  const std::uint16_t sent = send_to_device(now, port, packets, size, bytes);
  const std::uint64_t spent = cycles() - before;
  count(tx_, sent, spent);
  passing_through_ += spent;
  if (sent == size) [[likely]]
    return;
  for (std::uint16_t i = sent; i < size; ++i) queue.line_push(packets[i], now);
  queued_ = true;
}

// Over equal-cost paths each packet leaves through another port, at random. Sorting them port by port takes no branch
// that would be guessed wrong and no store that a load soon waits for. Saves 14 of 72 cycles per packet
// (micro_pipeline; bench/results/plain_forms.json).
void Pipeline::admit_mixed(TimeNs now, rte_mbuf** packets, std::uint32_t size) noexcept {
  constexpr int kPasses = 4;
  rte_mbuf* same[Batch::kCapacity];
  for (int pass = 0; pass < kPasses; ++pass) {
    const PortIndex port = meta(packets[0]).out_port;
    std::uint32_t taken = 0;
    std::uint32_t longest = 0;
    std::uint64_t bytes = 0;
    std::uint64_t taken_bytes = 0;
    std::uint32_t either = 0;                // bits in which the port of a packet that is left differs
    std::uint32_t each = ~std::uint32_t{0};  // bits in which all of their ports do
    for (std::uint32_t i = 0; i < size; ++i) {
      rte_mbuf* m = packets[i];
      const std::uint32_t differs = meta(m).out_port ^ port;
      const std::uint32_t fits = differs == 0 ? ~std::uint32_t{0} : 0;
      same[taken] = m;
      packets[i - taken] = m;
      taken -= fits;
      longest = std::max(longest, m->pkt_len);
      bytes += m->pkt_len;
      taken_bytes += m->pkt_len & fits;
      either |= differs;
      each &= differs | fits;
    }
    admit_all(now, same, taken, {port, longest, taken_bytes});
    size -= taken;
    // The others have one port in common.
    if (either == each) return admit_all(now, packets, size, {meta(packets[0]).out_port, longest, bytes - taken_bytes});
  }
  for (std::uint32_t i = 0; i < size; ++i) admit_one(now, packets[i]);
}

void Pipeline::admit_one(TimeNs now, rte_mbuf* m) noexcept {
  const PortIndex out = meta(m).out_port;
  if (out >= egress_.size()) [[unlikely]]
    return drop(now, m, DropReason::no_egress, Half::egress);
  EgressQueue* queue = egress_[out].get();
  if (queue == nullptr) return hand_over(now, state_.owner_of_port(out), m, kToEgress);
  if (m->pkt_len > max_frame_[out]) [[unlikely]]
    return drop_at_port(now, out, m, DropReason::egress_mtu);
  if (!state_.link_up(out)) [[unlikely]]
    return drop_at_port(now, out, m, DropReason::egress_down);
  note_admitted(out);
  if (qos_ != nullptr) return admit_classes(now, out, &m, 1);
  if (!queue->push(now, m)) [[unlikely]]
    return drop_at_port(now, out, m, DropReason::egress_queue_full);
  queued_ = true;
}

// --- the egress half ---------------------------------------------------------------------------------------------

std::uint32_t Pipeline::serve_port(TimeNs now, PortIndex port) noexcept {
  const std::uint32_t progress = qos_ != nullptr ? serve_classes(now, port) : serve_fifo(now, port);
  if (host_.handoff != nullptr) tell_port(now, port);
  return progress;
}

std::uint32_t Pipeline::serve_fifo(TimeNs now, PortIndex port) noexcept {
  if (egress_[port] == nullptr) return 0;
  EgressQueue& queue = *egress_[port];
  if (queue.held() == 0) return 0;
  std::uint32_t progress = 0;
  if (!state_.link_up(port)) [[unlikely]] {
    progress = drain_port(now, port, DropReason::egress_down);
  } else {
    progress = queue.direct() && queue.line_empty() ? serve_direct(now, port) : serve_emulated(now, port);
  }
  settle(now);
  return progress;
}

std::uint32_t Pipeline::serve_direct(TimeNs now, PortIndex port) noexcept {
  EgressQueue& queue = *egress_[port];
  Batch batch;
  batch.size = queue.pop_direct(batch.packet, kTxBurst);
  const std::uint32_t taken = batch.size;
  const std::uint64_t before = run_egress(now, port, batch);
  const std::uint16_t sent = send_to_device(now, port, batch.packet, batch.size);
  count(tx_, sent, cycles() - before);
  // Packets that a busy device refused have passed the egress half already, so they wait in the line and not in the
  // FIFO.
  for (std::uint16_t i = sent; i < batch.size; ++i) queue.line_push(batch.packet[i], now);
  return taken;
}

std::uint32_t Pipeline::serve_emulated(TimeNs now, PortIndex port) noexcept {
  EgressQueue& queue = *egress_[port];
  std::uint32_t progress = 0;
  Batch batch;
  TimeNs sent_at = now;
  while (batch.size < kTxBurst) {
    rte_mbuf* m = queue.pop(now, sent_at);
    if (m == nullptr) break;
    scratch(m) = sent_at;
    batch.push(m);
  }
  progress += batch.size;
  if (batch.size != 0) run_egress(now, port, batch);
  for (std::uint16_t i = 0; i < batch.size; ++i) queue.line_push(batch.packet[i], scratch(batch.packet[i]));
  rte_mbuf* due[kTxBurst];
  const std::uint16_t ready = queue.line_due(now, due, kTxBurst);
  if (ready != 0) {
    const std::uint64_t before = cycles();
    const std::uint16_t sent = send_to_device(now, port, due, ready);
    queue.line_pop(sent, due + sent, static_cast<std::uint16_t>(ready - sent));
    count(tx_, sent, cycles() - before);
    progress += sent;
  }
  return progress;
}

std::uint64_t Pipeline::run_egress(TimeNs now, PortIndex port, Batch& batch) noexcept {
  std::uint64_t before = cycles();
  if (tracer_ != nullptr) [[unlikely]] {
    run_egress_traced(now, port, batch);
    return cycles();
  }
  for (const std::uint8_t i : egress_stages_) {
    if (batch.size == 0) break;
    const std::uint16_t entered = batch.size;
    Context context(now, host_.worker, rng_, *this, i, true);
    slots_[i].stage->egress(context, port, batch);
    if (batch.removed != 0) batch.compact();
    const std::uint64_t after = cycles();
    count(slots_[i].egress, entered, after - before);
    before = after;
  }
  return before;
}

std::uint16_t Pipeline::send_to_device(TimeNs now, PortIndex port, rte_mbuf** packets,
                                       std::uint16_t count_in) noexcept {
  return send_to_device(now, port, packets, count_in, bytes_of(packets, count_in));
}

std::uint16_t Pipeline::send_to_device(TimeNs now, PortIndex port, rte_mbuf** packets, std::uint16_t count_in,
                                       std::uint64_t bytes) noexcept {
  if (traffic_taps_ != 0) [[unlikely]] {
    for (std::size_t i = 0; i < traffic_taps_; ++i) taps_[i]->sending(now, port, packets, count_in);
  }
  const bool sampled = residence_ != nullptr && tx_bursts_++ % Residence::kSampleEvery == 0;
  Sample sample;
  if (sampled) [[unlikely]]
    take_sample(packets, count_in, sample);
  const TxResult result = host_.ports[port]->transmit(packets, count_in);
  // A driver with a bug may claim to have sent more than it was given: the sums tell of it.
  const std::uint16_t ours = std::min(result.taken, count_in);
  if (sampled) [[unlikely]]
    note_residence(port, ours, sample);
  if (traffic_taps_ != 0) [[unlikely]] {
    for (std::size_t i = 0; i < traffic_taps_; ++i) taps_[i]->sent(ours, result.rejected);
  }
  for (std::uint16_t i = result.taken; i < count_in; ++i) bytes -= packets[i]->pkt_len;
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

// --- what is held --------------------------------------------------------------------------------------------------

void Pipeline::flush_stages(TimeNs now) noexcept {
  for (std::size_t i = 0; i < slot_count_; ++i) {
    Context context(now, host_.worker, rng_, *this, static_cast<std::uint8_t>(i));
    slots_[i].stage->flush(context);
    ask_deadlines(i);
    run_resumed(now, i);
  }
  settle(now);
}

std::uint32_t Pipeline::drain_port(TimeNs now, PortIndex port, DropReason reason) noexcept {
  std::uint32_t count = 0;
  while (rte_mbuf* m = take_from_port(port)) {
    drop_at_port(now, port, m, reason);
    ++count;
  }
  return count;
}

void Pipeline::drop_queued(TimeNs now) noexcept {
  // A stage may resume a packet when it is told of a drop, and that packet then enters a queue.
  std::uint32_t dropped = 0;
  do {
    dropped = 0;
    for (std::size_t port = 0; port < egress_.size(); ++port) {
      if (egress_[port]) dropped += drain_port(now, static_cast<PortIndex>(port), DropReason::shutdown);
    }
    if (qos_ != nullptr) charge_all_handoffs(now);
    while (rte_mbuf* m = outbox_ != nullptr ? outbox_->take_any() : nullptr) {
      if (qos_ != nullptr) release_group(m);
      drop(now, m, DropReason::shutdown, meta(m).stage == kToEgress ? Half::egress : Half::ingress);
      ++dropped;
    }
    run_all_resumed(now);
  } while (dropped != 0);
}

std::uint64_t Pipeline::held() const noexcept {
  std::uint64_t total = resumed_count_ + (outbox_ != nullptr ? outbox_->size() : 0);
  for (std::size_t i = 0; i < slot_count_; ++i) total += slots_[i].stage->held();
  for (PortIndex port = 0; port < egress_.size(); ++port) total += held_at(port);
  return total;
}

void Pipeline::drop(TimeNs now, rte_mbuf* m, DropReason reason, Half half) noexcept {
  totals_.dropped[static_cast<std::size_t>(reason)].add(1);
  if (const PortIndex in = meta(m).in_port; in < egress_.size()) {
    port_totals_[in].in_dropped[static_cast<std::size_t>(reason)].add(1);
  }
  if (tap_count_ != 0) [[unlikely]] {
    for (std::size_t i = 0; i < tap_count_; ++i) taps_[i]->dropped(now, m, reason);
  }
  if (half == Half::egress && !drop_listeners_.empty()) tell_listeners(now, m, reason);
  rte_pktmbuf_free(m);
}

void Pipeline::drop_at_port(TimeNs now, PortIndex port, rte_mbuf* m, DropReason reason) noexcept {
  port_totals_[port].dropped.add(1);
  drop(now, m, reason, Half::egress);
}

void Pipeline::tell_listeners(TimeNs now, const rte_mbuf* m, DropReason reason) noexcept {
  // A listener may send packets, which may be dropped as well. It is not told of these drops, because the recursion
  // might never end.
  if (telling_) return;
  telling_ = true;
  for (const std::uint8_t i : drop_listeners_) {
    Context context(now, host_.worker, rng_, *this, i);
    slots_[i].stage->on_drop(context, m, reason);
  }
  telling_ = false;
}

}  // namespace weft::pipeline
