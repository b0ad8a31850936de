// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// How long packets stay in a switch, by egress queue: a table and a family of metrics.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "switch/observe/metric_families.h"
#include "switch/observe/running.h"

namespace weft {

/// Rows of the table `latency`: of each queue through which sampled packets left, how many, their mean, 50th, 99th and
/// 99.9th percentile and the longest time, in microseconds, each at most an eighth too long. Any thread.
[[nodiscard]] nlohmann::ordered_json latency_rows(const RunningSwitch& s);

/// weft_port_residence_seconds of every queue through which sampled packets left. Any thread.
void add_latency(MetricFamilies& out, const RunningSwitch& s);

}  // namespace weft
