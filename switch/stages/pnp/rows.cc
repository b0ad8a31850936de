// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include <nlohmann/json.hpp>

#include "switch/pipeline/row_scan.h"
#include "switch/stages/pnp/stage.h"

namespace weft::stages {

using nlohmann::ordered_json;

namespace {

// IPv6 addresses are not kept, only a hash of them.
ordered_json address(const PnpFlow& flow, bool source) {
  if (flow.name.ipv6) return {};
  return wire::IpAddress::v4(static_cast<std::uint32_t>(source ? flow.name.addresses >> 32 : flow.name.addresses))
      .to_string();
}

// A flow's place is taken back when a marked packet of it comes whose queue pair is gone, or by another flow: until
// then this says so. Of IPv6 flows there is no more than a hash to look for.
ordered_json is_open(const PnpFlow& flow, const KnownPairs& known) {
  if (flow.name.ipv6) return {};
  const tables::QpTable& table = known.tracker().table();
  const std::uint32_t at = table.find({flow.name.addresses, flow.name.dest_qp});
  if (at == tables::QpTable::kNone || !known.counts(table.entry(at))) return false;
  return table.entry(table.entry(at).peer).dest_qp().value() == flow.client_qp;
}

ordered_json flow_row(const PnpFlow& flow, TimeNs now) {
  return {{"source", address(flow, true)},
          {"destination", address(flow, false)},
          {"dest_qp", flow.name.dest_qp},
          {"client_qp", flow.client_qp},
          {"marked", flow.marked},
          {"cnps", flow.cnps},
          {"last_cnp_us_ago", flow.notified && now >= flow.notified_at
                                  ? ordered_json(static_cast<double>(now - flow.notified_at) / 1000)
                                  : ordered_json()}};
}

}  // namespace

// Flows are those of all workers; the first one shows them.
ordered_json PnpStage::rows(std::string_view table, std::uint64_t& cursor, std::size_t max) const {
  ordered_json rows = ordered_json::array();
  if (table == "pnp") {
    cursor = pipeline::StageShared::kEnd;
    rows.push_back({{"worker", worker_},
                    {"enabled", options_.enabled},
                    {"cnp_interval_us", static_cast<double>(options_.cnp_interval_ns) / 1000},
                    {"marked", value(PnpCounter::marked)},
                    {"cnps_sent", value(PnpCounter::cnps_sent)},
                    {"marks_cleared", value(PnpCounter::marks_cleared)},
                    {"unknown_qp", value(PnpCounter::unknown_qp)},
                    {"not_rc", value(PnpCounter::not_rc)},
                    {"no_buffer", value(PnpCounter::no_buffer)},
                    {"pairs", shared_.pairs().size()},
                    {"bytes_per_flow", sizeof(PnpFlow)},
                    {"bytes", shared_.memory_bytes()}});
    return rows;
  }
  const std::uint32_t sets = worker_ == 0 ? shared_.unit().sets() : 0;
  // scan_rows() by sets: each has several rows.
  for (std::uint64_t scanned = 0;
       cursor < sets && rows.size() + PnpUnit::kWays <= max && scanned < pipeline::kRowsScanned; ++scanned) {
    const auto set = static_cast<std::uint32_t>(cursor++);
    // Of a set that another worker uses at this moment nothing is shown.
    static_cast<void>(shared_.use_set(set, [&](const PnpUnit& unit) {
      for (const PnpFlow& flow : unit.flows(set)) {
        if (!flow.known || flow.marked == 0) continue;
        rows.push_back(flow_row(flow, now_));
        // With several workers its queue pair may be another one's, whose table this one may not read.
        rows.back()["open"] = shared_.workers() == 1 ? is_open(flow, known_) : ordered_json();
      }
    }));
  }
  if (cursor >= sets || max < PnpUnit::kWays) cursor = pipeline::StageShared::kEnd;
  return rows;
}

}  // namespace weft::stages
