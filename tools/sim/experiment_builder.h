// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// From validated values to an Experiment, with the checks that a schema cannot express.
#pragma once

#include <optional>
#include <string>

#include "tools/sim/experiment.h"

namespace weft::sim {

/// Values may be null where the schema found a mistake: what depends on them is skipped then.
class ExperimentBuilder {
 public:
  ExperimentBuilder(const config::Value& source, std::string file, const pipeline::Registry& registry,
                    config::Diagnostics& diagnostics)
      : source_(source), file_(std::move(file)), registry_(registry), diagnostics_(diagnostics) {}
  void build(Experiment& out);

 private:
  void build_topology(Experiment& out);
  void build_explicit(const config::Value& topology, const Rates& rates, Experiment& out);
  void build_switches(Experiment& out);
  void build_pipelines(const config::Value& s, SwitchSpec& spec);
  void build_own_pipelines(const config::Value& s, const Topology& topology, SwitchSpec& spec);
  [[nodiscard]] std::optional<EcnSpec> ecn_of(const config::Value& ecn);
  void build_nic(Experiment& out);
  void build_congestion_control(const config::Value& cc, Experiment& out);
  /// Over a long link a window that the round trip does not fit into would be what an experiment measures.
  void check_window(const Experiment& out);
  void build_workload(Experiment& out);
  void build_flows(const config::Value& workload, Experiment& out);
  void build_poisson(const config::Value& workload, Experiment& out);
  void build_inc(const config::Value& workload, Experiment& out);
  void add_inc_groups(const config::Value& workload, const std::vector<std::uint32_t>& hosts, IncSpec& spec);
  void build_faults(Experiment& out);
  void build_payload(Experiment& out);
  [[nodiscard]] bool find_link(const config::Value& name, const Topology& topology, Fault& fault);
  void check_size(const Topology& topology, const config::Value& at);
  [[nodiscard]] Groups groups_of(const config::Value& workload, const Experiment& out);
  void error(const config::Mark& mark, std::string text) { diagnostics_.error(mark, std::move(text)); }
  [[nodiscard]] std::optional<std::uint32_t> switch_named(const config::Value& name, const Topology& topology);
  /// The text of a file that the experiment names; nullopt, and a diagnostic, when it cannot be read.
  [[nodiscard]] std::optional<std::string> read_file(const config::Value& name);

  const config::Value& source_;
  std::string file_;
  const pipeline::Registry& registry_;
  config::Diagnostics& diagnostics_;
  bool topology_ok_ = false;
};

}  // namespace weft::sim
