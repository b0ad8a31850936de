// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// The engine with qos: class queues in the place of a port's FIFO.
#include <algorithm>
#include <utility>

#include "switch/pipeline/class_queues.h"
#include "switch/pipeline/class_tx.h"
#include "switch/pipeline/pipeline.h"
#include "switch/wire/emit.h"

namespace weft::pipeline {

void Pipeline::make_qos() {
  const SwitchInfo& info = state_.info();
  const qos::Settings& settings = *info.qos;
  qos_ = std::make_unique<PipelineQos>(PipelineQos{{*state_.buffer(), {}, nullptr}, {}});
  for (const qos::PortSettings& port : settings.ports) qos_->context.classifiers.emplace_back(port.map);
  qos_->context.classifiers.emplace_back(settings.ports.empty() ? qos::ClassMap::defaults() : settings.ports[0].map);
  qos_->context.blocks = std::make_unique<QosContext::Blocks>(
      QosContext::Blocks::blocks_for(host_.buffers, info.ports.size() * qos::kClasses));
  for (const PortInfo& port : info.ports) {
    qos_->ports.push_back(
        egress_[port.index] ? std::make_unique<ClassQueues>(settings, port.index, max_frame_[port.index], qos_->context)
                            : nullptr);
    const auto* device = dynamic_cast<const ClassTx*>(host_.ports[port.index]);
    if (qos_->ports.back() && device != nullptr) qos_->ports.back()->set_by_class(device->by_class());
  }
}

const ClassQueues* Pipeline::class_queues(PortIndex port) const noexcept {
  return qos_ != nullptr ? qos_->ports[port].get() : nullptr;
}

std::uint32_t Pipeline::queue_depth(PortIndex port) const noexcept {
  if (egress_[port] == nullptr) return 0;
  return qos_ != nullptr ? qos_->ports[port]->size() : egress_[port]->depth();
}

bool Pipeline::worth_serving(PortIndex port) const noexcept {
  return qos_ == nullptr || qos_->ports[port]->depth() >= EgressQueue::kBurst;
}

std::uint32_t Pipeline::held_at(PortIndex port) const noexcept {
  if (egress_[port] == nullptr) return 0;
  return egress_[port]->held() + (qos_ != nullptr ? qos_->ports[port]->held() : 0);
}

rte_mbuf* Pipeline::take_from_port(PortIndex port) noexcept {
  if (egress_[port] == nullptr) return nullptr;
  rte_mbuf* m = egress_[port]->take_any();
  return m != nullptr || qos_ == nullptr ? m : qos_->ports[port]->take_any();
}

void Pipeline::admit_classes(TimeNs now, PortIndex port, rte_mbuf* const* packets, std::uint32_t count) noexcept {
  ClassQueues& queues = *qos_->ports[port];
  if (queues.empty()) egress_[port]->wake(now);
  rte_mbuf* refused[Batch::kCapacity];
  DropReason why[Batch::kCapacity];
  const std::uint32_t drops = queues.admit(packets, count, rng_, refused, why);
  if (host_.handoff != nullptr) wake_owners(packets, count);
  for (std::uint32_t i = 0; i < drops; ++i) drop_at_port(now, port, refused[i], why[i]);
}

// Admits packets of other workers, port by port, so that each port is asked once.
void Pipeline::admit_handed(TimeNs now, rte_mbuf** packets, std::uint32_t count) noexcept {
  if (qos_ == nullptr) {
    for (std::uint32_t i = 0; i < count; ++i) admit_one(now, packets[i]);
    return;
  }
  while (count != 0) {
    const PortIndex port = meta(packets[0]).out_port;
    rte_mbuf* same[Batch::kCapacity];
    std::uint32_t taken = 0;
    // Without branches, because the order of ports is random.
    for (std::uint32_t i = 0; i < count; ++i) {
      rte_mbuf* m = packets[i];
      same[taken] = m;
      packets[i - taken] = m;
      taken += meta(m).out_port == port ? 1 : 0;
    }
    admit_handed_to(now, port, same, taken);
    count -= taken;
  }
}

// The other workers have charged them to their priority groups.
void Pipeline::admit_handed_to(TimeNs now, PortIndex port, rte_mbuf** packets, std::uint32_t count) noexcept {
  const bool up = state_.link_up(port);
  std::uint32_t fitting = 0;
  for (std::uint32_t i = 0; i < count; ++i) {
    rte_mbuf* m = packets[i];
    const bool fits = m->pkt_len <= max_frame_[port];
    if (fits && up) [[likely]] {
      packets[fitting++] = m;
      continue;
    }
    release_group(m);
    drop_at_port(now, port, m, fits ? DropReason::egress_down : DropReason::egress_mtu);
  }
  if (fitting == 0) return;
  note_admitted(port);
  ClassQueues& queues = *qos_->ports[port];
  if (queues.empty()) egress_[port]->wake(now);
  rte_mbuf* refused[Batch::kCapacity];
  DropReason why[Batch::kCapacity];
  const std::uint32_t drops = queues.admit_charged(packets, fitting, rng_, refused, why);
  for (std::uint32_t i = 0; i < drops; ++i) drop_at_port(now, port, refused[i], why[i]);
}

// Stages that hear of a drop may send packets and let others go on.
void Pipeline::charge_all_handoffs(TimeNs now) noexcept {
  while (qos_->handoffs.size != 0) {
    charge_handoffs(now);
    run_all_resumed(now);
  }
}

// What waits between workers takes room of the group that it came in by, as if it were in a queue. So the peer of that
// port is paused in time, whatever the worker at the other end of the ring does.
void Pipeline::charge_handoffs(TimeNs now) noexcept {
  // They move out first, because a drop may bring more of them.
  UnchargedHandoffs& handoffs = qos_->handoffs;
  const std::uint32_t count = std::exchange(handoffs.size, 0);
  rte_mbuf* packets[UnchargedHandoffs::kMost];
  std::uint16_t workers[UnchargedHandoffs::kMost];
  std::copy_n(handoffs.packet, count, packets);
  std::copy_n(handoffs.worker, count, workers);
  qos::SharedBuffer& buffer = qos_->context.buffer;
  qos::GroupSums& sums = qos_->context.sums;
  for (std::uint32_t i = 0; i < count; ++i) sums.add(qos_->context.classify(packets[i]), packets[i]->pkt_len);
  const bool all = buffer.charge(sums, qos_->context.shared_free(), qos_->context.credit);
  if (all) sums.for_each([this](std::uint16_t group, std::uint64_t) { wake_owner(group); });
  sums.clear();
  if (all) [[likely]] {
    for (std::uint32_t i = 0; i < count; ++i) push_handoff(now, workers[i], packets[i]);
    return;
  }
  for (std::uint32_t i = 0; i < count; ++i) {
    if (charge_handoff(now, packets[i])) push_handoff(now, workers[i], packets[i]);
  }
}

bool Pipeline::charge_handoff(TimeNs now, rte_mbuf* m) noexcept {
  qos::SharedBuffer::Group& group = qos_->context.buffer.groups()[qos_->context.group_of(m)];
  const qos::Admission verdict = qos_->context.admit_to_group(m, group);
  wake_owners(&m, 1);
  if (verdict == qos::Admission::admitted) [[likely]]
    return true;
  group.drops.add<true>(1);
  drop(now, m, reason_of(verdict), meta(m).stage == kToEgress ? Half::egress : Half::ingress);
  return false;
}

void Pipeline::push_handoff(TimeNs now, std::uint16_t worker, rte_mbuf* m) noexcept {
  if (outbox_->push(worker, m)) [[likely]]
    return;
  release_group(m);
  drop(now, m, DropReason::handoff_full, meta(m).stage == kToEgress ? Half::egress : Half::ingress);
}

void Pipeline::release_groups(rte_mbuf* const* packets, std::uint32_t count) noexcept {
  qos::GroupSums& sums = qos_->context.sums;
  for (std::uint32_t i = 0; i < count; ++i) {
    sums.add(qos_->context.group_of(packets[i]), packets[i]->pkt_len);
    meta(packets[i]).had_room = true;
  }
  qos_->context.buffer.release(sums, qos_->context.credit);
  sums.clear();
}

void Pipeline::release_group(const rte_mbuf* m) noexcept {
  qos_->context.buffer.release<true>(qos_->context.buffer.groups()[qos_->context.group_of(m)], m->pkt_len);
}

// Only the owner of a port sends pauses through it. Where another worker polls a queue of the same device, the owner
// may know nothing of packets that fill a group, and nap.
void Pipeline::wake_owners(rte_mbuf* const* packets, std::uint32_t count) noexcept {
  std::uint16_t last = 0xffff;
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::uint16_t group = qos_->context.group_of(packets[i]);
    if (std::exchange(last, group) != group) wake_owner(group);
  }
}

