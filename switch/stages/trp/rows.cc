// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include <array>
#include <nlohmann/json.hpp>

#include "switch/pipeline/row_scan.h"
#include "switch/stages/trp/stage.h"

namespace weft::stages {

using nlohmann::ordered_json;

namespace {

std::string_view status_name(TrpStatus status) {
  constexpr std::array<std::string_view, 3> kNames{"idle", "throttled", "recover"};
  return kNames[static_cast<std::size_t>(status)];
}

// IPv6 addresses are not kept, only a hash of them.
ordered_json address(const TrpFlow& flow, bool source) {
  if (flow.name.ipv6) return {};
  return wire::IpAddress::v4(static_cast<std::uint32_t>(source ? flow.name.addresses >> 32 : flow.name.addresses))
      .to_string();
}

ordered_json flow_row(const TrpFlow& flow) {
  return {{"source", address(flow, true)},
          {"destination", address(flow, false)},
          {"dest_qp", flow.name.dest_qp == 0 ? ordered_json() : ordered_json(flow.name.dest_qp)},
          {"status", status_name(flow.law.status)},
          {"loop_num", flow.law.loop_num},
          {"alpha", flow.law.alpha},
          {"cnp_num", flow.law.cnp_num},
          {"held", flow.held},
          {"passed_on", flow.left}};
}

}  // namespace

ordered_json TrpStage::rows(std::string_view table, std::uint64_t& cursor, std::size_t max) const {
  if (table == "trp") {
    cursor = pipeline::StageShared::kEnd;
    ordered_json rows = ordered_json::array();
    rows.push_back({{"worker", worker_},
                    {"enabled", options_.enabled},
                    {"mode", options_.settings.mode == TrpMode::pace ? "pace" : "recirculate"},
                    {"flows", unit_.store().size()},
                    {"max_flows", options_.settings.store.flows},
                    {"held", unit_.held()},
                    {"held_bytes", unit_.held_bytes()},
                    {"most_held_bytes", value(TrpCounter::most_held_bytes)},
                    {"buffer_bytes", options_.settings.buffer_bytes},
                    {"longest_hold_us", static_cast<double>(value(TrpCounter::longest_hold_ns)) / 1000},
                    {"cnps_seen", value(TrpCounter::cnps_seen)},
                    {"cnps_unpaired", value(TrpCounter::cnps_unpaired)},
                    {"signals_seen", value(TrpCounter::signals_seen)},
                    {"throttled", value(TrpCounter::flows_throttled)},
                    {"recovered", value(TrpCounter::flows_recovered)},
                    {"flushed", value(TrpCounter::flushed)},
                    {"bytes_per_flow", sizeof(TrpFlow)},
                    {"bytes", unit_.store().memory_bytes()}});
    return rows;
  }
  const std::span<const TrpFlow> flows = unit_.store().flows();
  return pipeline::scan_rows(cursor, max, flows.size(), [&](std::uint64_t entry) {
    return flows[entry].used ? flow_row(flows[entry]) : ordered_json();
  });
}

}  // namespace weft::stages
