// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Every combination of the values in the `sweep` section of an experiment, each in a process of its own.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "switch/config/schema/schema.h"
#include "tools/experiment/overrides.h"

namespace weft::experiment {

/// The combinations, the last key changing fastest. A key may name several, separated by commas, whose values then go
/// together, separated in the same way by semicolons; an empty value leaves its key alone.
/// @param sweep  keys with their values, or a list of such maps, whose combinations come one map after the other
[[nodiscard]] std::vector<std::vector<Override>> sweep_points(const config::Value& sweep);

/// What a run takes.
struct RunDemand {
  bool large = false;       ///< it is worth several threads
  std::uint64_t bytes = 0;  ///< of memory
};

/// What differs from program to program. Each takes `run FILE --quiet --json FILE --set KEY=VALUE...`.
struct SweepProgram {
  std::string name;
  /// Mistakes of an experiment with these values, in lines; "" when it can run.
  std::function<std::string(const std::vector<Override>&)> check;
  /// What a finished run has left in its file; nullopt when it is not there, not whole, or of an interrupted run.
  std::function<std::optional<nlohmann::ordered_json>(const std::string& path)> read_result;
  /// What a run with these values takes; without this function all are small. Large ones are begun after the small
  /// ones, with `--threads N` where CPUs would have nothing to do: because few runs are left, or for want of memory.
  std::function<RunDemand(const std::vector<Override>&)> demand{};
  /// Prints a line of the table of results.
  std::function<void(const std::string& label, const nlohmann::ordered_json& summary)> print_row;
};

struct SweepOptions {
  std::string file;
  std::string text;            ///< what the file holds
  std::string folder;          ///< for the results
  std::vector<Override> sets;  ///< of all runs
  unsigned jobs = 0;           ///< processes at a time, of one thread; 0: what uses all CPUs
  SweepProgram program;
};

/// Threads of a large run that is about to begin.
/// @param free   CPUs without work
/// @param left   runs that have not begun, this one included
/// @param slots  runs that find memory now, this one included
[[nodiscard]] unsigned threads_of(unsigned free, std::size_t left, std::uint64_t slots) noexcept;

/// A report of a run that was not interrupted, whose summary has these keys; nullopt for any other file.
[[nodiscard]] std::optional<nlohmann::ordered_json> read_whole(const std::string& path,
                                                               const std::vector<std::string>& keys);

/// Runs every combination whose result is not there yet, and writes sweep.json, sweep.csv and sweep.html. All
/// values are checked before the first one runs. Messages go to standard error, the table of results to standard
/// output.
/// @param sweep  the section of the experiment
/// @param stop   set by a signal: no run begins any more, and those under way are ended
/// @return the exit code
[[nodiscard]] int run_sweep(const SweepOptions& options, const config::Value& sweep, const std::atomic<bool>& stop);

/// A number of a summary, or a dash where the run could not tell.
[[nodiscard]] std::string shown(const nlohmann::ordered_json& value, int decimals);

}  // namespace weft::experiment
