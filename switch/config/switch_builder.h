// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// From validated values to a SwitchInfo, with the checks that a schema cannot express. Values may be null where the
// schema found a mistake: builders then skip what depends on them, so that one mistake is reported once.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "switch/config/schema/schema.h"
#include "switch/pipeline/registry.h"
#include "switch/pipeline/switch_info.h"

namespace weft::config {

inline constexpr std::size_t kMaxSwitches = 250;
inline constexpr std::size_t kMaxPorts = 1024;
inline constexpr std::size_t kMaxHops = 64;
/// A network interface's name without its NUL (netdevice(7)).
inline constexpr std::size_t kMaxInterfaceName = 15;

/// What the sections of one switch refer to.
struct SwitchScope {
  const Value& source;  ///< validated map of the switch
  const pipeline::Registry& registry;
  Diagnostics& diagnostics;
  pipeline::SwitchInfo& info;
  bool ports_complete = true;  ///< false: ports are missing because they were wrong, so unknown names mean nothing

  /// The port that `name` (a string or null) names; reports an unknown one.
  [[nodiscard]] std::optional<pipeline::PortIndex> port(const Value& name) const;
};

/// The string under `key`, or "" where `map` is no map or has no such string.
[[nodiscard]] inline std::string text_of(const Value& map, const char* key) {
  return map.is_map() && map[key].is_string() ? map[key].string() : "";
}

/// " (line 12)", or "" without a position.
[[nodiscard]] std::string at_line(const Mark& mark);

/// Fills info from `source` and reports mistakes.
[[nodiscard]] pipeline::SwitchInfo build_switch(const Value& source, std::size_t index,
                                                const pipeline::Registry& registry, Diagnostics& diagnostics);

/// Sections of build_switch(), each in a file of its own. Ports come first.
void build_ports(SwitchScope& scope);
void build_ip(SwitchScope& scope);
void build_pipeline(SwitchScope& scope);
void build_qos(SwitchScope& scope);
void build_faults(SwitchScope& scope);
/// After the others.
void build_kernel(SwitchScope& scope);

/// Checks across switches: names, devices and files used twice, peers of links.
void check_switch_names(const std::vector<Value>& switches, Diagnostics& diagnostics);
/// @param control  the process's `control` map; null where there is none
void check_devices(const std::vector<Value>& switches, const Value& control, Diagnostics& diagnostics);
/// Names of the kernel's interfaces that are used twice.
void check_kernel_interfaces(const std::vector<Value>& switches, Diagnostics& diagnostics);
void check_links(const std::vector<Value>& switches, Diagnostics& diagnostics);

}  // namespace weft::config
