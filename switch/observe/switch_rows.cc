// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/observe/switch_rows.h"

#include <rte_cycles.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>
#include <vector>

#include "switch/observe/latency.h"
#include "switch/observe/qos_rows.h"

namespace weft {
namespace {

using api::ShowResult;
using api::TableInfo;
using nlohmann::ordered_json;
using pipeline::FlowTotals;
using pipeline::Pipeline;
using pipeline::PortInfo;
using pipeline::StageShared;
using pipeline::StageTotals;

// Rows that a worker makes between two bursts. Few, because packets wait meanwhile.
constexpr std::size_t kRowsPerCall = 16;

void add_to(Balance& sum, const Pipeline& p) {
  const FlowTotals& t = p.totals();
  sum.rx += t.rx.value();
  sum.generated += t.generated.value();
  sum.replicated += t.replicated.value();
  sum.tx += t.tx.value();
  sum.consumed += t.consumed.value();
  sum.dropped += t.all_dropped();
  // What is in a ring between workers has been counted out and not yet in.
  sum.held += p.held() + t.handed_out.value() - t.handed_in.value();
}

struct Sum {
  std::uint64_t packets = 0, bursts = 0, cycles = 0;
  void add(const StageTotals& t) {
    packets += t.packets.value();
    bursts += t.bursts.value();
    cycles += t.cycles.value();
  }
  [[nodiscard]] ordered_json row(const std::string& name, const char* half) const {
    return {{"stage", name},
            {"half", half},
            {"packets", packets},
            {"bursts", bursts},
            {"packets_per_burst", bursts == 0 ? 0.0 : std::round(10.0 * packets / bursts) / 10},
            {"cycles", cycles},
            {"cycles_per_packet", packets == 0 ? 0.0 : std::round(10.0 * cycles / packets) / 10}};
  }
};

ordered_json stage_rows(const RunningSwitch& s) {
  ordered_json rows = ordered_json::array();
  const auto collect = [&](const std::string& name, const char* half, auto&& totals_of) {
    Sum sum;
    for (const auto& p : s.pipelines) sum.add(totals_of(*p));
    rows.push_back(sum.row(name, half));
  };
  for (std::size_t i = 0; i < s.state.types().size(); ++i) {
    if (!s.state.types()[i]->has_ingress) continue;
    collect(
        s.state.types()[i]->name, "ingress", [i](const Pipeline& p) -> auto& { return p.ingress_totals(i); });
  }
  collect(
      "admission", "ingress", [](const Pipeline& p) -> auto& { return p.admission_totals(); });
  for (std::size_t i = 0; i < s.state.types().size(); ++i) {
    if (!s.state.types()[i]->has_egress) continue;
    collect(
        s.state.types()[i]->name, "egress", [i](const Pipeline& p) -> auto& { return p.egress_totals(i); });
  }
  collect(
      "tx", "egress", [](const Pipeline& p) -> auto& { return p.tx_totals(); });
  return rows;
}

ordered_json port_rows(const RunningSwitch& s) {
  ordered_json rows = ordered_json::array();
  for (const PortInfo& port : s.state.info().ports) {
    std::uint64_t rx = 0, rx_bytes = 0, tx = 0, tx_bytes = 0, dropped = 0, queue = 0;
    for (const auto& p : s.pipelines) {
      const auto& t = p->port_totals(port.index);
      queue += p->queue_depth(port.index);
      rx += t.rx.value();
      rx_bytes += t.rx_bytes.value();
      tx += t.tx.value();
      tx_bytes += t.tx_bytes.value();
      dropped += t.dropped.value();
    }
    const auto device = s.ports[port.index]->device_stats();
    rows.push_back({{"port", port.name},
                    {"type", port.type},
                    {"link", s.state.link_up(port.index) ? "up" : "down"},
                    {"admin", s.ports[port.index]->is_shut() ? "down" : "up"},
                    {"rx_packets", rx},
                    {"rx_bytes", rx_bytes},
                    {"tx_packets", tx},
                    {"tx_bytes", tx_bytes},
                    {"queue", queue},
                    {"out_drops", dropped},
                    {"rx_missed", device.rx_missed},
                    {"rx_errors", device.rx_errors},
                    {"rx_no_mbuf", device.rx_no_mbuf},
                    {"tx_errors", device.tx_errors},
                    {"kernel_rx_dropped", device.kernel_rx_dropped},
                    {"kernel_tx_dropped", device.kernel_tx_dropped},
                    {"mtu", s.state.mtu_bytes(port.index)},
                    {"mac", port.mac.to_string()},
                    {"device", s.ports[port.index]->description()}});
    if (s.pipelines.size() > 1) rows.back()["worker"] = s.state.owner_of_port(port.index);
  }
  return rows;
}

std::uint64_t drops_of(const RunningSwitch& s, std::size_t reason) {
  std::uint64_t sum = 0;
  for (const auto& p : s.pipelines) sum += p->totals().dropped[reason].value();
  return sum;
}

ordered_json drop_rows(const RunningSwitch& s) {
  ordered_json rows = ordered_json::array();
  for (std::size_t i = 0; i < pipeline::kDropReasonSlots; ++i) {
    const std::uint64_t sum = drops_of(s, i);
    if (sum == 0) continue;
    const auto& reason = s.state.drop_reasons()[i];
    rows.push_back({{"reason", reason.name},
                    {"severity", to_string(reason.severity)},
                    {"packets", sum},
                    {"meaning", reason.text}});
  }
  return rows;
}

std::uint64_t drops_at(const RunningSwitch& s, const PortInfo& port, std::size_t reason) {
  std::uint64_t sum = 0;
  for (const auto& p : s.pipelines) sum += p->port_totals(port.index).in_dropped[reason].value();
  return sum;
}

// A row for every reason for which packets of a port were dropped; packets that the switch made, and those that a
// device refused, came in nowhere.
ordered_json port_drop_rows(const RunningSwitch& s) {
  ordered_json rows = ordered_json::array();
  for (const PortInfo& port : s.state.info().ports) {
    for (std::size_t i = 0; i < pipeline::kDropReasonSlots; ++i) {
      const std::uint64_t sum = drops_at(s, port, i);
      if (sum == 0) continue;
      const auto& reason = s.state.drop_reasons()[i];
      rows.push_back({{"port", port.name},
                      {"reason", reason.name},
                      {"severity", to_string(reason.severity)},
                      {"packets", sum},
                      {"meaning", reason.text}});
    }
  }
  return rows;
}

ordered_json counter_rows(const RunningSwitch& s) {
  ordered_json rows = ordered_json::array();
  for (std::size_t i = 0; i < s.state.types().size(); ++i) {
    const auto& declared = s.state.types()[i]->counters;
    for (std::size_t k = 0; k < declared.size(); ++k) {
      std::uint64_t sum = 0;
      for (const auto& p : s.pipelines) sum += p->stage(i).counters()[k].value();
      rows.push_back({{"stage", s.state.types()[i]->name},
                      {"counter", declared[k].name},
                      {"value", sum},
                      {"unit", declared[k].unit},
                      {"kind", to_string(declared[k].kind)},
                      {"meaning", declared[k].help}});
    }
  }
  return rows;
}

ordered_json balance_row(const Balance& b) {
  // Workers are asked one after the other: what went from one to another meanwhile may make the difference negative.
  const std::uint64_t held = static_cast<std::int64_t>(b.held) < 0 ? 0 : b.held;
  return {{"rx", b.rx},   {"generated", b.generated}, {"replicated", b.replicated},
          {"tx", b.tx},   {"consumed", b.consumed},   {"dropped", b.dropped},
          {"held", held}, {"balanced", b.ok()}};
}

bool offers(const std::vector<std::string_view>& names, const std::string& table) {
  return std::find(names.begin(), names.end(), table) != names.end();
}

// Appends the rows of one source of a table until it ends or `room` is used up.
template <typename Fetch>
bool append(ordered_json& rows, std::size_t max_rows, Fetch&& fetch) {
  std::uint64_t cursor = 0;
  while (cursor != StageShared::kEnd) {
    if (rows.size() >= max_rows) return false;
    for (auto& row : fetch(cursor, std::min(kRowsPerCall, max_rows - rows.size()))) rows.push_back(row);
  }
  return true;
}

const std::vector<TableInfo>& own_tables() {
  static const std::vector<TableInfo> kTables{
      {"ports", "Packets, bytes, drops and link of every port."},
      {"stages", "Packets and cycles of every stage of the pipeline."},
      {"drops", "Dropped packets by reason."},
      {"port_drops", "Dropped packets by the port where they came in, and by reason."},
      {"counters", "Every counter of every stage."},
      {"totals", "Where packets came from and went: nothing may be missing."},
      {"latency", "How long packets were in the switch, by the queue through which they left (sampled)."},
      {"workers", "What the worker cores do."},
      {"config", "The running configuration, defaults included."},
  };
  return kTables;
}

// The counters of the rows, with what happens now: rates of the last second, and how much of the speed that is.
void add_rates(const RunningSwitch& s, const PortRates& rates, ordered_json& rows) {
  const auto rounded = [](double value) { return std::round(10 * value) / 10; };
  for (const PortInfo& port : s.state.info().ports) {
    ordered_json& row = rows[port.index];
    std::uint64_t in_drops = 0;
    for (std::size_t i = 0; i < pipeline::kDropReasonSlots; ++i) in_drops += drops_at(s, port, i);
    ordered_json with_rates = ordered_json::object();
    for (auto& [key, value] : row.items()) {
      if (key == "out_drops") with_rates["in_drops"] = in_drops;
      with_rates[key] = value;
      if (key != "tx_bytes") continue;
      const auto rate = rates.of({s.id, port.index});
      const auto text = [&](double PortRate::*member) {
        return rate ? ordered_json(rounded((*rate).*member)) : nullptr;
      };
      with_rates["rx_pps"] = text(&PortRate::rx_pps);
      with_rates["rx_mbps"] = text(&PortRate::rx_mbps);
      with_rates["tx_pps"] = text(&PortRate::tx_pps);
      with_rates["tx_mbps"] = text(&PortRate::tx_mbps);
      const std::uint64_t speed = port.rate_mbps != 0 ? port.rate_mbps : s.ports[port.index]->speed_mbps();
      with_rates["busy_percent"] =
          rate && speed != 0 ? ordered_json(rounded(100 * std::max(rate->rx_mbps, rate->tx_mbps) / speed)) : nullptr;
    }
    row = std::move(with_rates);
  }
}

bool stage_table_rows(const RunningSwitch& s, const std::string& table, std::size_t max_rows, const OnWorker& on_worker,
                      ordered_json& rows) {
  bool complete = true;
  for (std::size_t i = 0; i < s.state.types().size(); ++i) {
    if (const StageShared* shared = s.state.shared(i); shared != nullptr && offers(shared->tables(), table)) {
      complete &= append(rows, max_rows,
                         [&](std::uint64_t& cursor, std::size_t max) { return shared->rows(table, cursor, max); });
    }
    for (std::size_t w = 0; w < s.pipelines.size(); ++w) {
      const pipeline::Stage& stage = s.pipelines[w]->stage(i);
      if (!offers(stage.tables(), table)) continue;
      complete &= append(rows, max_rows, [&](std::uint64_t& cursor, std::size_t max) {
        nlohmann::ordered_json part;
        on_worker(w, [&] { part = stage.rows(table, cursor, max); });
        if (s.pipelines.size() > 1) {
          for (auto& row : part) row["worker"] = w;
        }
        return part;
      });
    }
  }
  return complete;
}

// The reasons for which most packets ended on a worker, of all switches: "egress_queue_full 120, l2_unknown 3".
std::string top_drops(std::span<const RunningSwitch> switches, std::size_t worker) {
  constexpr std::size_t kNamed = 3;
  std::map<std::string_view, std::uint64_t> sums;
  for (const RunningSwitch& s : switches) {
    for (std::size_t i = 0; i < pipeline::kDropReasonSlots; ++i) {
      const std::uint64_t packets = s.pipelines[worker]->totals().dropped[i].value();
      if (packets != 0) sums[s.state.drop_reasons()[i].name] += packets;
    }
  }
  std::vector<std::pair<std::string_view, std::uint64_t>> ordered(sums.begin(), sums.end());
  std::ranges::stable_sort(ordered, std::greater{}, [](const auto& reason) { return reason.second; });
  std::string text;
  for (std::size_t i = 0; i < std::min(kNamed, ordered.size()); ++i) {
    text += (text.empty() ? "" : ", ") + std::string(ordered[i].first) + " " + std::to_string(ordered[i].second);
  }
  return text;
}

}  // namespace

std::vector<TableInfo> tables_of(std::span<const RunningSwitch> switches) {
  std::vector<TableInfo> all = own_tables();
  const auto note = [&](std::string_view name, const std::string& stage) {
    const auto known = std::find_if(all.begin(), all.end(), [&](const TableInfo& t) { return t.name == name; });
    if (known == all.end()) all.push_back({std::string(name), "Of the stage " + stage + "."});
  };
  const bool qos =
      std::any_of(switches.begin(), switches.end(), [](const RunningSwitch& s) { return s.state.buffer() != nullptr; });
  if (qos) all.insert(all.end(), qos_tables().begin(), qos_tables().end());
  for (const RunningSwitch& s : switches) {
    for (std::size_t i = 0; i < s.state.types().size(); ++i) {
      const std::string& stage = s.state.types()[i]->name;
      if (const StageShared* shared = s.state.shared(i)) {
        for (const auto name : shared->tables()) note(name, stage);
      }
      for (const auto name : s.pipelines[0]->stage(i).tables()) note(name, stage);
    }
  }
  return all;
}

bool switch_rows(const RunningSwitch& s, const std::string& table, std::size_t max_rows, const PortRates& rates,
                 const OnWorker& on_worker, ordered_json& rows) {
  if (table == "ports") {
    rows = port_rows(s);
    add_rates(s, rates, rows);
  } else if (table == "port_drops") {
    rows = port_drop_rows(s);
  } else if (table == "latency") {
    rows = latency_rows(s);
  } else if (table == "stages") {
    rows = stage_rows(s);
  } else if (table == "drops") {
    rows = drop_rows(s);
  } else if (table == "counters") {
    rows = counter_rows(s);
  } else if (table == "totals") {
    rows.push_back(balance_row(balance_of(s, on_worker)));
  } else if (table == "pfc" && s.state.buffer() != nullptr) {
    for (const PortInfo& port : s.state.info().ports) {
      const std::uint16_t w = s.state.owner_of_port(port.index);
      ordered_json of_port;
      on_worker(w, [&] { of_port = pfc_rows(*s.pipelines[w], port.index); });
      rows.insert(rows.end(), of_port.begin(), of_port.end());
    }
  } else if (is_qos_table(table)) {
    rows = qos_rows(table, s.state, s.pipelines);
  } else {
    return stage_table_rows(s, table, max_rows, on_worker, rows);
  }
  return true;
}

ordered_json worker_rows(std::span<const RunningWorker> workers, std::span<const RunningSwitch> switches) {
  const auto tsc_hz = static_cast<double>(rte_get_tsc_hz());
  ordered_json rows = ordered_json::array();
  for (std::size_t w = 0; w < workers.size(); ++w) {
    const WorkerUsage& u = workers[w].usage;
    const auto rounded = [](double of, std::uint64_t to) {
      return to == 0 ? 0 : std::round(10 * of / static_cast<double>(to)) / 10;
    };
    const auto busy = static_cast<double>(u.busy_cycles);
    rows.push_back({{"worker", w},
                    {"cpu", workers[w].cpu},
                    {"numa_node", workers[w].numa_node},
                    {"loops", u.loops},
                    {"busy_loops", u.busy_loops},
                    {"busy_percent", rounded(100 * busy, u.cycles)},
                    {"idle_s", std::round(100 * static_cast<double>(u.cycles - u.busy_cycles) / tsc_hz) / 100},
                    {"sleeps", u.sleeps},
                    {"rx_packets", u.received},
                    {"handed_in", u.handed_in},
                    {"handed_out", u.handed_out},
                    {"rings_full", u.rings_full},
                    {"cycles_per_packet", rounded(busy, u.received + u.handed_in)},
                    {"top_drops", top_drops(switches, w)}});
  }
  return rows;
}

Balance balance_of(const RunningSwitch& s, const OnWorker& on_worker) {
  Balance sum;
  // Only between two bursts is every packet in one place.
  for (std::size_t w = 0; w < s.pipelines.size(); ++w) on_worker(w, [&] { add_to(sum, *s.pipelines[w]); });
  return sum;
}

ordered_json switch_counters(const RunningSwitch& s, const OnWorker& on_worker) {
  ordered_json drops = ordered_json::object();
  for (std::size_t i = 0; i < pipeline::kDropReasonSlots; ++i) {
    if (const auto sum = drops_of(s, i); sum != 0) drops[std::string(s.state.drop_reasons()[i].name)] = sum;
  }
  ordered_json counters = ordered_json::object();
  for (const auto& row : counter_rows(s)) {
    counters[row["stage"].get<std::string>()][row["counter"].get<std::string>()] = row["value"];
  }
  return {{"name", s.state.info().name},
          {"totals", balance_row(balance_of(s, on_worker))},
          {"ports", port_rows(s)},
          {"stages", stage_rows(s)},
          {"drops", drops},
          {"counters", counters}};
}

void count_ports(const RunningSwitch& s, std::map<PortRates::Key, PortCounts>& counts) {
  for (const PortInfo& port : s.state.info().ports) {
    PortCounts& sum = counts[{s.id, port.index}];
    for (const auto& p : s.pipelines) {
      const auto& t = p->port_totals(port.index);
      sum.rx_packets += t.rx.value();
      sum.rx_bytes += t.rx_bytes.value();
      sum.tx_packets += t.tx.value();
      sum.tx_bytes += t.tx_bytes.value();
    }
  }
}

}  // namespace weft
