// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// One core's loop: polls its receive queues, runs pipelines to completion, serves the egress queues of its ports.
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "switch/config/config.h"
#include "switch/observe/running.h"
#include "switch/pipeline/packet_ring.h"
#include "switch/pipeline/pipeline.h"
#include "switch/ports/port.h"
#include "switch/runtime/clock.h"
#include "switch/runtime/control_ring.h"
#include "switch/runtime/doorbell.h"
#include "switch/runtime/ring_news.h"

namespace weft {

/// What the workers of a process have for each other: packets, word of them, and bells that end a nap.
class HandoffRings {
 public:
  static constexpr std::uint32_t kCapacity = pipeline::PacketRing::kCapacity;

  /// @param workers  at most WorkerSet::kMost
  explicit HandoffRings(std::uint16_t workers)
      : packets_(workers),
        control_(workers),
        news_(std::make_unique<RingNews[]>(workers)),
        bells_(std::make_unique<Doorbell[]>(workers)) {}

  [[nodiscard]] std::uint16_t workers() const noexcept { return packets_.workers(); }
  [[nodiscard]] pipeline::PacketRing& ring(std::uint16_t from, std::uint16_t to) noexcept {
    return packets_.ring(from, to);
  }
  /// Of PAUSE and PFC frames, which have rings of their own so that they wait behind no other packet.
  [[nodiscard]] ControlRing& control(std::uint16_t from, std::uint16_t to) const noexcept {
    return control_.ring(from, to);
  }
  /// Which of both rings to a worker have to be looked at.
  [[nodiscard]] RingNews& news(std::uint16_t to) noexcept { return news_[to]; }
  [[nodiscard]] Doorbell& bell(std::uint16_t worker) noexcept { return bells_[worker]; }

 private:
  SpscMesh<rte_mbuf*, kCapacity> packets_;
  RingMesh<ControlRing> control_;
  std::unique_ptr<RingNews[]> news_;
  std::unique_ptr<Doorbell[]> bells_;
};

/// What one worker polls and serves.
class Polling {
 public:
  void add(pipeline::Pipeline& target) {
    pipelines_.push_back(&target);
    by_index_[target.state().info().index].pipeline = &target;
  }
  void poll(pipeline::Pipeline& target, ports::Port& port, pipeline::PortIndex index, std::uint16_t queue,
            bool external) {
    queues_.push_back({&target, &port, index, queue, external, target.state().info().index});
  }
  /// Ports of one switch are added one after the other.
  void serve(pipeline::Pipeline& target, pipeline::PortIndex index) { served_.push_back({&target, index}); }

 private:
  friend class Worker;
  struct Queue {
    pipeline::Pipeline* target;
    ports::Port* port;
    pipeline::PortIndex index;
    std::uint16_t queue;
    bool external;
    std::uint8_t switch_index;
  };
  struct Served {
    pipeline::Pipeline* target;
    pipeline::PortIndex index;
  };
  struct Target {
    pipeline::Pipeline* pipeline = nullptr;
    std::size_t first_served = 0, end_served = 0;  ///< its ports in served_
  };
  std::vector<pipeline::Pipeline*> pipelines_;
  std::array<Target, 256> by_index_{};  ///< by SwitchInfo::index
  std::vector<Queue> queues_;
  std::vector<Served> served_;
};

class Worker : public pipeline::Handoff {
 public:
  Worker(std::uint16_t id, const Clock& clock, config::IdleMode idle, std::uint16_t burst, HandoffRings& rings)
      : id_(id), clock_(clock), idle_(idle), burst_(burst), rings_(rings) {}

  // Before run(), or while the worker is paused.
  void set_polling(Polling polling);
  void set_idle(config::IdleMode idle) noexcept { idle_ = idle; }

  /// Longest time in nanoseconds in which a worker looks at none of its ports, naps included, while the machine gives
  /// it a CPU of its own.
  [[nodiscard]] static TimeNs longest_absence(config::IdleMode idle) noexcept;

  /// The loop; returns after stop(). Runs on the worker's own thread.
  void run();
  /// The thread that starts the worker's calls these before it does and after it has waited for its end. The EAL orders
  /// the two threads, but ThreadSanitizer does not see into it.
  void about_to_run() noexcept { ready_.store(true, std::memory_order_release); }
  void has_ended() const noexcept { static_cast<void>(in_burst_.load(std::memory_order_acquire)); }

