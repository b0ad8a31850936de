// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/runtime/worker.h"

#include <linux/membarrier.h>
#include <rte_pause.h>
#include <rte_prefetch.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <thread>

namespace weft {
namespace {

using pipeline::Batch;

// Adaptive workers poll this long after the last packet: longer than a host takes to answer over veth, short enough to
// give the core away between messages.
constexpr TimeNs kSpinNs = 50'000;
constexpr TimeNs kFirstNapNs = 20'000;
constexpr TimeNs kLongestAdaptiveNapNs = 250'000;
constexpr TimeNs kLongestNapNs = 1'000'000;
// A loop in which every port has a full burst.
constexpr TimeNs kLongestLoopNs = 50'000;
// What the kernel may take to wake a sleeper; deadlines that are nearer are waited for.
constexpr TimeNs kWakeUpNs = 30'000;
constexpr std::chrono::microseconds kPauseStep{10};
// Packets of rings after which a worker looks at its ports again, and not at the rings once more: less than
// kLongestLoopNs.
constexpr std::uint32_t kMostHandedIn = 4 * Batch::kCapacity;

// Packets that a worker puts into rings before it tells the others of them, if its loop does not end before.
constexpr std::uint32_t kMostUntold = 4 * Batch::kCapacity;

// Another CPU has written these lines last. Each costs as much as handling the packet when it is waited for alone, and
// little when all are under way together. The frame is taken to be where buffers of one segment have it, because its
// real place is in a line that has yet to come.
void prefetch(rte_mbuf* const* packets, std::uint32_t count) noexcept {
  for (std::uint32_t i = 0; i < count; ++i) {
    const auto* line = reinterpret_cast<const char*>(packets[i]);
    rte_prefetch0(line + sizeof(rte_mbuf));
    rte_prefetch0(line);
    rte_prefetch0(line + sizeof(rte_mbuf) + pipeline::kMetaSize + RTE_PKTMBUF_HEADROOM);
    rte_prefetch0(line + RTE_CACHE_LINE_MIN_SIZE);
  }
}

}  // namespace

TimeNs Worker::longest_absence(config::IdleMode idle) noexcept {
  if (idle == config::IdleMode::poll) return kLongestLoopNs;
  return kLongestLoopNs + (idle == config::IdleMode::adaptive ? kLongestAdaptiveNapNs : kLongestNapNs);
}

void Worker::set_polling(Polling polling) {
  polling_ = std::move(polling);
  const auto& served = polling_.served_;
  for (Polling::Target& target : polling_.by_index_) {
    if (target.pipeline == nullptr) continue;
    const auto ours = [&](const Polling::Served& port) { return port.target == target.pipeline; };
    const auto first = std::find_if(served.begin(), served.end(), ours);
    target.first_served = static_cast<std::size_t>(first - served.begin());
    target.end_served = static_cast<std::size_t>(std::find_if_not(first, served.end(), ours) - served.begin());
  }
}

void Worker::run() {
  static_cast<void>(ready_.load(std::memory_order_acquire));
  // The kernel may delay a sleeper by the slack; its default of 50 us is more than a nap.
  prctl(PR_SET_TIMERSLACK, 1000UL, 0UL, 0UL, 0UL);
  std::uint64_t before = rte_rdtsc();
  in_burst_.store(true, std::memory_order_release);
  while (!stop_.load(std::memory_order_relaxed)) {
    // The counter is read once per loop: that costs as much as some packets.
    TimeNs now = clock_.at(before);
    if (task_.load(std::memory_order_relaxed) != nullptr) [[unlikely]] {
      run_task();
      now = clock_.now();
    }
    std::uint32_t work = poll_queues(now);
    if (rings_.workers() > 1) work += poll_rings(now, true);
    for (pipeline::Pipeline* p : polling_.pipelines_) p->run_timers(now);
    for (const Polling::Served& served : polling_.served_) work += served.target->serve_port(now, served.index);
    tell_others();

    std::uint64_t after = rte_rdtsc();
    loops_.add(1);
    if (work != 0) {
      busy_loops_.add(1);
      busy_cycles_.add(after - before);
      idle_since_ = now;
      nap_ns_ = kFirstNapNs;
    } else {
      rest(now);
      after = rte_rdtsc();
    }
    cycles_.add(after - before);
    before = after;
  }
  in_burst_.store(false, std::memory_order_release);
}

// Whatever a worker reads after the barrier is what it is now, and what it has written before can be seen here. So the
// workers need no barriers of their own.
void Worker::await_bursts(const std::vector<std::unique_ptr<Worker>>& workers) {
  static const bool kRegistered = syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;
  // Every kernel since 4.14 has the expedited membarrier; older ones, and sandboxes that forbid it, use the slow one.
  if (!kRegistered || syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) != 0) {
    syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0);
  }
  for (const auto& worker : workers) {
    const std::uint64_t before = worker->loops_.value();
    while (worker->in_burst_.load(std::memory_order_acquire) && worker->loops_.value() == before) {
      std::this_thread::sleep_for(kPauseStep);
    }
  }
}

