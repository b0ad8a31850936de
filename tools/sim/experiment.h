// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// An experiment as its file describes it, checked.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "nic/rnic/config.h"
#include "switch/config/schema/schema.h"
#include "switch/pipeline/registry.h"
#include "tools/experiment/overrides.h"
#include "tools/sim/inc_plan.h"
#include "tools/sim/switch_document.h"
#include "tools/sim/topology.h"
#include "tools/sim/workload.h"

namespace weft::sim {

/// What goes wrong with a link, or with several.
struct Fault {
  enum class Scope : std::uint8_t { one, fabric, all };
  Scope scope = Scope::fabric;
  std::uint32_t at_switch = 0;  ///< one: the link at a port of a switch, both directions
  PortIndex port = 0;
  double loss = 0;  ///< ratio of packets that are lost
  std::optional<TimeNs> down_at{}, up_at{};
};

/// Traffic beside the workload for as long as it runs: a queue pair that always has something to send.
struct BackgroundFlow {
  std::uint32_t from = 0, to = 0;  ///< hosts
};

struct Experiment {
  std::string name;
  Topology topology;
  SwitchSpec switches;
  nic::QpConfig qp;                    ///< line_bps is each host's own
  bool payload_values = false;         ///< packets carry bytes, and receivers check them
  bool datagrams = false;              ///< plain UDP: of `qp` counts path_mtu alone, the payload of a datagram
  std::string cc_preset = "hpcc_mix";  ///< of DCQCN
  std::vector<std::pair<std::string, double>> cc_constants;  ///< set on top, checked
  Plan plan;
  std::optional<IncSpec> inc{};  ///< collectives that switches add up; the plan has their operations
  std::vector<BackgroundFlow> background{};
  std::vector<Fault> faults;
  std::uint64_t seed = 1;
  std::optional<TimeNs> convergence{};  ///< until all switches know of a link that changed; nullopt: never
  TimeNs time_limit = 0;                ///< of virtual time; 0: none
  TimeNs rates_every = 0;               ///< how often the rates of all queue pairs are looked at; 0: never
  std::uint32_t mbufs = 0;              ///< 0: estimated
  config::Value source{};               ///< the file, validated, overrides applied, defaults filled in
};

using experiment::Override;

/// Reads an experiment. On nullopt `diagnostics` holds every mistake that was found.
/// @param file  how messages call it; files that it names are relative to its folder
[[nodiscard]] std::optional<Experiment> load_experiment(std::string_view text, const std::string& file,
                                                        const std::vector<Override>& overrides,
                                                        const pipeline::Registry& registry,
                                                        config::Diagnostics& diagnostics);

/// What an experiment file may hold.
[[nodiscard]] config::Schema experiment_schema(const pipeline::Registry& registry);

/// Bytes that a run is expected to take, and packet buffers.
struct MemoryEstimate {
  std::uint64_t bytes = 0;
  std::uint32_t mbufs = 0;
  std::uint16_t room = 0;  ///< bytes of each buffer: for headers, what switches say themselves, and payload if any
};
[[nodiscard]] MemoryEstimate estimate_memory(const Experiment& experiment);

/// QpConfig::reorder_window of a queue pair that sends so many packets: that of `qp`, or less where fewer can ever be
/// under way. Nothing but memory depends on it.
[[nodiscard]] std::uint32_t reorder_window(const nic::QpConfig& qp, std::uint64_t packets) noexcept;

/// Whether a run has so many packets that several threads are worth their meetings: it takes a minute or more.
[[nodiscard]] bool is_large(const Experiment& experiment);

}  // namespace weft::sim
