// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Every combination of the values in the `sweep` section of an experiment, each in a process of its own.
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "tools/sim/experiment.h"

namespace weft::sim {

/// The combinations, the last key changing fastest. A key may name several, separated by commas, whose values then go
/// together, separated in the same way by semicolons; an empty value leaves its key alone.
[[nodiscard]] std::vector<std::vector<Override>> sweep_points(const config::Value& sweep);

struct SweepOptions {
  std::string file;
  std::string folder;             ///< for the results; runs whose result is there are not run again
  std::vector<std::string> sets;  ///< overrides of all runs
  unsigned jobs = 0;              ///< processes at a time; 0: as many as CPUs
};

/// Runs what is missing. Returns the exit code.
[[nodiscard]] int run_sweep(const SweepOptions& options, const Experiment& experiment, const std::atomic<bool>& stop);

}  // namespace weft::sim