void Pipeline::wake_owner(std::uint16_t group) noexcept {
  const auto in = static_cast<PortIndex>(group / qos::kClasses);
  if (in >= egress_.size() || egress_[in] != nullptr) [[likely]]
    return;
  if (qos_->context.buffer.xoff(qos_->context.buffer.groups()[group])) [[unlikely]]
    host_.handoff->wake(state_.owner_of_port(in));
}

void Pipeline::keep_handoff(rte_mbuf* m) noexcept {
  if (qos_ != nullptr && meta(m).stage != kToOwner) charge_group(m);
}

// Of a packet that is there already, whatever the limits say.
void Pipeline::charge_group(rte_mbuf* m) noexcept {
  const std::uint16_t group = qos_->context.classify(m);
  qos_->context.buffer.charge(qos_->context.buffer.groups()[group], m->pkt_len);
}

bool Pipeline::urgent() const noexcept {
  // With one worker nothing changes while it naps.
  if (outbox_ == nullptr) return false;
  if (outbox_->size() != 0) return true;
  if (qos_ == nullptr) return false;
  return std::any_of(qos_->ports.begin(), qos_->ports.end(),
                     [](const auto& port) { return port != nullptr && port->pauses_peer(); });
}

std::uint32_t Pipeline::serve_classes(TimeNs now, PortIndex port) noexcept {
  ClassQueues& queues = *qos_->ports[port];
  EgressQueue& wire = *egress_[port];
  if (!state_.link_up(port)) [[unlikely]] {
    const std::uint32_t dropped = drain_port(now, port, DropReason::egress_down);
    settle(now);
    return dropped;
  }
  queues.look_at_pauses(now);
  std::uint32_t progress = queues.pause_due(now) ? send_pause(now, port) : 0;
  if (queues.storm()) [[unlikely]]
    progress += empty_stormed(now, port);
  if (wire.direct()) {
    progress += serve_classes_direct(now, port);
  } else {
    if (queues.any_refused()) [[unlikely]]
      progress += transmit_refused(now, port);
    if (queues.sendable() != 0) progress += serve_classes_emulated(now, port);
    progress += serve_line(now, port);
  }
  settle(now);
  return progress;
}

