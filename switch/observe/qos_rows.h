// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Tables of `weftctl show` about class queues and the shared buffer.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

#include "switch/api/backend.h"
#include "switch/pipeline/pipeline.h"

namespace weft {

/// Pipelines of one switch, by worker.
using QosPipelines = std::span<const std::unique_ptr<pipeline::Pipeline>>;

/// queues, buffers, wred and pfc.
[[nodiscard]] const std::vector<api::TableInfo>& qos_tables();
[[nodiscard]] bool is_qos_table(const std::string& table);

/// Rows of queues, buffers or wred; none without qos. Any thread.
[[nodiscard]] nlohmann::ordered_json qos_rows(const std::string& table, const pipeline::SwitchState& state,
                                              QosPipelines pipelines);
/// Rows of pfc about one port. On the worker that owns it, or while it stands still.
[[nodiscard]] nlohmann::ordered_json pfc_rows(const pipeline::Pipeline& owner, pipeline::PortIndex port);

}  // namespace weft
