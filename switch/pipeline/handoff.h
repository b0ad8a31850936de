// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// How packets of one worker reach the other workers of the process.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "switch/base/worker_set.h"
#include "switch/pipeline/packet.h"
#include "switch/qos/block_queue.h"

namespace weft::pipeline {

/// The rings to the other workers, as one worker uses them.
class Handoff {
 public:
  virtual ~Handoff() = default;
  /// Takes packets from the front and returns how many. For the others the ring has no room: they stay the caller's.
  [[nodiscard]] virtual std::uint16_t push(std::uint16_t worker, rte_mbuf* const* packets,
                                           std::uint16_t count) noexcept = 0;
  /// A PAUSE or PFC frame for the owner of the port where it came in. It does not wait behind other packets: `worker`
  /// looks for such frames before everything else. False: the frame stays the caller's, who frees it; what it says of
  /// each port and priority reaches `worker` all the same, unless it says nothing.
  [[nodiscard]] virtual bool push_control(std::uint16_t worker, rte_mbuf* m) noexcept = 0;
  /// Something waits for `worker` that it must look at, although it may be napping. The host may gather such news for
  /// a loop of its own.
  virtual void wake(std::uint16_t worker) noexcept = 0;
};

/// What a pipeline has for other workers. Packets gather here while a burst runs and go into the rings together; those
/// that find no room there wait here, in order, and go before all that come later.
class Outbox {
 public:
  /// @param workers  at most WorkerSet::kMost
  /// @param most     packets that may wait here together
  Outbox(std::uint16_t workers, std::size_t most)
      : queues_(workers), blocks_(std::make_unique<Blocks>(Blocks::blocks_for(most, workers))) {}

  /// False when more than `most` packets wait: the packet stays the caller's.
  [[nodiscard]] bool push(std::uint16_t worker, rte_mbuf* m) noexcept {
    if (!queues_[worker].push(*blocks_, m)) [[unlikely]]
      return false;
    ++size_;
    waiting_.add(worker);
    return true;
  }
  /// Packets for one worker, and for all of them.
  [[nodiscard]] std::uint32_t size(std::uint16_t worker) const noexcept { return queues_[worker].size(); }
  [[nodiscard]] std::uint32_t size() const noexcept { return size_; }

  /// Moves into the rings what finds room there; returns how many packets.
  std::uint32_t flush(Handoff& rings) noexcept {
    std::uint32_t moved = 0;
    WorkerSet left;
    waiting_.for_each([&](std::uint16_t worker) {
      const std::uint32_t sent = flush(rings, worker);
      if (sent != 0) rings.wake(worker);
      moved += sent;
      if (!queues_[worker].empty()) left.add(worker);
    });
    waiting_ = left;
    return moved;
  }

  /// Any packet; nullptr when there is none.
  [[nodiscard]] rte_mbuf* take_any() noexcept {
    for (Queue& queue : queues_) {
      if (queue.empty()) continue;
      --size_;
      return queue.pop(*blocks_);
    }
    return nullptr;
  }
  /// Takes everything out in order, calling f(worker, packet).
  template <typename F>
  void drain(F&& f) {
    for (std::uint16_t worker = 0; worker < queues_.size(); ++worker) {
      while (!queues_[worker].empty()) {
        --size_;
        f(worker, queues_[worker].pop(*blocks_));
      }
    }
  }

 private:
  using Blocks = qos::BlockPool<rte_mbuf*>;
  using Queue = qos::BlockQueue<rte_mbuf*>;

  std::uint32_t flush(Handoff& rings, std::uint16_t worker) noexcept {
    Queue& queue = queues_[worker];
    std::uint32_t sent = 0;
    while (!queue.empty()) {
      const auto run = queue.front_run();
      const auto count = static_cast<std::uint16_t>(run.size());
      const std::uint16_t taken = rings.push(worker, run.data(), count);
      queue.pop_run(*blocks_, taken);
      sent += taken;
      if (taken < count) break;
    }
    size_ -= sent;
    return sent;
  }

  std::vector<Queue> queues_;  ///< by worker
  std::unique_ptr<Blocks> blocks_;
  WorkerSet waiting_;  ///< whose queues may hold something
  std::uint32_t size_ = 0;
};

}  // namespace weft::pipeline
