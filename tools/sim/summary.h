// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// What a run came to, as JSON.
#pragma once

#include <nlohmann/json.hpp>

#include "tools/sim/simulation.h"

namespace weft::sim {

/// How a run ended, and what it took.
struct RunFacts {
  bool complete = false;  ///< all transfers ended
  double wall_s = 0;      ///< of the run itself
  double cpu_s = 0;       ///< the same, in time of a CPU
  double build_s = 0;
};

/// The time that a transfer takes alone, and its acknowledgement: every packet waits for the one before it on the
/// slowest link of the way alone.
[[nodiscard]] TimeNs standalone_ns(const Experiment& experiment, const Transfer& transfer);

/// The keys of the `summary`: see README.md.
[[nodiscard]] nlohmann::ordered_json summary_of(const Simulation& simulation, const RunFacts& facts);

/// All of a run: name, seed, configuration, summary, transfers, curves, paths, drops by reason.
[[nodiscard]] nlohmann::ordered_json report_of(const Simulation& simulation, const RunFacts& facts);

}  // namespace weft::sim
