// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include <nlohmann/json.hpp>

#include "switch/pipeline/row_scan.h"
#include "switch/stages/bicc/stage.h"

namespace weft::stages {

using nlohmann::ordered_json;

namespace {

// IPv6 addresses are not kept, only a hash of them.
ordered_json queue_row(const BiccQueue& queue) {
  const bool ipv4 = queue.destination >> 32 == 0;
  return {{"destination",
           ipv4 ? ordered_json(wire::IpAddress::v4(static_cast<std::uint32_t>(queue.destination)).to_string())
                : ordered_json()},
          {"in_flight_bytes", queue.in_flight},
          {"held", queue.held}};
}

}  // namespace

ordered_json BiccStage::rows(std::string_view table, std::uint64_t& cursor, std::size_t max) const {
  if (table == "bicc") {
    cursor = pipeline::StageShared::kEnd;
    ordered_json rows = ordered_json::array();
    rows.push_back({{"worker", worker_},
                    {"enabled", options_.enabled},
                    {"in_flight_kb", static_cast<double>(options_.settings.limit_bytes) / 1000},
                    {"held", unit_.held()},
                    {"held_bytes", unit_.held_bytes()},
                    {"most_held_bytes", value(BiccCounter::most_held_bytes)},
                    {"buffer_bytes", options_.settings.buffer_bytes},
                    {"longest_hold_us", static_cast<double>(value(BiccCounter::longest_hold_ns)) / 1000},
                    {"requests", value(BiccCounter::requests)},
                    {"packets_held", value(BiccCounter::packets_held)},
                    {"unknown_qp", value(BiccCounter::unknown_qp)},
                    {"flushed", value(BiccCounter::flushed)},
                    {"written_off", value(BiccCounter::written_off)},
                    {"bytes_per_queue", sizeof(BiccQueue)},
                    {"bytes_per_flow", sizeof(BiccFlow)},
                    {"bytes", unit_.memory_bytes()}});
    return rows;
  }
  const std::span<const BiccQueue> queues = unit_.queues();
  return pipeline::scan_rows(cursor, max, queues.size(), [&](std::uint64_t entry) {
    return queues[entry].destination != 0 ? queue_row(queues[entry]) : ordered_json();
  });
}

}  // namespace weft::stages