std::uint32_t Worker::poll_queues(TimeNs now) noexcept {
  const bool receiving = receiving_.load(std::memory_order_relaxed);
  std::uint32_t work = 0;
  for (const Polling::Queue& queue : polling_.queues_) {
    if (queue.external && !receiving) continue;
    rte_mbuf* packets[Batch::kCapacity];
    const std::uint16_t count = queue.port->receive(now, queue.queue, packets, burst_);
    if (count == 0) continue;
    work += count;
    queue.target->receive(now, queue.index, packets, count);
    send_queued(now, polling_.by_index_[queue.switch_index], count);
    if (untold_packets_ >= kMostUntold) tell_others();
  }
  if (work != 0) received_.add(work);
  return work;
}

// What has come in leaves at once, while its buffers are in the nearest cache; what is too little, at the end of the
// loop. All of it may be for one port.
void Worker::send_queued(TimeNs now, const Polling::Target& target, std::uint32_t came) noexcept {
  if (!target.pipeline->queued()) return;
  for (std::size_t i = target.first_served; i < target.end_served; ++i) {
    const pipeline::PortIndex port = polling_.served_[i].index;
    if (!target.pipeline->worth_serving(port)) continue;
    std::uint32_t left = came;
    while (target.pipeline->serve_port(now, port) != 0 && left > pipeline::EgressQueue::kBurst) {
      left -= pipeline::EgressQueue::kBurst;
    }
  }
}

void Worker::retry_control() noexcept {
  control_waits_ = false;
  for (std::uint16_t to = 0; to < rings_.workers(); ++to) {
    ControlRing& ring = rings_.control(id_, to);
    if (ring.retry() != 0) {
      untold_.add(to);
      to_wake_.add(to);
    }
    control_waits_ |= ring.waits();
  }
}

// Once in a loop, because both of it wait until everything that this CPU has written before can be seen by others.
void Worker::tell_others() noexcept {
  if (untold_.empty() && to_wake_.empty()) return;
  untold_.for_each([this](std::uint16_t to) { rings_.news(to).tell(id_); });
  to_wake_.for_each([this](std::uint16_t to) { rings_.bell(to).ring(); });
  untold_ = {};
  to_wake_ = {};
  untold_packets_ = 0;
}

// What others bring is taken before more is received: packets that wait in rings for long fall out of the caches.
std::uint32_t Worker::poll_rings(TimeNs now, bool send) noexcept {
  std::uint32_t work = 0;
  if (control_waits_) [[unlikely]]
    retry_control();
  const auto take = [&](auto& ring) {
    rte_mbuf* packets[Batch::kCapacity];
    const auto count = static_cast<std::uint16_t>(ring.pop(packets, Batch::kCapacity));
    if (count == 0) return false;
    prefetch(packets, count);
    take_handoff(now, packets, count, send);
    work += count;
    return count == Batch::kCapacity;
  };
  // A ring that did not fill a batch is empty: whoever puts something there later tells of it later.
  do {
    told_.add(rings_.news(id_).take());
    WorkerSet more;
    told_.for_each([&](std::uint16_t from) {
      if (take(rings_.control(from, id_))) more.add(from);
    });
    told_.for_each([&](std::uint16_t from) {
      if (take(rings_.ring(from, id_))) more.add(from);
    });
    told_ = more;
    if (untold_packets_ >= kMostUntold) tell_others();
  } while (!told_.empty() && work < kMostHandedIn);
  if (work != 0) handed_in_.add(work);
  return work;
}

// Runs of packets for the same switch go in together.
void Worker::take_handoff(TimeNs now, rte_mbuf** packets, std::uint16_t count, bool send) noexcept {
  for (std::uint16_t first = 0; first < count;) {
    const std::uint8_t index = pipeline::meta(packets[first]).switch_index;
    auto end = static_cast<std::uint16_t>(first + 1);
    while (end < count && pipeline::meta(packets[end]).switch_index == index) ++end;
    const Polling::Target& target = polling_.by_index_[index];
    target.pipeline->take_handoff(now, packets + first, static_cast<std::uint16_t>(end - first));
    if (send) send_queued(now, target, end - first);
    first = end;
  }
}

