// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Every combination of the values in the `sweep` section of an experiment, each in a process of its own.
#pragma once

#include <atomic>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "tools/sim/experiment.h"

namespace weft::sim {

/// The combinations, the last key changing fastest. A key may name several, separated by commas, whose values then go
/// together, separated in the same way by semicolons; an empty value leaves its key alone.
[[nodiscard]] std::vector<std::vector<Override>> sweep_points(const config::Value& sweep);

struct SweepOptions {
  std::string file;
  std::string text;            ///< what the file holds
  std::string folder;          ///< for the results
  std::vector<Override> sets;  ///< of all runs
  unsigned jobs = 0;           ///< processes at a time; 0: as many as CPUs
};

/// What a finished run has left in its file; nullopt when it is not there, not whole, or of a run that was interrupted.
[[nodiscard]] std::optional<nlohmann::ordered_json> read_result(const std::string& path);

/// Runs every combination whose result is not there yet, and writes sweep.json and sweep.csv. All values are checked
/// before the first one runs. Messages go to standard error, the table of results to standard output.
/// @param stop  set by a signal: no run begins any more, and those under way are ended
/// @return the exit code
[[nodiscard]] int run_sweep(const SweepOptions& options, const Experiment& experiment,
                            const pipeline::Registry& registry, const std::atomic<bool>& stop);

}  // namespace weft::sim