  // Control thread.
  void stop() noexcept {
    stop_.store(true, std::memory_order_release);
    rings_.bell(id_).ring();
  }
  /// After run() has returned, on any thread: moves what links and rings between workers still hold into the pipelines,
  /// without sending anything. Returns how many packets.
  std::uint32_t collect(TimeNs now) noexcept;
  /// Whether ports to the outside are polled. Links and rings always are.
  void set_receiving(bool on) noexcept { receiving_.store(on, std::memory_order_release); }
  /// Runs `task` on the worker between two bursts and waits for it. Tasks are short: forwarding waits.
  void call(const std::function<void()>& task);

  /// Makes the worker stand still between two bursts: ask, then wait until it stands. Until go_on() the calling thread
  /// may do anything with what the worker uses; other callers of call() wait.
  void ask_to_pause();
  void wait_until_paused() const;
  void go_on();

  /// Returns when none of the workers is in a burst that it had begun before: what a device gave up before the call,
  /// nobody uses any more. Waits as long as that takes; a worker that naps, runs a task or has ended is in no burst.
  /// Any thread but a worker.
  static void await_bursts(const std::vector<std::unique_ptr<Worker>>& workers);

  [[nodiscard]] WorkerUsage usage() const noexcept;

  // Handoff.
  std::uint16_t push(std::uint16_t worker, rte_mbuf* const* packets, std::uint16_t count) noexcept override {
    const auto taken = static_cast<std::uint16_t>(rings_.ring(id_, worker).push(packets, count));
    handed_out_.add(taken);
    untold_packets_ += taken;
    untold_.add(worker);
    if (taken < count) rings_full_.add(1);
    return taken;
  }
  /// False: ControlRing::push() says what has become of what the frame says.
  bool push_control(std::uint16_t worker, rte_mbuf* m) noexcept override {
    ControlRing& ring = rings_.control(id_, worker);
    const bool taken = ring.push(m);
    control_waits_ |= ring.waits();
    untold_.add(worker);
    return taken;
  }
  void wake(std::uint16_t worker) noexcept override { to_wake_.add(worker); }

 private:
  std::uint32_t poll_queues(TimeNs now) noexcept;
  std::uint32_t poll_rings(TimeNs now, bool send) noexcept;
  /// Who may put something into this worker's rings. A worker that is the only one never looks into any.
  [[nodiscard]] WorkerSet senders() const noexcept {
    return rings_.workers() > 1 ? WorkerSet::first(rings_.workers()) : WorkerSet{};
  }
  void tell_others() noexcept;
  void retry_control() noexcept;
  void take_handoff(TimeNs now, rte_mbuf** packets, std::uint16_t count, bool send) noexcept;
  void send_queued(TimeNs now, const Polling::Target& target, std::uint32_t came) noexcept;
  [[nodiscard]] bool urgent() const noexcept;
  void rest(TimeNs now) noexcept;
  [[nodiscard]] TimeNs nap_until(TimeNs now) const noexcept;
  void run_task() noexcept;
  void pause() noexcept;

  std::uint16_t id_;
  const Clock& clock_;
  config::IdleMode idle_;
  std::uint16_t burst_;
  HandoffRings& rings_;
  Polling polling_;

  TimeNs idle_since_ = 0;
  TimeNs nap_ns_ = 0;
  bool control_waits_ = false;  ///< PAUSE and PFC frames wait for room in a ring
  /// Whose rings may hold something that this worker has been told of. At first, and after a task, which may have put
  /// something there, all of them.
  WorkerSet told_ = senders();
  WorkerSet untold_;                  ///< who has not been told yet of what this worker has put into its rings
  WorkerSet to_wake_;                 ///< who is to be woken when they are told
  std::uint32_t untold_packets_ = 0;  ///< put into rings since others were told
  Counter loops_, busy_loops_, sleeps_, cycles_, busy_cycles_;
  Counter received_, handed_in_, handed_out_, rings_full_;

  alignas(64) std::atomic<bool> stop_{false};
  std::atomic<bool> ready_{false};
  std::atomic<bool> in_burst_{false};  ///< cleared for naps and tasks only: loops_ tells one burst from the next
  std::atomic<bool> receiving_{true};
  std::atomic<const std::function<void()>*> task_{nullptr};
  std::mutex call_mutex_;
  const std::function<void()> pause_task_ = [this] { pause(); };
  enum class Pause : std::uint8_t { none, asked, stands };
  std::atomic<Pause> pause_{Pause::none};
};

}  // namespace weft
