// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/observe/baselines.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "switch/observe/latency.h"

namespace weft {
namespace {

using nlohmann::ordered_json;

// How the rows of a table are told apart, and which of their columns only ever grow. Columns that a table does not
// have count as absent: stages own their columns.
struct Table {
  std::string_view name;
  std::vector<std::string_view> keys;
  std::vector<std::string_view> counters;
  bool only_what_happened = false;         ///< rows of zeros are left out
  std::string_view histogram{};            ///< a column with a list of counters
  std::vector<std::string_view> hidden{};  ///< columns that nobody is shown
};

const std::vector<Table>& known() {
  static const std::vector<Table> kTables{
      {"ports",
       {"port"},
       {"rx_packets", "rx_bytes", "tx_packets", "tx_bytes", "in_drops", "out_drops", "rx_missed", "rx_errors",
        "rx_no_mbuf", "kernel_rx_dropped", "kernel_tx_dropped", "tx_errors"}},
      {"stages", {"stage", "half"}, {"packets", "bursts", "cycles"}},
      {"drops", {"reason"}, {"packets"}, true},
      {"port_drops", {"port", "reason"}, {"packets"}, true},
      {"counters", {"stage", "counter"}, {"value"}},
      {"latency", {"port", "queue"}, {"samples", "sum_ns"}, true, "buckets", {"sum_ns", "buckets"}},
      {"queues",
       {"port", "queue"},
       {"tx_packets", "tx_bytes", "ecn_marked", "ecn_ce", "dropped", "dropped_queue", "dropped_group",
        "dropped_headroom", "dropped_wred", "dropped_watchdog"}},
      {"buffers", {"port", "group"}, {"drops"}},
      {"wred", {"port", "queue"}, {"ecn_marked", "ecn_ce", "dropped_wred"}},
      {"pfc",
       {"port", "priority"},
       {"tx_xoff", "tx_xon", "tx_paused_us", "rx_xoff", "rx_xon", "rx_paused_us", "tx_frames", "rx_frames",
        "rx_malformed", "rx_ignored", "rx_clamped", "storms", "restored"}},
      {"qps",
       {"worker", "source", "destination", "dest_qp"},
       {"packets", "bytes", "messages", "out_of_order", "retransmitted", "duplicates", "nak_psn_sequence",
        "nak_invalid_request", "nak_remote_access", "nak_remote_operational", "nak_invalid_rd", "rnr_naks", "ce",
        "cnps", "peer_naks", "peer_rnr_naks", "peer_cnps"}},
      {"impair",
       {"worker", "rule", "name"},
       {"matched", "lost", "duplicated", "delayed", "reordered", "corrupted", "limited"}},
  };
  return kTables;
}

const Table* find(const std::string& name) {
  const auto at = std::find_if(known().begin(), known().end(), [&](const Table& t) { return t.name == name; });
  return at == known().end() ? nullptr : &*at;
}

std::uint64_t count_of(const ordered_json& row, std::string_view column) {
  const auto at = row.find(std::string(column));
  return at != row.end() && at->is_number_unsigned() ? at->get<std::uint64_t>() : 0;
}

// Names every row of a switch; rows that look the same (one per worker) by their order.
class Namer {
 public:
  explicit Namer(const Table& table) : table_(table) {}
  std::string operator()(const ordered_json& row) {
    std::string name;
    for (const auto key : table_.keys) name += row.value(std::string(key), ordered_json()).dump() + " ";
    name += row.value("switch", std::string());
    return name + "#" + std::to_string(seen_[name]++);
  }

 private:
  const Table& table_;
  std::unordered_map<std::string, std::uint64_t> seen_;
};

// Columns that were computed from those that have changed.
void compute_again(std::string_view table, ordered_json& row) {
  if (table == "latency") return compute_latency(row);
  if (table != "stages") return;
  const double packets = static_cast<double>(count_of(row, "packets"));
  const double bursts = static_cast<double>(count_of(row, "bursts"));
  const double cycles = static_cast<double>(count_of(row, "cycles"));
  row["packets_per_burst"] = bursts == 0 ? 0.0 : std::round(10.0 * packets / bursts) / 10;
  row["cycles_per_packet"] = packets == 0 ? 0.0 : std::round(10.0 * cycles / packets) / 10;
}

using Counts = std::vector<std::uint64_t>;

// The counters of a row; then those of its histogram.
Counts counts_of(const Table& table, const ordered_json& row) {
  Counts counts;
  for (const auto column : table.counters) counts.push_back(count_of(row, column));
  if (!table.histogram.empty()) {
    for (const auto& count : row.at(std::string(table.histogram))) counts.push_back(count.get<std::uint64_t>());
  }
  return counts;
}

void subtract(const Table& table, const Counts& base, ordered_json& row) {
  const Counts now = counts_of(table, row);
  const std::size_t scalars = table.counters.size();
  if (!std::equal(now.begin(), now.end(), base.begin(), base.end(), std::greater_equal<>())) return;
  for (std::size_t i = 0; i < scalars; ++i) {
    const auto column = row.find(std::string(table.counters[i]));
    if (column != row.end() && column->is_number_unsigned()) *column = now[i] - base[i];
  }
  if (!table.histogram.empty()) {
    auto& histogram = row.at(std::string(table.histogram));
    for (std::size_t i = scalars; i < now.size(); ++i) histogram[i - scalars] = now[i] - base[i];
  }
  compute_again(table.name, row);
}

// Leaves out rows of zeros where the table lists only what happened, and columns that are there for subtract() alone.
void tidy_up(const Table& table, ordered_json& rows) {
  const auto nothing = [&](const ordered_json& row) {
    return std::all_of(table.counters.begin(), table.counters.end(),
                       [&](std::string_view column) { return count_of(row, column) == 0; });
  };
  auto kept = ordered_json::array();
  for (auto& row : rows) {
    if (table.only_what_happened && nothing(row)) continue;
    for (const auto column : table.hidden) row.erase(std::string(column));
    kept.push_back(std::move(row));
  }
  rows = std::move(kept);
}

}  // namespace

std::vector<std::string> Baselines::tables() {
  std::vector<std::string> names;
  for (const Table& table : known()) names.emplace_back(table.name);
  return names;
}

void Baselines::set(const std::string& table, const std::string& switch_name, const ordered_json& rows) {
  const Table* format = find(table);
  if (format == nullptr) return;
  Namer name(*format);
  Rows counted;
  for (const auto& row : rows) {
    counted[name(row)] = counts_of(*format, row);
  }
  const std::lock_guard lock(mutex_);
  rows_[{table, switch_name}] = std::move(counted);
}

void Baselines::apply(const std::string& table, ordered_json& rows) {
  const Table* format = find(table);
  if (format == nullptr) return;
  {
    const std::lock_guard lock(mutex_);
    Namer name(*format);
    for (auto& row : rows) {
      if (rows_.empty()) break;
      const std::string row_name = name(row);
      const auto of_switch = rows_.find({table, row.value("switch", std::string())});
      if (of_switch == rows_.end()) continue;
      const auto found = of_switch->second.find(row_name);
      if (found != of_switch->second.end()) subtract(*format, found->second, row);
    }
  }
  if (format->only_what_happened || !format->hidden.empty()) tidy_up(*format, rows);
}

}  // namespace weft