void Pipeline::count_tx(std::uint16_t packets, std::uint64_t before) noexcept {
  tx_.packets.add(packets);
  tx_.bursts.add(1);
  tx_.cycles.add(cycles() - before);
}

std::uint32_t Pipeline::serve_classes_direct(TimeNs now, PortIndex port) noexcept {
  ClassQueues& queues = *qos_->ports[port];
  std::uint32_t progress = 0;
  if (!egress_[port]->line_empty() || queues.any_refused()) [[unlikely]] {
    progress = serve_leftovers(now, port);
    if (device_is_busy(port)) return progress;
  }
  if (queues.sendable() == 0) return progress;
  Batch batch;
  batch.size = queues.take(now, batch.packet, EgressQueue::kBurst, rng_);
  const std::uint32_t taken = batch.size;
  if (taken == 0) return progress;
  const std::uint64_t before = run_egress(now, port, batch);
  const std::uint16_t sent = send_to_device(now, port, batch.packet, batch.size);
  count_tx(sent, before);
  if (sent < batch.size) queues.refuse(batch.packet + sent, static_cast<std::uint32_t>(batch.size - sent));
  return progress + taken;
}

// Where nothing is emulated: on the line are PAUSE and PFC frames that the device did not take, and what a link still
// carried when it lost its delay. Then come packets that the device did not take, but for those that are paused now.
std::uint32_t Pipeline::serve_leftovers(TimeNs now, PortIndex port) noexcept {
  ClassQueues& queues = *qos_->ports[port];
  std::uint32_t progress = serve_line(now, port);
  rte_mbuf* packets[EgressQueue::kBurst];
  while (egress_[port]->line_empty()) {
    const std::uint16_t ready = queues.ready_refused(packets, EgressQueue::kBurst);
    if (ready == 0) break;
    const std::uint64_t before = cycles();
    const std::uint16_t sent = send_to_device(now, port, packets, ready);
    queues.settle_refused(packets, ready, sent);
    count_tx(sent, before);
    progress += sent;
    if (sent < ready) break;
  }
  return progress;
}

