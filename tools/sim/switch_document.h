// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// The configuration of a simulated switch: the same document that weft-switch reads from YAML, made in memory, and
// checked by the same loader.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "switch/config/schema/schema.h"
#include "switch/pipeline/registry.h"
#include "switch/pipeline/switch_info.h"
#include "tools/sim/topology.h"

namespace weft::sim {

/// ECN thresholds of the data class.
struct EcnSpec {
  std::uint64_t kmin_bytes = 0, kmax_bytes = 0;
  double pmax = 0.2;
};

/// What the switches are configured to do.
struct SwitchSpec {
  std::uint64_t buffer_bytes = 64'000'000;
  std::string lb = "ecmp";                     ///< policy of stage lb on ToRs
  std::string lb_above = "ecmp";               ///< the same on other switches
  config::Value lb_options{};                  ///< more options of stage lb on ToRs; null: none
  std::optional<config::Value> nack_filter{};  ///< options of stage nack_filter on ToRs
  config::Value pipeline{};                    ///< of ToRs, as in weft-switch; null: made of lb and nack_filter
  config::Value pipeline_above{};              ///< the same of other switches
  std::vector<std::pair<std::uint32_t, config::Value>> pipelines{};  ///< the same of single switches
  std::optional<EcnSpec> ecn{};                                      ///< nullopt: by each port's speed
  std::vector<std::pair<std::uint64_t, EcnSpec>> ecn_by_rate{};      ///< of ports of so many Mbit/s, before `ecn`
  /// Ports of so many Mbit/s: dynamic_th, size, xoff of the data class's priority group.
  std::vector<std::pair<std::uint64_t, config::Value>> buffer_profiles{};
  bool ecn_enabled = true;
  bool pfc = true;
  std::string buffer_model = "conweave";
  std::vector<std::uint32_t> unlimited{};  ///< switches whose buffer never fills
  struct Buffer {
    std::uint32_t index = 0;
    std::uint64_t bytes = 0;
  };
  std::vector<Buffer> buffers{};         ///< switches with others than buffer_bytes
  bool telemetry = false;                ///< every pipeline has the stage telemetry, at its end if not before
  std::uint32_t max_frame_bytes = 9216;  ///< IP packets that fit
  std::uint64_t seed = 1;

  /// Of `pipelines`; nullptr when the switch has none there.
  [[nodiscard]] const config::Value* pipeline_of(std::uint32_t index) const noexcept;
  /// Packet memory of a switch.
  [[nodiscard]] std::uint64_t buffer_of(std::uint32_t index) const noexcept;
};

/// A connected queue pair, as stage rdma_track knows it.
struct QpPairPlan {
  std::uint32_t a = 0, b = 0;  ///< hosts
  std::uint32_t qpn_a = 0, qpn_b = 0;
  std::uint32_t psn_a = 0, psn_b = 0;  ///< of the first packet that each sends
};

/// In lists of a pipeline that is given, this name stands for all ports that lead to other switches: each switch has
/// other names for them.
inline constexpr const char* kUplinks = "uplinks";

/// The document of switch `index`.
/// @param inc_groups  items of stage inc's `groups`; a pipeline that has no such stage gets one in front of l3
[[nodiscard]] config::Value switch_document(const Topology& topology, std::uint32_t index, const SwitchSpec& spec,
                                            const std::vector<QpPairPlan>& qps,
                                            const config::Value::List& inc_groups = {});

/// What the loader makes of it. Mistakes are reported; nullopt then.
[[nodiscard]] std::optional<pipeline::SwitchInfo> load_switch_document(const Topology& topology, std::uint32_t index,
                                                                       const config::Value& document,
                                                                       const pipeline::Registry& registry,
                                                                       config::Diagnostics& diagnostics);

}  // namespace weft::sim
