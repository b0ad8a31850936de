// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// The rows of `weftctl show`, and the counters that the process writes when it ends. The README has their layout.
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

#include "switch/api/backend.h"
#include "switch/observe/port_rates.h"
#include "switch/observe/running.h"

namespace weft {

/// Where packets of a switch came from and went; `held` are inside.
struct Balance {
  std::uint64_t rx = 0, generated = 0, replicated = 0, tx = 0, consumed = 0, dropped = 0, held = 0;

  /// No packet is missing and none was counted twice.
  [[nodiscard]] bool ok() const noexcept { return rx + generated + replicated == tx + consumed + dropped + held; }
};

/// Tables that the switches can show between them, each once: observe's own, those of qos where a switch has it, and
/// those of stages.
[[nodiscard]] std::vector<api::TableInfo> tables_of(std::span<const RunningSwitch> switches);

/// Appends the rows of a table of one switch, at most `max_rows`.
/// @return false when there are more
[[nodiscard]] bool switch_rows(const RunningSwitch& s, const std::string& table, std::size_t max_rows,
                               const PortRates& rates, const OnWorker& on_worker, nlohmann::ordered_json& rows);

/// What the workers do, and for which reasons most packets end there.
[[nodiscard]] nlohmann::ordered_json worker_rows(std::span<const RunningWorker> workers,
                                                 std::span<const RunningSwitch> switches);

/// Asks every worker, one after the other.
[[nodiscard]] Balance balance_of(const RunningSwitch& s, const OnWorker& on_worker);

/// All counters of one switch, as in the file of counters.
[[nodiscard]] nlohmann::ordered_json switch_counters(const RunningSwitch& s, const OnWorker& on_worker);

/// What the ports of a switch have received and sent, added to `counts`.
void count_ports(const RunningSwitch& s, std::map<PortRates::Key, PortCounts>& counts);

}  // namespace weft
