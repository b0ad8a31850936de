// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Scheduled changes of links.
#include <algorithm>
#include <cmath>

#include "switch/config/switch_builder.h"

namespace weft::config {

void build_faults(SwitchScope& scope) {
  for (const Value& item : scope.source["faults"].list_or_empty()) {
    if (item.is_null()) continue;
    const auto port = scope.port(item["port"]);
    pipeline::FaultInfo fault;
    fault.mark = item.mark();
    if (item.has("link")) fault.change.link_up = item["link"].string() == "up";
    if (item.has("rate_mbps")) fault.change.rate_mbps = item["rate_mbps"].unsigned_integer();
    if (item.has("delay_ns")) fault.change.delay_ns = item["delay_ns"].unsigned_integer();
    // A value that is wrong has been reported, and is missing here.
    const auto& reported = scope.diagnostics.entries();
    const bool known = std::any_of(reported.begin(), reported.end(),
                                   [&](const auto& entry) { return entry.mark.line == item.mark().line; });
    const auto& change = fault.change;
    if (!known && !change.link_up && !change.rate_mbps && !change.delay_ns) {
      scope.diagnostics.error(item.mark(), "faults: nothing changes; expected link, rate_mbps or delay_ns");
    }
    if (!port || !item.has("at_s")) continue;
    fault.port = *port;
    fault.at_ns = static_cast<std::uint64_t>(std::llround(item["at_s"].number() * 1e9));
    scope.info.faults.push_back(fault);
  }
  std::stable_sort(scope.info.faults.begin(), scope.info.faults.end(),
                   [](const auto& a, const auto& b) { return a.at_ns < b.at_ns; });
}

}  // namespace weft::config
