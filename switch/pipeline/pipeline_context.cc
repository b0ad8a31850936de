// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// What stages may do: the functions of Context.
#include "switch/pipeline/class_queues.h"
#include "switch/pipeline/pipeline.h"
#include "switch/pipeline/pool.h"

namespace weft::pipeline {

void Context::at(TimeNs time, std::uint32_t token) noexcept {
  pipeline_.set_timer(stage_, token, time);
}

void Context::at_latest(TimeNs time, std::uint32_t token) noexcept {
  pipeline_.arm_timer(stage_, token, time);
}

void Context::drop(rte_mbuf* m, DropReason reason) noexcept {
  pipeline_.drop(now, m, reason, egress_ ? Pipeline::Half::egress : Pipeline::Half::ingress);
}

void Context::mac_control(rte_mbuf* m) noexcept {
  pipeline_.take_mac_control(now, m);
}

void Context::consume(rte_mbuf* m) noexcept {
  pipeline_.totals_.consumed.add(1);
  rte_pktmbuf_free(m);
}

void Context::consume(rte_mbuf** packets, std::uint32_t count) noexcept {
  pipeline_.totals_.consumed.add(count);
  rte_pktmbuf_free_bulk(packets, count);
}

rte_mbuf* Context::generate() noexcept {
  rte_mbuf* m = nullptr;
  return generate(&m, 1) ? m : nullptr;
}

bool Context::generate(rte_mbuf** packets, std::uint32_t count) noexcept {
  if (rte_pktmbuf_alloc_bulk(pipeline_.host_.pool, packets, count) != 0) return false;
  for (std::uint32_t i = 0; i < count; ++i) {
    PacketMeta& made = meta(packets[i]);
    made = PacketMeta{};
    made.in_port = kNoPort;
    made.out_port = kNoPort;
    made.switch_index = pipeline_.state_.info().index;
    made.arrived = now;
  }
  pipeline_.totals_.generated.add(count);
  return true;
}

void Context::adopt(rte_mbuf* m) noexcept {
  const PortIndex out = meta(m).out_port;
  meta(m) = PacketMeta{};
  meta(m).out_port = out;
  meta(m).switch_index = pipeline_.state_.info().index;
  meta(m).arrived = now;
  pipeline_.totals_.generated.add(1);
}

rte_mbuf* Context::replicate(rte_mbuf* m) noexcept {
  rte_mbuf* copy = weft::pipeline::replicate(pipeline_.host_.pool, m);
  if (copy != nullptr) pipeline_.totals_.replicated.add(1);
  return copy;
}

bool Context::replicate(rte_mbuf* m, rte_mbuf** copies, std::uint32_t count) noexcept {
  for (std::uint32_t i = 0; i < count; ++i) {
    copies[i] = weft::pipeline::replicate(pipeline_.host_.pool, m);
    if (copies[i] != nullptr) continue;
    while (i-- != 0) rte_pktmbuf_free(copies[i]);
    return false;
  }
  pipeline_.totals_.replicated.add(count);
  return true;
}

void Context::send(rte_mbuf* m, PortIndex out) noexcept {
  meta(m).out_port = out;
  pipeline_.admit_one(now, m);
}

void Context::resume(rte_mbuf* m) noexcept {
  pipeline_.resume(stage_, m);
}

bool Context::charge(rte_mbuf* m) noexcept {
  if (pipeline_.qos_ == nullptr) return true;
  const QosContext& qos = pipeline_.qos_->context;
  const bool room =
      qos.buffer.admit_to_group(qos.buffer.groups()[qos.classify(m)], m->pkt_len) == qos::Admission::admitted;
  pipeline_.wake_owners(&m, 1);
  return room;
}

void Context::release(rte_mbuf* m) noexcept {
  if (pipeline_.qos_ == nullptr) return;
  pipeline_.release_group(m);
  meta(m).had_room = true;
}

bool Context::path_up(PortIndex port) const noexcept {
  return pipeline_.state_.links().path_up(port);
}

bool Context::all_paths_up() const noexcept {
  return pipeline_.state_.links().all_paths_up();
}

bool Context::excluded(PortIndex port) const noexcept {
  return pipeline_.state_.links().excluded(port);
}

std::uint32_t Context::link_generation() const noexcept {
  return pipeline_.state_.link_generation();
}

std::uint32_t Context::queue_depth(PortIndex port) const noexcept {
  return pipeline_.depth_of_all(port);
}

PortView Context::occupancy(PortIndex port) const noexcept {
  return pipeline_.view(now, port);
}

QueuedBytes Context::queued_bytes() const noexcept {
  return {pipeline_, pipeline_.queue_bytes_.data()};
}

bool Context::link_up(PortIndex port) const noexcept {
  return pipeline_.state_.link_up(port);
}

void Pipeline::tell_port(TimeNs now, PortIndex port) noexcept {
  if (egress_[port] == nullptr) return;
  SwitchState::ToldPort& told = state_.tell(port, host_.worker);
  const std::uint32_t depth = qos_ != nullptr ? qos_->ports[port]->depth() : egress_[port]->depth();
  const std::uint64_t bytes = egress_[port]->depth_bytes().value();
  const std::uint64_t tx_bytes = port_totals_[port].tx_bytes.value();
  // A loop serves a port several times, most of them with nothing to do.
  if (told.at.load(std::memory_order_relaxed) == now && told.packets.load(std::memory_order_relaxed) == depth &&
      told.bytes.value() == bytes && told.tx_bytes.load(std::memory_order_relaxed) == tx_bytes) {
    return;
  }
  told.bytes.set(bytes);
  told.tx_bytes.store(tx_bytes, std::memory_order_relaxed);
  if (qos_ != nullptr) told.ce_marked.store(qos_->ports[port]->ce_marked(), std::memory_order_relaxed);
  told.at.store(now, std::memory_order_relaxed);
  told.packets.store(depth, std::memory_order_release);
}

std::uint32_t Pipeline::depth_of_all(PortIndex port) const noexcept {
  const auto told = [&](std::uint16_t worker) {
    return state_.told(port, worker).packets.load(std::memory_order_acquire);
  };
  if (!state_.tx_per_worker(port)) return sends(port) ? queue_depth(port) : told(state_.owner_of_port(port));
  std::uint32_t depth = queue_depth(port);
  for (std::uint16_t w = 0; w < state_.workers(); ++w) depth += w == host_.worker ? 0 : told(w);
  return depth;
}

void Pipeline::add_told(PortView& view, PortIndex port, std::uint16_t worker) const noexcept {
  const SwitchState::ToldPort& told = state_.told(port, worker);
  static_cast<void>(told.packets.load(std::memory_order_acquire));
  view.as_of = std::min(view.as_of, told.at.load(std::memory_order_relaxed));
  if (qos_ == nullptr) view.queue_bytes[0] += told.bytes.value();
  view.tx_bytes += told.tx_bytes.load(std::memory_order_relaxed);
  view.ce_marked += told.ce_marked.load(std::memory_order_relaxed);
}

// Where every worker sends.
std::uint64_t QueuedBytes::sum(PortIndex port) const noexcept {
  return pipeline_->bytes_of_all(port);
}

std::uint64_t Pipeline::bytes_of_all(PortIndex port) const noexcept {
  std::uint64_t bytes = sends(port) ? egress_[port]->depth_bytes().value() : 0;
  for (std::uint16_t w = 0; w < state_.workers(); ++w)
    bytes += w == host_.worker ? 0 : state_.told(port, w).bytes.value();
  return bytes;
}

const qos::Gauge* Pipeline::gauge_of(PortIndex port) const noexcept {
  if (state_.buffer() != nullptr) return &state_.buffer()->port_bytes(port);
  if (state_.tx_per_worker(port) && state_.workers() > 1) return nullptr;
  return sends(port) ? &egress_[port]->depth_bytes() : &state_.told(port, state_.owner_of_port(port)).bytes;
}

PortView Pipeline::view(TimeNs now, PortIndex port) const noexcept {
  PortView view;
  view.as_of = now;
  if (qos_ != nullptr) {
    for (unsigned q = 0; q < qos::kClasses; ++q) view.queue_bytes[q] = state_.buffer()->queue(port, q).bytes.value();
  }
  if (sends(port)) {
    if (qos_ == nullptr) view.queue_bytes[0] = egress_[port]->depth_bytes().value();
    view.tx_bytes = port_totals_[port].tx_bytes.value();
    view.ce_marked = qos_ != nullptr ? qos_->ports[port]->ce_marked() : 0;
  }
  if (state_.tx_per_worker(port)) {
    for (std::uint16_t w = 0; w < state_.workers(); ++w) {
      if (w != host_.worker) add_told(view, port, w);
    }
    // What another worker has not said lately it has not in a queue either: it naps, or has never sent anything here.
    view.as_of = now;
  } else if (!sends(port)) {
    add_told(view, port, state_.owner_of_port(port));
  }
  return view;
}

}  // namespace weft::pipeline
