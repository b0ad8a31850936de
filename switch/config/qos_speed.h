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

/// What a switch that runs knows of its ports and workers.
struct DeviceFacts {
  std::vector<std::uint64_t> speeds_mbps{};  ///< by PortIndex; 0: nobody knows, and it stays 100 Gbit/s
  std::uint16_t workers = 1;                 ///< these three as in qos::PortFacts
  std::uint64_t away_ns = 0;
  std::uint32_t rx_packets = 0;
};

/// Resolves a switch's `qos` again, now that it is known what runs it: pause quanta, headroom and ECN thresholds of
/// ports that name no `speed` and emulate no rate are made for the speeds of their devices, and headroom that the file
/// does not give for what can be under way. Does nothing without qos.
/// @param file  the whole file, of which `info` was made (Config::source)
/// @return empty, or the mistake that the configuration is with these facts; then `info` is what it was
[[nodiscard]] std::string set_device_facts(pipeline::SwitchInfo& info, const Value& file,
                                           const pipeline::Registry& registry, const DeviceFacts& facts);

}  // namespace weft::config