bool Pipeline::device_is_busy(PortIndex port) const noexcept {
  const ClassQueues& queues = *qos_->ports[port];
  const bool refuses = !queues.by_class() && queues.refused_sendable();
  return !egress_[port]->line_empty() || refuses || !queues.may_refuse();
}

// The link has got a rate or a delay since the device did not take them.
std::uint32_t Pipeline::transmit_refused(TimeNs now, PortIndex port) noexcept {
  ClassQueues& queues = *qos_->ports[port];
  EgressQueue& wire = *egress_[port];
  std::uint32_t moved = 0;
  rte_mbuf* m = nullptr;
  while (wire.ready(now) && queues.ready_refused(&m, 1) == 1) {
    queues.settle_refused(&m, 1, 1);
    wire.line_push(m, wire.transmit(now, m->pkt_len));
    ++moved;
  }
  return moved;
}

// Moves the packets whose turn on the emulated wire has come onto the line.
std::uint32_t Pipeline::serve_classes_emulated(TimeNs now, PortIndex port) noexcept {
  ClassQueues& queues = *qos_->ports[port];
  EgressQueue& wire = *egress_[port];
  Batch batch;
  while (batch.size < EgressQueue::kBurst && wire.ready(now)) {
    const auto most = static_cast<std::uint16_t>(wire.unlimited() ? EgressQueue::kBurst - batch.size : 1);
    const std::uint16_t taken = queues.take(now, batch.packet + batch.size, most, rng_);
    if (taken == 0) break;
    for (std::uint16_t i = 0; i < taken; ++i) {
      rte_mbuf* m = batch.packet[batch.size++];
      scratch(m) = wire.transmit(now, m->pkt_len);
    }
  }
  if (batch.size == 0) return 0;
  const std::uint32_t taken = batch.size;
  run_egress(now, port, batch);
  for (std::uint16_t i = 0; i < batch.size; ++i) wire.line_push(batch.packet[i], scratch(batch.packet[i]));
  return taken;
}

std::uint32_t Pipeline::serve_line(TimeNs now, PortIndex port) noexcept {
  EgressQueue& wire = *egress_[port];
  rte_mbuf* due[EgressQueue::kBurst];
  const std::uint16_t ready = wire.line_due(now, due, EgressQueue::kBurst);
  if (ready == 0) return 0;
  const std::uint64_t before = cycles();
  const std::uint16_t sent = send_to_device(now, port, due, ready);
  wire.line_pop(sent, due + sent, static_cast<std::uint16_t>(ready - sent));
  wire.prefetch_line();
  count_tx(sent, before);
  return sent;
}

