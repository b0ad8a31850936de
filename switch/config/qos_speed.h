// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "switch/config/schema/schema.h"
#include "switch/pipeline/registry.h"
#include "switch/pipeline/switch_info.h"

namespace weft::config {

/// Resolves a switch's `qos` again, now that its devices say how fast they are: pause quanta, headroom and ECN
/// thresholds of ports that name no `speed` and emulate no rate are made for that. Does nothing without qos.
/// @param file         the whole file, of which `info` was made (Config::source)
/// @param speeds_mbps  by PortIndex; 0: nobody knows, and it stays 100 Gbit/s
/// @return empty, or the mistake that the configuration is at these speeds; then `info` is what it was
[[nodiscard]] std::string set_device_speeds(pipeline::SwitchInfo& info, const Value& file,
                                            const pipeline::Registry& registry,
                                            const std::vector<std::uint64_t>& speeds_mbps);

}  // namespace weft::config
