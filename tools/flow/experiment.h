// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// An experiment as its file describes it, checked.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "switch/config/schema/schema.h"
#include "tools/experiment/overrides.h"
#include "tools/flow/cluster.h"
#include "tools/flow/model.h"

namespace weft::flow {

/// A job of the workload, before its arrival is known.
struct NamedJob {
  std::string name;
  Model model;
  Division division;
  std::uint32_t iterations = 1;
  TimeNs arrival_ns = 0;
};

struct Experiment {
  std::string name;
  ClusterOptions cluster;
  std::vector<NamedJob> jobs;  ///< ordered by arrival
  double arrival_factor = 1;   ///< by which the times between arrivals of a trace were multiplied
  std::uint64_t seed = 1;
  config::Value source{};  ///< the file, validated, overrides applied, defaults filled in
};

/// Reads an experiment. On nullopt `diagnostics` holds every mistake that was found.
/// @param file  how messages call it; files that it names are relative to its folder
[[nodiscard]] std::optional<Experiment> load_experiment(std::string_view text, const std::string& file,
                                                        const std::vector<experiment::Override>& overrides,
                                                        config::Diagnostics& diagnostics);

/// What an experiment file may hold.
[[nodiscard]] config::Schema experiment_schema();

/// Jobs as the cluster takes them. Equal ones share a plan.
[[nodiscard]] std::vector<Job> jobs_of(const Experiment& experiment);

}  // namespace weft::flow
