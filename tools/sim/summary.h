// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// What a run came to, as JSON.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tools/sim/simulation.h"

namespace weft::sim {

/// How a run ended, what it took, and what was run.
struct RunFacts {
  bool complete = false;     ///< all transfers ended
  bool interrupted = false;  ///< somebody ended it before
  double wall_s = 0;         ///< of the run itself
  double cpu_s = 0;          ///< the same, in time of a CPU
  double build_s = 0;
  std::string file{};               ///< the experiment
  std::vector<std::string> sets{};  ///< key=value, what replaced values of the file
  std::string version{}, date{};    ///< of the program, and when; "" leaves them out of the report
};

/// The time that a transfer takes alone, and its acknowledgement: every packet waits for the one before it on the
/// slowest link of the way alone.
[[nodiscard]] TimeNs standalone_ns(const Experiment& experiment, const Transfer& transfer);

/// The keys of the `summary`: see README.md. What a run that did not end cannot tell is null. `stages` has all counters
/// of all stages, each summed up over the switches; `stages_most` gauges, of the switch that has the largest.
[[nodiscard]] nlohmann::ordered_json summary_of(const Simulation& simulation, const RunFacts& facts);

/// All of a run: name, title, what was run, seed, configuration, summary, transfers, curves, paths, drops by reason,
/// and which switch told whom to pause, how often.
[[nodiscard]] nlohmann::ordered_json report_of(const Simulation& simulation, const RunFacts& facts);

}  // namespace weft::sim
