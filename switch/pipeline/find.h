// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Ports and stages of a switch by the names that options use.
#pragma once

#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "switch/config/schema/schema.h"
#include "switch/config/schema/suggest.h"
#include "switch/pipeline/switch_info.h"

namespace weft::pipeline {

/// nullptr when the switch has no port of that name.
[[nodiscard]] inline const PortInfo* find_port(const SwitchInfo& info, std::string_view name) {
  const auto found =
      std::find_if(info.ports.begin(), info.ports.end(), [&](const PortInfo& port) { return port.name == name; });
  return found == info.ports.end() ? nullptr : &*found;
}

/// Of all ports, for config::suggestion().
[[nodiscard]] inline std::vector<std::string> port_names(const SwitchInfo& info) {
  std::vector<std::string> names;
  for (const PortInfo& port : info.ports) names.push_back(port.name);
  return names;
}

/// The first of that name in the pipeline; nullptr when there is none.
[[nodiscard]] inline const StageSpec* find_stage(const SwitchInfo& info, std::string_view name) {
  const auto found = std::find_if(info.pipeline.begin(), info.pipeline.end(),
                                  [&](const StageSpec& stage) { return stage.name == name; });
  return found == info.pipeline.end() ? nullptr : &*found;
}

/// Names of an option `uplinks`. It is a mistake when the switch lacks one, or one stands there twice.
inline std::set<std::string> check_uplink_names(const config::Value& uplinks, const SwitchInfo& info,
                                                config::Diagnostics& diagnostics) {
  std::set<std::string> seen;
  for (const config::Value& name : uplinks.list()) {
    if (find_port(info, name.string()) == nullptr) {
      diagnostics.error(name.mark(), "uplinks: the switch has no port '" + name.string() + "'" +
                                         config::suggestion(name.string(), port_names(info)));
    }
    if (!seen.insert(name.string()).second) {
      diagnostics.error(name.mark(), "uplinks: port '" + name.string() + "' stands twice");
    }
  }
  return seen;
}

}  // namespace weft::pipeline
