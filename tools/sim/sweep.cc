// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "tools/sim/sweep.h"

#include <cstdio>

#include "switch/config/config.h"
#include "tools/sim/experiment.h"

namespace weft::sim {

experiment::SweepProgram sweep_program(const std::string& text, const std::string& file,
                                       const pipeline::Registry& registry) {
  experiment::SweepProgram program;
  program.name = "weft-sim";
  program.check = [text, file, &registry](const std::vector<Override>& overrides) {
    config::Diagnostics diagnostics;
    const bool fine = load_experiment(text, file, overrides, registry, diagnostics).has_value();
    return fine ? std::string() : config::format(diagnostics);
  };
  program.demand = [text, file, &registry](const std::vector<Override>& overrides) {
    config::Diagnostics diagnostics;
    const auto experiment = load_experiment(text, file, overrides, registry, diagnostics);
    if (!experiment) return experiment::RunDemand{};
    return experiment::RunDemand{is_large(*experiment), estimate_memory(*experiment).bytes};
  };
  program.read_result = [](const std::string& path) {
    return experiment::read_whole(path, {"completion_ms", "goodput_gbps", "spurious_retransmit_ratio"});
  };
  program.print_row = [](const std::string& label, const nlohmann::ordered_json& summary) {
    using experiment::shown;
    std::printf("%-60s %10s ms  %8s Gbit/s  spurious %s  %s\n", label.c_str(),
                shown(summary["completion_ms"], 3).c_str(), shown(summary["goodput_gbps"], 2).c_str(),
                shown(summary["spurious_retransmit_ratio"], 4).c_str(),
                summary["complete"].get<bool>() ? "" : "incomplete");
  };
  return program;
}

}  // namespace weft::sim
