// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// What the log says of workers and their packets when a switch starts, and when a reload changes it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "switch/pipeline/steer.h"

namespace weft {

/// Which packets come to their workers by themselves, because a card with RSS brings them there, and which are handed
/// over in software however many receive queues a card has. Nothing without such a card.
[[nodiscard]] std::vector<std::string> describe_steering(const pipeline::Steering& steer);

struct PlacedWorker {
  unsigned cpu = 0;
  int numa_node = 0;
};

struct PlacedPort {
  std::string name{};
  std::uint16_t worker = 0;  ///< that owns it
  int numa_node = -1;        ///< of its device; negative where that is not known
};

struct PlacementLine {
  bool warning = false;
  std::string text{};
};

/// Who does what: a line for each worker with its ports, and a warning for those of its ports whose devices are on
/// another NUMA node than its CPU.
[[nodiscard]] std::vector<PlacementLine> describe_placement(std::span<const PlacedWorker> workers,
                                                            std::span<const PlacedPort> ports);

/// A line for each worker that has finished no loop in the time that it had to begin.
/// @param loops  finished, by worker
/// @param cpus   of the workers, as many
/// @param seconds  how long they had
[[nodiscard]] std::vector<std::string> describe_not_begun(std::span<const std::uint64_t> loops,
                                                          std::span<const unsigned> cpus, unsigned seconds);

}  // namespace weft
