// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include <nlohmann/json.hpp>
#include <string>

#include "switch/pipeline/row_scan.h"
#include "switch/stages/nack_filter/stage.h"

namespace weft::stages {

using nlohmann::ordered_json;

namespace {

std::string_view name(NackCheck check) {
  constexpr std::array<std::string_view, 4> kNames{"ring_first", "ring_scan", "hwm", "gap"};
  return kNames[static_cast<std::size_t>(check)];
}

std::string_view state_name(std::uint8_t flags) {
  if ((flags & NackFlag::in_order) != 0) return "in_order";
  if ((flags & NackFlag::learning) != 0) return "learning";
  if ((flags & NackFlag::probation) != 0) return "probation";
  return (flags & NackFlag::pending) != 0 ? "blocked" : "ready";
}

constexpr std::string_view kWarning =
    "retransmissions keep following blocked NACKs: a guard that is too short, or a receiver that keeps no early "
    "packets";

std::string_view receiver_name(const NackState& s) {
  if ((s.flags & NackFlag::in_order) != 0) return "in_order";
  return s.kept_proofs >= NackState::kKeptProofs ? "keeps_early" : "unknown";
}

// The paper's example (section 4): 256 paths, 16 NICs with 100 cross-rack queue pairs each, a last hop of 400 Gbit/s
// and 2 us, packets of 1500 bytes, factor 1.5.
constexpr std::uint64_t kExamplePaths = 256, kExampleQps = 16 * 100;
constexpr std::uint64_t kExampleEntries = (400'000'000'000 / 8 * 2 * 3 / 2 / 1'000'000 + 1499) / 1500;
constexpr std::uint64_t kFlowEntryBytes = 20, kPathBytes = 2;
constexpr std::uint64_t kExampleBytes = kExamplePaths * kPathBytes + kExampleQps * (kFlowEntryBytes + kExampleEntries);
static_assert(kExampleBytes == 192'512);

}  // namespace

ordered_json NackFilterStage::rows(std::string_view table, std::uint64_t& cursor, std::size_t max) const {
  if (table == "nack_filter") {
    cursor = pipeline::StageShared::kEnd;
    return memory_rows();
  }
  return pipeline::scan_rows(cursor, max, used_, [&](std::uint64_t entry) {
    const auto slot = static_cast<std::uint32_t>(entry);
    return qp(slot).state().dest_qp != 0 && in_use(slot) ? qp_row(slot) : ordered_json();
  });
}

// One row per worker: the memory in use, and next to it what equation 4 of the paper gives for the same number of paths
// and queue pairs and for the paper's own example.
ordered_json NackFilterStage::memory_rows() const {
  const NackRules& rules = options_.rules;
  const auto value = [&](NackCounter c) { return counters_.all()[static_cast<std::size_t>(c)].value(); };
  const std::uint64_t qps = value(NackCounter::qps_active);
  return ordered_json::array({{{"worker", worker_},
                               {"enabled", options_.enabled},
                               {"check", name(rules.check)},
                               {"paths", unit_.paths()},
                               {"excluded", excluded_names()},
                               {"guard_us", rules.guard_ns / 1000},
                               {"qps", qps},
                               {"max_qps", options_.max_qps},
                               {"seen", value(NackCounter::nacks_seen)},
                               {"valid", value(NackCounter::nacks_valid)},
                               {"blocked", value(NackCounter::nacks_blocked)},
                               {"unknown", value(NackCounter::nacks_unknown)},
                               {"compensated", value(NackCounter::compensated_packet)},
                               {"guard", value(NackCounter::compensated_guard)},
                               {"in_order", value(NackCounter::receivers_in_order)},
                               {"retransmitting", warned_},
                               {"warning", warned_ == 0 ? "" : kWarning},
                               {"bytes_per_qp", stride_},
                               {"bytes", qps * stride_},
                               {"eq4_bytes_per_qp", unit_.paper_bytes()},
                               {"eq4_bytes", rules.paths * kPathBytes + qps * unit_.paper_bytes()},
                               {"eq4_example_bytes", kExampleBytes}}});
}

std::string NackFilterStage::excluded_names() const {
  std::string names;
  for (const pipeline::PortInfo& port : info_.ports) {
    const std::uint8_t uplink = options_.uplink_of_port[port.index];
    if (uplink == NackOptions::kNoUplink || (excluded_ >> uplink & 1) == 0) continue;
    names += (names.empty() ? "" : " ") + port.name;
  }
  return names;
}

ordered_json NackFilterStage::qp_row(std::uint32_t slot) const {
  const NackState& s = qp(slot).state();
  const Extra& e = extra(slot);
  const tables::QpTable& table = known_.tracker().table();
  const tables::QpKey key = table.key(e.position);
  std::string histogram;
  for (std::uint32_t i = 0; i < s.paths.value(); ++i) {
    histogram += (i == 0 ? "" : " ") + std::to_string(qp(slot).path(i).packets);
  }
  return {{"source", table.source(key).to_string()},
          {"destination", table.destination(key).to_string()},
          {"dest_qp", s.dest_qp},
          {"state", state_name(s.flags)},
          {"nacks", e.nacks},
          {"valid", e.valid},
          {"blocked", e.blocked},
          {"unknown", e.unknown},
          {"compensated", e.compensated},
          {"guard", e.guard},
          {"released", e.released},
          {"spurious", e.spurious},
          {"after_block", e.after_block},
          {"receiver", receiver_name(s)},
          {"lost_psns", s.lost_count},
          {"paths", s.paths.value()},
          {"packets_by_path", histogram}};
}

}  // namespace weft::stages
