// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace weft::experiment {

/// The results of a sweep as a page that loads nothing: a bar chart for each number of the summaries that is not the
/// same in all runs, and the table of them all.
/// @param title  what was swept, in plain text
/// @param list   as sweep.json has it: `set`, `trace_hash` and `summary` of each run
[[nodiscard]] std::string sweep_report(const std::string& title, const nlohmann::ordered_json& list);

}  // namespace weft::experiment
