// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/main/worker.h"

#include <rte_pause.h>
#include <sys/prctl.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <thread>

namespace weft {
namespace {

using pipeline::Batch;
using pipeline::TimeNs;

// Adaptive workers poll this long after the last packet: longer than a host takes to answer over veth, short enough to
// give the core away between messages.
constexpr TimeNs kSpinNs = 50'000;
constexpr TimeNs kFirstNapNs = 20'000;
constexpr TimeNs kLongestAdaptiveNapNs = 250'000;
constexpr TimeNs kLongestNapNs = 1'000'000;

}  // namespace

void Worker::finish_setup() {
  for (Queue& queue : queues_) {
    const auto ours = [&](const Served& served) { return served.target == queue.target; };
    const auto first = std::find_if(served_.begin(), served_.end(), ours);
    const auto end = std::find_if_not(first, served_.end(), ours);
    queue.first_served = static_cast<std::size_t>(first - served_.begin());
    queue.end_served = static_cast<std::size_t>(end - served_.begin());
  }
}

void Worker::run() {
  finish_setup();
  // The kernel may delay a sleeper by the slack; its default of 50 us is more than a nap.
  prctl(PR_SET_TIMERSLACK, 1000UL, 0UL, 0UL, 0UL);
  std::uint64_t before = rte_rdtsc();
  while (!stop_.load(std::memory_order_relaxed)) {
    if (task_.load(std::memory_order_relaxed) != nullptr) [[unlikely]]
      run_task();
    const TimeNs now = clock_.now();
    std::uint32_t work = poll_queues(now);
    if (rings_.workers() > 1) work += poll_rings(now);
    for (pipeline::Pipeline* p : pipelines_) p->run_timers(now);
    for (const Served& served : served_) work += served.target->serve_port(now, served.index);

    const std::uint64_t after = rte_rdtsc();
    loops_.add(1);
    cycles_.add(after - before);
    if (work != 0) {
      busy_loops_.add(1);
      busy_cycles_.add(after - before);
      idle_since_ = now;
      nap_ns_ = kFirstNapNs;
      before = after;
    } else {
      before = after;
      rest(now);
    }
  }
}

std::uint32_t Worker::poll_queues(TimeNs now) noexcept {
  const bool receiving = receiving_.load(std::memory_order_relaxed);
  std::uint32_t work = 0;
  for (const Queue& queue : queues_) {
    if (queue.external && !receiving) continue;
    rte_mbuf* packets[Batch::kCapacity];
    const std::uint16_t count = queue.port->receive(now, queue.queue, packets, burst_);
    if (count == 0) continue;
    work += count;
    queue.target->receive(now, queue.index, packets, count);
    // What came in leaves at once, while its buffers are in the nearest cache.
    for (std::size_t i = queue.first_served; i < queue.end_served; ++i) {
      served_[i].target->serve_port(now, served_[i].index);
    }
  }
  return work;
}

std::uint32_t Worker::poll_rings(TimeNs now) noexcept {
  std::uint32_t work = 0;
  for (std::uint16_t from = 0; from < rings_.workers(); ++from) {
    if (from == id_) continue;
    rte_mbuf* packets[Batch::kCapacity];
    const std::uint16_t count = rings_.ring(from, id_).pop(packets, Batch::kCapacity);
    work += count;
    // Runs of packets for the same switch go in together.
    for (std::uint16_t first = 0; first < count;) {
      const std::uint8_t target = pipeline::meta(packets[first]).switch_index;
      auto end = static_cast<std::uint16_t>(first + 1);
      while (end < count && pipeline::meta(packets[end]).switch_index == target) ++end;
      pipelines_[target]->take_handoff(now, packets + first, static_cast<std::uint16_t>(end - first));
      first = end;
    }
  }
  return work;
}

void Worker::rest(TimeNs now) noexcept {
  if (idle_ == control::IdleMode::poll) return rte_pause();
  const bool adaptive = idle_ == control::IdleMode::adaptive;
  if (adaptive && now - idle_since_ < kSpinNs) return rte_pause();
  nap_ns_ = std::min(std::max(nap_ns_ * 2, kFirstNapNs), adaptive ? kLongestAdaptiveNapNs : kLongestNapNs);
  TimeNs nap = nap_ns_;
  for (const pipeline::Pipeline* p : pipelines_) {
    const TimeNs deadline = p->next_deadline();
    nap = deadline <= now ? 0 : std::min(nap, deadline - now);
    if (nap == 0) return;
  }
  const timespec duration{0, static_cast<long>(nap)};
  nanosleep(&duration, nullptr);
  sleeps_.add(1);
}

void Worker::run_task() noexcept {
  const std::function<void()>* task = task_.load(std::memory_order_acquire);
  (*task)();
  task_.store(nullptr, std::memory_order_release);
}

void Worker::call(const std::function<void()>& task) {
  const std::lock_guard lock(call_mutex_);
  task_.store(&task, std::memory_order_release);
  while (task_.load(std::memory_order_acquire) != nullptr) std::this_thread::sleep_for(std::chrono::microseconds(20));
}

Worker::Usage Worker::usage() const noexcept {
  return {loops_.value(), busy_loops_.value(), sleeps_.value(), cycles_.value(), busy_cycles_.value()};
}

}  // namespace weft