// A pause frame overtakes all queues and leaves behind the frame that is being sent.
std::uint32_t Pipeline::send_pause(TimeNs now, PortIndex port) noexcept {
  EgressQueue& wire = *egress_[port];
  if (!wire.line_has_room()) return 0;
  rte_mbuf* m = rte_pktmbuf_alloc(host_.pool);
  if (m == nullptr) return 0;
  meta(m) = PacketMeta{};
  meta(m).out_port = port;
  meta(m).switch_index = state_.info().index;
  totals_.generated.add(1);
  const auto out = std::span(frame(m), wire::kMinFrameBytes);
  const qos::PauseFrame pause = qos_->ports[port]->take_pause(now);
  const wire::MacAddress mac = state_.info().ports[port].mac;
  if (pause.pfc) {
    wire::write_pfc(out, mac, pause.class_enable, pause.quanta);
  } else {
    wire::write_pause(out, mac, pause.quanta[0]);
  }
  rte_pktmbuf_append(m, static_cast<std::uint16_t>(out.size()));
  if (wire.direct() && wire.line_empty() && send_to_device(now, port, &m, 1) == 1) return 1;
  wire.line_push(m, wire.transmit(now, m->pkt_len));
  return 1;
}

std::uint32_t Pipeline::empty_stormed(TimeNs now, PortIndex port) noexcept {
  rte_mbuf* packets[EgressQueue::kBurst];
  const std::uint16_t taken = qos_->ports[port]->take_stormed(packets, EgressQueue::kBurst);
  for (std::uint16_t i = 0; i < taken; ++i) drop_at_port(now, port, packets[i], DropReason::pfc_watchdog);
  return taken;
}

void Pipeline::take_mac_control(TimeNs now, rte_mbuf* m) noexcept {
  const PortIndex in = meta(m).in_port;
  if (qos_ == nullptr || in >= egress_.size()) return drop(now, m, DropReason::mac_control, Half::ingress);
  if (egress_[in] == nullptr) {
    meta(m).stage = kToOwner;
    const std::uint16_t owner = state_.owner_of_port(in);
    if (host_.handoff->push_control(owner, m)) {
      totals_.handed_out.add(1);
      return host_.handoff->wake(owner);
    }
    // A frame that waits for the owner says now what this one does.
  } else {
    qos_->ports[in]->on_pause_frame(now, {frame(m), m->data_len});
  }
  totals_.consumed.add(1);
  rte_pktmbuf_free(m);
}

TimeNs Pipeline::class_deadline(PortIndex port) const noexcept {
  const EgressQueue& wire = *egress_[port];
  const ClassQueues& queues = *qos_->ports[port];
  const TimeNs of_queues = queues.deadline();
  // What can be sent at once waits for the wire, or for what is on a line that has no delay any more.
  const bool wants_wire = queues.sendable() != 0 || queues.refused_sendable();
  const TimeNs free = wire.direct() && !wire.line_empty() ? wire.line_deadline() : wire.wire_deadline();
  const TimeNs next = wants_wire ? std::max(of_queues, free) : of_queues;
  return std::min(next, wire.line_deadline());
}

// The buffer is a new one: what the old queues held is charged to it again, whatever its limits are now.
void Pipeline::adopt_classes(TimeNs /*now*/, Pipeline& old, const PortMap& ports, PortIndex from, PortIndex to) {
  if (old.qos_ == nullptr) return;
  qos_->ports[to]->adopt(*old.qos_->ports[from], [&](rte_mbuf* m) {
    meta(m).in_port = ports(meta(m).in_port);
    meta(m).out_port = to;
  });
}

}  // namespace weft::pipeline
