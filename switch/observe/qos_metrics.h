// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#pragma once

#include <string>

#include "switch/observe/metric_families.h"
#include "switch/observe/qos_rows.h"

namespace weft {

/// Class queues, the shared buffer and PFC of a switch; nothing without qos. Waits for no worker.
void add_qos(MetricFamilies& out, const std::string& switch_name, const pipeline::SwitchState& state,
             QosPipelines pipelines);

}  // namespace weft
