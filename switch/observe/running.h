// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// What observe sees of a running process. Whoever runs it makes these views for the time of one call, under the lock
// that keeps a reload from exchanging what they refer to.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "switch/base/time.h"
#include "switch/pipeline/pipeline.h"
#include "switch/pipeline/switch_state.h"
#include "switch/ports/port.h"

namespace weft {

/// One switch.
struct RunningSwitch {
  const pipeline::SwitchState& state;
  std::span<const std::shared_ptr<ports::Port>> ports;             ///< by PortIndex
  std::span<const std::unique_ptr<pipeline::Pipeline>> pipelines;  ///< by worker
  std::uint64_t id = 0;                                            ///< as in PortRates::Key
};

/// What a worker has done since it began. All only grow.
struct WorkerUsage {
  std::uint64_t loops = 0, busy_loops = 0, sleeps = 0;
  std::uint64_t cycles = 0, busy_cycles = 0;  ///< of the time stamp counter
  std::uint64_t received = 0;                 ///< packets from ports and links that the worker polls
  std::uint64_t handed_in = 0;                ///< packets that other workers have brought
  std::uint64_t handed_out = 0;               ///< packets that were brought to other workers
  std::uint64_t rings_full = 0;               ///< times that the ring to another worker could not take a burst whole
};

struct RunningWorker {
  unsigned cpu = 0;
  int numa_node = 0;  ///< of the CPU
  WorkerUsage usage;
};

/// Runs the task where it cannot meet a burst of the worker, and returns when it has run.
using OnWorker = std::function<void(std::size_t worker, const std::function<void()>& task)>;

}  // namespace weft