bool Worker::urgent() const noexcept {
  return control_waits_ || std::any_of(polling_.pipelines_.begin(), polling_.pipelines_.end(),
                                       [](const pipeline::Pipeline* p) { return p->urgent(); });
}

void Worker::rest(TimeNs now) noexcept {
  if (idle_ == config::IdleMode::poll) return rte_pause();
  const bool adaptive = idle_ == config::IdleMode::adaptive;
  if ((adaptive && now - idle_since_ < kSpinNs) || urgent()) return rte_pause();
  nap_ns_ = std::min(std::max(nap_ns_ * 2, kFirstNapNs), adaptive ? kLongestAdaptiveNapNs : kLongestNapNs);
  const TimeNs until = nap_until(now);
  // Time has passed since `now` was read.
  const TimeNs here = clock_.now();
  if (until <= here) return rte_pause();
  in_burst_.store(false, std::memory_order_release);
  const bool slept = rings_.bell(id_).sleep(until - here, [this] {
    return told_.empty() && !rings_.news(id_).any() && !urgent() && task_.load(std::memory_order_relaxed) == nullptr &&
           !stop_.load(std::memory_order_relaxed);
  });
  in_burst_.store(true, std::memory_order_release);
  if (slept) sleeps_.add(1);
}

// When to wake up: after the nap, but before the next deadline. A port whose deadline has passed and that made no
// progress has a busy device, of which nothing says when it will be ready: it is asked again after the nap.
TimeNs Worker::nap_until(TimeNs now) const noexcept {
  TimeNs deadline = kNever;
  for (const pipeline::Pipeline* p : polling_.pipelines_) deadline = std::min(deadline, p->stage_deadline());
  for (const Polling::Served& served : polling_.served_) {
    const TimeNs due = served.target->port_deadline(served.index);
    if (due > now) deadline = std::min(deadline, due);
  }
  for (const Polling::Queue& queue : polling_.queues_) {
    const TimeNs due = queue.port->next_receive();
    if (due > now) deadline = std::min(deadline, due);
  }
  return std::min(now + nap_ns_, deadline < kWakeUpNs ? 0 : deadline - kWakeUpNs);
}

std::uint32_t Worker::collect(TimeNs now) noexcept {
  told_ = senders();
  std::uint32_t moved = rings_.workers() > 1 ? poll_rings(now, false) : 0;
  for (const Polling::Queue& queue : polling_.queues_) {
    if (queue.external) continue;
    rte_mbuf* packets[Batch::kCapacity];
    const std::uint16_t count = queue.port->receive(now, queue.queue, packets, burst_);
    if (count != 0) queue.target->receive(now, queue.index, packets, count);
    moved += count;
  }
  return moved;
}

void Worker::run_task() noexcept {
  const std::function<void()>* task = task_.load(std::memory_order_acquire);
  in_burst_.store(false, std::memory_order_release);
  (*task)();
  in_burst_.store(true, std::memory_order_release);
  told_ = senders();
  task_.store(nullptr, std::memory_order_release);
}

void Worker::call(const std::function<void()>& task) {
  const std::lock_guard lock(call_mutex_);
  task_.store(&task, std::memory_order_release);
  rings_.bell(id_).ring();
  while (task_.load(std::memory_order_acquire) != nullptr) std::this_thread::sleep_for(std::chrono::microseconds(20));
}

void Worker::ask_to_pause() {
  call_mutex_.lock();
  pause_.store(Pause::asked, std::memory_order_relaxed);
  task_.store(&pause_task_, std::memory_order_release);
  rings_.bell(id_).ring();
}

void Worker::wait_until_paused() const {
  while (pause_.load(std::memory_order_acquire) != Pause::stands) std::this_thread::sleep_for(kPauseStep);
}

void Worker::go_on() {
  pause_.store(Pause::none, std::memory_order_release);
  while (task_.load(std::memory_order_acquire) != nullptr) std::this_thread::sleep_for(kPauseStep);
  call_mutex_.unlock();
}

// Runs on the worker, which sleeps instead of spinning because the thread that waits for it may need its CPU.
void Worker::pause() noexcept {
  pause_.store(Pause::stands, std::memory_order_release);
  while (pause_.load(std::memory_order_acquire) != Pause::none) std::this_thread::sleep_for(kPauseStep);
}

WorkerUsage Worker::usage() const noexcept {
  return {.loops = loops_.value(),
          .busy_loops = busy_loops_.value(),
          .sleeps = sleeps_.value(),
          .cycles = cycles_.value(),
          .busy_cycles = busy_cycles_.value(),
          .received = received_.value(),
          .handed_in = handed_in_.value(),
          .handed_out = handed_out_.value(),
          .rings_full = rings_full_.value()};
}

}  // namespace weft
