// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Results of a run, as JSON and as a page with plots.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tools/flow/cluster.h"
#include "tools/flow/experiment.h"

namespace weft::flow {

/// What the run itself does not know.
struct RunFacts {
  std::string file, version, date;
  std::vector<std::string> sets;
  double wall_s = 0, cpu_s = 0;
  bool interrupted = false;
};

[[nodiscard]] nlohmann::ordered_json report_of(const Experiment& experiment, const Cluster& cluster,
                                               const RunFacts& facts);
/// @param report  as report_of() makes it
[[nodiscard]] std::string html_report(const nlohmann::ordered_json& report);

}  // namespace weft::flow
