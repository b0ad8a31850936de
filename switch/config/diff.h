// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// What differs between two configurations, and what of it cannot change while the switches run.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "switch/config/config.h"

namespace weft::config {

/// One difference. Ports are matched by name, stages by name, addresses and neighbours by port and address, routes by
/// prefix, static_macs by MAC address and VLAN; their order does not count, that of the stages does.
struct Change {
  enum class Kind : std::uint8_t { added, removed, changed };
  Kind kind = Kind::changed;
  std::string switch_name{};  ///< empty: of the process
  std::string what{};         ///< "port p1", "stage impair", "route 10.0.0.0/8", "pipeline", "log", "switch"
  std::string key{};          ///< what of it changed, as "trunk.native"; empty: all of it
  Value from{};               ///< as it was written, without defaults when it is a map; null: was not there
  Value to{};
  Mark mark{};            ///< of the new value, or of what holds it
  std::string refused{};  ///< why it cannot change while the switches run; empty: it can
};

/// In the order of the new file; removals last. Empty when both mean the same.
[[nodiscard]] std::vector<Change> config_changes(const Config& running, const Config& next,
                                                 const pipeline::Registry& registry);

/// A row for `weftctl`: switch, change, what, key, from, to, refused.
[[nodiscard]] nlohmann::ordered_json change_row(const Change& change);

/// The same as a line of a log: "tor1: port p1 rate_mbps: 0 -> 1000".
[[nodiscard]] std::string to_string(const Change& change);

/// Every value of a configuration, defaults included, as rows of the table `config`: switch, key, value.
[[nodiscard]] nlohmann::ordered_json config_rows(const Config& config);

}  // namespace weft::config
