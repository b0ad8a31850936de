// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/stages/kernel_punt/kernel_punt.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "switch/base/time.h"
#include "switch/stages/kernel_punt/drops.h"

namespace weft::stages {

using pipeline::Batch;
using pipeline::Context;
using pipeline::DropReason;
using pipeline::PortIndex;

L3Kernel::L3Kernel(const pipeline::SwitchInfo& info, std::uint16_t workers)
    : workers_(workers),
      per_second_((info.kernel->packets_per_s + workers - 1) / workers),
      most_(std::max<std::uint64_t>(per_second_ / 20, 1) * kSecond),
      ports_(info.ports.size()),
      lanes_(std::make_unique<Lane[]>(workers)),
      counters_(std::make_unique<PortCounters[]>(ports_)) {
  for (std::uint16_t w = 0; w < workers; ++w) lanes_[w].buckets.assign(ports_, {most_, 0});
}

L3Kernel::~L3Kernel() {
  for (std::uint16_t w = 0; w < workers_; ++w) {
    lanes_[w].up.drain([](rte_mbuf* m) { rte_pktmbuf_free(m); });
    lanes_[w].down.drain([](rte_mbuf* m) { rte_pktmbuf_free(m); });
  }
}

void L3Kernel::adopt(L3Kernel& old, const pipeline::PortMap& ports) noexcept {
  using pipeline::PacketRing;
  const auto move = [&](PacketRing& from, PacketRing& to, PortIndex pipeline::PacketMeta::*where) {
    from.drain([&](rte_mbuf* m) {
      PortIndex& port = pipeline::meta(m).*where;
      port = ports(port);
      if (port == pipeline::kNoPort || !to.push(m)) rte_pktmbuf_free(m);
    });
  };
  for (std::uint16_t w = 0; w < workers_; ++w) {
    move(old.lanes_[w].up, lanes_[w].up, &pipeline::PacketMeta::in_port);
    move(old.lanes_[w].down, lanes_[w].down, &pipeline::PacketMeta::out_port);
  }
  for (PortIndex port = 0; port < old.ports_; ++port) {
    if (ports(port) == pipeline::kNoPort) continue;
    for (auto counter : {&PortCounters::to_kernel, &PortCounters::from_kernel, &PortCounters::over_rate,
                         &PortCounters::queue_full, &PortCounters::refused}) {
      (counters_[ports(port)].*counter).store((old.counters_[port].*counter).load());
    }
  }
}

bool L3Kernel::allowed(Bucket& bucket, TimeNs now) const noexcept {
  bucket.tokens = std::min(most_, bucket.tokens + std::min<TimeNs>(now - bucket.updated, kSecond) * per_second_);
  bucket.updated = now;
  if (bucket.tokens < kSecond) return false;
  bucket.tokens -= kSecond;
  return true;
}

void L3Kernel::punt(Context& context, Batch& batch, std::uint16_t i) noexcept {
  rte_mbuf* m = batch.packet[i];
  const PortIndex port = pipeline::meta(m).in_port;
  // A packet that the switch itself made came in on no port, so there is no interface of the kernel for it.
  if (port >= ports_) return context.consume(batch, i);
  Lane& lane = lanes_[context.worker];
  if (!allowed(lane.buckets[port], context.now)) {
    counters_[port].over_rate.fetch_add(1, std::memory_order_relaxed);
    return context.drop(batch, i, KernelDrop::kernel_rate);
  }
  if (lane.up.size() >= kMostWaiting) {
    counters_[port].queue_full.fetch_add(1, std::memory_order_relaxed);
    return context.drop(batch, i, KernelDrop::kernel_queue_full);
  }
  // For the pipeline the packet ends here. The second reference keeps it until the thread has written it.
  rte_pktmbuf_refcnt_update(m, 1);
  lane.up.push(m);
  context.consume(batch, i);
}

void L3Kernel::send_waiting(Context& context) noexcept {
  rte_mbuf* packets[kSendAtOnce];
  const auto count = static_cast<std::uint16_t>(lanes_[context.worker].down.pop(packets, kSendAtOnce));
  for (std::uint16_t i = 0; i < count; ++i) {
    context.adopt(packets[i]);
    const PortIndex port = pipeline::meta(packets[i]).out_port;
    counters_[port].from_kernel.fetch_add(1, std::memory_order_relaxed);
    context.send(packets[i], port);
  }
}

void L3Kernel::ask(std::uint16_t worker, const Question& question) noexcept {
  lanes_[worker].questions.push_or_lose(question);
}

bool L3Kernel::next_question(std::uint16_t worker, Question& question) noexcept {
  return lanes_[worker].questions.pop(question);
}

nlohmann::ordered_json L3Kernel::rows(const pipeline::SwitchInfo& info, std::uint64_t& cursor, std::size_t max) const {
  auto rows = nlohmann::ordered_json::array();
  for (; cursor < ports_ && rows.size() < max; ++cursor) {
    const PortCounters& counters = counters_[cursor];
    rows.push_back({{"port", info.ports[cursor].name},
                    {"interface", info.kernel->interface_prefix + info.ports[cursor].name},
                    {"to_kernel", counters.to_kernel.load(std::memory_order_relaxed)},
                    {"from_kernel", counters.from_kernel.load(std::memory_order_relaxed)},
                    {"over_rate", counters.over_rate.load(std::memory_order_relaxed)},
                    {"queue_full", counters.queue_full.load(std::memory_order_relaxed)},
                    {"refused", counters.refused.load(std::memory_order_relaxed)}});
  }
  if (cursor >= ports_) cursor = pipeline::StageShared::kEnd;
  return rows;
}

}  // namespace weft::stages
