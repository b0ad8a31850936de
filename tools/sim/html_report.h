// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace weft::sim {

/// A page of its own for the report of a run (summary.h): what ran, its numbers and what they mean, throughput over
/// time, FCT distribution, NACKs, paths used, counters of stages. It loads nothing and has no scripts.
[[nodiscard]] std::string html_report(const nlohmann::ordered_json& report);

}  // namespace weft::sim
