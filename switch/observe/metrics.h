// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// The counters of a process as Prometheus metrics. Only what any thread may read is read: no worker is asked, so that
// a scrape costs the packet path nothing.
#pragma once

#include <span>
#include <vector>

#include "switch/observe/running.h"

namespace prometheus {
struct MetricFamily;
}

namespace weft {

/// What the process has besides switches.
struct RunningProcess {
  TimeNs uptime = 0;  ///< since forwarding began
  std::uint32_t packet_buffers = 0;
  std::uint32_t packet_buffers_free = 0;
};

[[nodiscard]] std::vector<prometheus::MetricFamily> metrics_of(const RunningProcess& process,
                                                               std::span<const RunningWorker> workers,
                                                               std::span<const RunningSwitch> switches);

}  // namespace weft
