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
/// 99.9th percentile and the longest time, in microseconds, each at most an eighth too long. `sum_ns` and `buckets`,
/// packets by Residence::Buckets, are what they come from; Baselines takes these two out. Any thread.
[[nodiscard]] nlohmann::ordered_json latency_rows(const RunningSwitch& s);

/// Computes the times of such a row again from its `samples`, `sum_ns` and `buckets`; all are 0 where these are.
void compute_latency(nlohmann::ordered_json& row);

/// weft_port_residence_seconds of every queue through which sampled packets left. Any thread.
void add_latency(MetricFamilies& out, const RunningSwitch& s);

}  // namespace weft
