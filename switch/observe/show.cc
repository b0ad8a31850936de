// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// The tables of `weftctl show`, and the counters that the process writes when it ends.
#include <rte_cycles.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "switch/config/diff.h"
#include "switch/observe/qos_rows.h"
#include "switch/runtime/runtime.h"

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
using pipeline::SwitchState;

// Rows that a worker makes between two bursts. Few, because packets wait meanwhile.
constexpr std::size_t kRowsPerCall = 16;

// Where packets came from and went, of one worker or summed over several.
struct Balance {
  std::uint64_t rx = 0, generated = 0, replicated = 0, tx = 0, consumed = 0, dropped = 0, held = 0;
  [[nodiscard]] bool ok() const noexcept { return rx + generated + replicated == tx + consumed + dropped + held; }

  void add(const Pipeline& p) {
    const FlowTotals& t = p.totals();
    rx += t.rx.value();
    generated += t.generated.value();
    replicated += t.replicated.value();
    tx += t.tx.value();
    consumed += t.consumed.value();
    dropped += t.all_dropped();
    // What is in a ring between workers has been counted out and not yet in.
    held += p.held() + t.handed_out.value() - t.handed_in.value();
  }
};

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

template <typename Pipelines>
ordered_json stage_rows(const SwitchState& state, const Pipelines& pipelines) {
  ordered_json rows = ordered_json::array();
  const auto collect = [&](const std::string& name, const char* half, auto&& totals_of) {
    Sum sum;
    for (const auto& p : pipelines) sum.add(totals_of(*p));
    rows.push_back(sum.row(name, half));
  };
  for (std::size_t i = 0; i < state.types().size(); ++i) {
    if (!state.types()[i]->has_ingress) continue;
    collect(
        state.types()[i]->name, "ingress", [i](const Pipeline& p) -> auto& { return p.ingress_totals(i); });
  }
  collect(
      "admission", "ingress", [](const Pipeline& p) -> auto& { return p.admission_totals(); });
  for (std::size_t i = 0; i < state.types().size(); ++i) {
    if (!state.types()[i]->has_egress) continue;
    collect(
        state.types()[i]->name, "egress", [i](const Pipeline& p) -> auto& { return p.egress_totals(i); });
  }
  collect(
      "tx", "egress", [](const Pipeline& p) -> auto& { return p.tx_totals(); });
  return rows;
}

template <typename Pipelines, typename Ports>
ordered_json port_rows(const SwitchState& state, const Pipelines& pipelines, const Ports& ports) {
  ordered_json rows = ordered_json::array();
  for (const PortInfo& port : state.info().ports) {
    std::uint64_t rx = 0, rx_bytes = 0, tx = 0, tx_bytes = 0, dropped = 0;
    for (const auto& p : pipelines) {
      const auto& t = p->port_totals(port.index);
      rx += t.rx.value();
      rx_bytes += t.rx_bytes.value();
      tx += t.tx.value();
      tx_bytes += t.tx_bytes.value();
      dropped += t.dropped.value();
    }
    const auto device = ports[port.index]->device_stats();
    const auto& owner = *pipelines[state.owner_of_port(port.index)];
    rows.push_back({{"port", port.name},
                    {"type", port.type},
                    {"link", state.link_up(port.index) ? "up" : "down"},
                    {"admin", ports[port.index]->is_shut() ? "down" : "up"},
                    {"rx_packets", rx},
                    {"rx_bytes", rx_bytes},
                    {"tx_packets", tx},
                    {"tx_bytes", tx_bytes},
                    {"queue", owner.queue_depth(port.index)},
                    {"queue_drops", dropped},
                    {"rx_missed", device.rx_missed},
                    {"rx_errors", device.rx_errors},
                    {"rx_no_mbuf", device.rx_no_mbuf},
                    {"tx_errors", device.tx_errors},
                    {"kernel_rx_dropped", device.kernel_rx_dropped},
                    {"kernel_tx_dropped", device.kernel_tx_dropped},
                    {"mtu", state.mtu_bytes(port.index)},
                    {"mac", port.mac.to_string()},
                    {"device", ports[port.index]->description()}});
  }
  return rows;
}

template <typename Pipelines>
std::uint64_t drops_of(const Pipelines& pipelines, std::size_t reason) {
  std::uint64_t sum = 0;
  for (const auto& p : pipelines) sum += p->totals().dropped[reason].value();
  return sum;
}

template <typename Pipelines>
ordered_json drop_rows(const SwitchState& state, const Pipelines& pipelines) {
  ordered_json rows = ordered_json::array();
  for (std::size_t i = 0; i < pipeline::kDropReasonSlots; ++i) {
    const std::uint64_t sum = drops_of(pipelines, i);
    if (sum == 0) continue;
    const auto& reason = state.drop_reasons()[i];
    rows.push_back({{"reason", reason.name},
                    {"severity", to_string(reason.severity)},
                    {"packets", sum},
                    {"meaning", reason.text}});
  }
  return rows;
}

std::uint64_t drops_at(const auto& pipelines, const PortInfo& port, std::size_t reason) {
  std::uint64_t sum = 0;
  for (const auto& p : pipelines) sum += p->port_totals(port.index).in_dropped[reason].value();
  return sum;
}

// A row for every reason for which packets of a port were dropped; packets that the switch made, and those that a
// device refused, came in nowhere.
template <typename Pipelines>
ordered_json port_drop_rows(const SwitchState& state, const Pipelines& pipelines) {
  ordered_json rows = ordered_json::array();
  for (const PortInfo& port : state.info().ports) {
    for (std::size_t i = 0; i < pipeline::kDropReasonSlots; ++i) {
      const std::uint64_t sum = drops_at(pipelines, port, i);
      if (sum == 0) continue;
      const auto& reason = state.drop_reasons()[i];
      rows.push_back({{"port", port.name},
                      {"reason", reason.name},
                      {"severity", to_string(reason.severity)},
                      {"packets", sum},
                      {"meaning", reason.text}});
    }
  }
  return rows;
}

template <typename Pipelines>
ordered_json counter_rows(const SwitchState& state, const Pipelines& pipelines) {
  ordered_json rows = ordered_json::array();
  for (std::size_t i = 0; i < state.types().size(); ++i) {
    const auto& declared = state.types()[i]->counters;
    for (std::size_t k = 0; k < declared.size(); ++k) {
      std::uint64_t sum = 0;
      for (const auto& p : pipelines) sum += p->stage(i).counters()[k].value();
      rows.push_back({{"stage", state.types()[i]->name},
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
      {"workers", "What the worker cores do."},
      {"config", "The running configuration, defaults included."},
  };
  return kTables;
}

}  // namespace

std::vector<TableInfo> Runtime::tables() const {
  const std::shared_lock lock(switches_mutex_);
  return all_tables();
}

std::vector<TableInfo> Runtime::all_tables() const {
  std::vector<TableInfo> all = own_tables();
  const auto note = [&](std::string_view name, const std::string& stage) {
    const auto known = std::find_if(all.begin(), all.end(), [&](const TableInfo& t) { return t.name == name; });
    if (known == all.end()) all.push_back({std::string(name), "Of the stage " + stage + "."});
  };
  const bool qos =
      std::any_of(switches_.begin(), switches_.end(), [](const Switch& s) { return s.state->buffer() != nullptr; });
  if (qos) all.insert(all.end(), qos_tables().begin(), qos_tables().end());
  for (const Switch& s : switches_) {
    for (std::size_t i = 0; i < s.state->types().size(); ++i) {
      const std::string& stage = s.state->types()[i]->name;
      if (const StageShared* shared = s.state->shared(i)) {
        for (const auto name : shared->tables()) note(name, stage);
      }
      for (const auto name : s.pipelines[0]->stage(i).tables()) note(name, stage);
    }
  }
  return all;
}

ShowResult Runtime::show_uncleared(const std::string& table, const std::string& switch_name, std::size_t max_rows) {
  ShowResult result;
  const std::shared_lock lock(switches_mutex_);
  const auto known = all_tables();
  if (std::none_of(known.begin(), known.end(), [&](const TableInfo& t) { return t.name == table; })) {
    result.error = "there is no table '" + table + "'";
    return result;
  }
  if (table == "workers") {
    result.rows = worker_rows();
    return result;
  }
  if (table == "config") return config_table(switch_name, max_rows);
  bool found = switch_name.empty();
  for (Switch& s : switches_) {
    if (!switch_name.empty() && s.state->info().name != switch_name) continue;
    found = true;
    ordered_json rows = ordered_json::array();
    result.truncated |= !switch_rows(s, table, max_rows - std::min(max_rows, result.rows.size()), rows);
    for (auto& row : rows) {
      ordered_json with_switch{{"switch", s.state->info().name}};
      with_switch.update(row);
      result.rows.push_back(std::move(with_switch));
    }
  }
  if (!found) result.error = "there is no switch '" + switch_name + "'";
  return result;
}

ShowResult Runtime::config_table(const std::string& switch_name, std::size_t max_rows) const {
  ShowResult result;
  bool found = switch_name.empty();
  for (auto& row : config::config_rows(config_)) {
    if (!switch_name.empty() && row["switch"] != switch_name) continue;
    found = true;
    result.truncated = result.rows.size() == max_rows;
    if (result.truncated) break;
    result.rows.push_back(std::move(row));
  }
  if (!found) result.error = "there is no switch '" + switch_name + "'";
  return result;
}

bool Runtime::switch_rows(Switch& s, const std::string& table, std::size_t max_rows, ordered_json& rows) {
  if (table == "ports") {
    rows = port_rows(*s.state, s.pipelines, s.ports);
    add_rates(s, rows);
  } else if (table == "port_drops") {
    rows = port_drop_rows(*s.state, s.pipelines);
  } else if (table == "stages") {
    rows = stage_rows(*s.state, s.pipelines);
  } else if (table == "drops") {
    rows = drop_rows(*s.state, s.pipelines);
  } else if (table == "counters") {
    rows = counter_rows(*s.state, s.pipelines);
  } else if (table == "totals") {
    rows.push_back(totals_row(s));
  } else if (table == "pfc" && s.state->buffer() != nullptr) {
    for (const PortInfo& port : s.state->info().ports) {
      const std::uint16_t w = s.state->owner_of_port(port.index);
      ordered_json of_port;
      on_worker(w, [&] { of_port = pfc_rows(*s.pipelines[w], port.index); });
      rows.insert(rows.end(), of_port.begin(), of_port.end());
    }
  } else if (is_qos_table(table)) {
    rows = qos_rows(table, *s.state, s.pipelines);
  } else {
    return stage_table_rows(s, table, max_rows, rows);
  }
  return true;
}

// The counters of the rows, with what happens now: rates of the last second, and how much of the speed that is.
void Runtime::add_rates(const Switch& s, ordered_json& rows) const {
  const auto rounded = [](double value) { return std::round(10 * value) / 10; };
  for (const PortInfo& port : s.state->info().ports) {
    ordered_json& row = rows[port.index];
    std::uint64_t in_drops = 0;
    for (std::size_t i = 0; i < pipeline::kDropReasonSlots; ++i) in_drops += drops_at(s.pipelines, port, i);
    ordered_json with_rates = ordered_json::object();
    for (auto& [key, value] : row.items()) {
      if (key == "queue_drops") with_rates["in_drops"] = in_drops;
      with_rates[key] = value;
      if (key != "tx_bytes") continue;
      const auto rate = rates_.of({s.id, port.index});
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

void Runtime::sample_rates(TimeNs now) {
  std::map<PortRates::Key, PortCounts> counts;
  const std::shared_lock lock(switches_mutex_);
  for (const Switch& s : switches_) {
    for (const PortInfo& port : s.state->info().ports) {
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
  rates_.sample(now, std::move(counts));
}

bool Runtime::stage_table_rows(Switch& s, const std::string& table, std::size_t max_rows, ordered_json& rows) {
  bool complete = true;
  for (std::size_t i = 0; i < s.state->types().size(); ++i) {
    if (const StageShared* shared = s.state->shared(i); shared != nullptr && offers(shared->tables(), table)) {
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

void Runtime::on_worker(std::size_t worker, const std::function<void()>& task) {
  const std::lock_guard lock(running_mutex_);
  if (running_) {
    workers_[worker]->call(task);
  } else {
    task();
  }
}

ordered_json Runtime::worker_rows() const {
  ordered_json rows = ordered_json::array();
  for (std::size_t w = 0; w < workers_.size(); ++w) {
    const Worker::Usage u = workers_[w]->usage();
    const double busy =
        u.cycles == 0 ? 0
                      : std::round(1000.0 * static_cast<double>(u.busy_cycles) / static_cast<double>(u.cycles)) / 10;
    rows.push_back({{"worker", w},
                    {"cpu", cpus_[w]},
                    {"loops", u.loops},
                    {"busy_loops", u.busy_loops},
                    {"busy_percent", busy},
                    {"sleeps", u.sleeps}});
  }
  return rows;
}

ordered_json Runtime::about() const {
  return {{"version", WEFT_VERSION},
          {"pid", getpid()},
          {"uptime_s", static_cast<double>(clock_.now() - started_) / 1e9},
          {"config", config_file_},
          {"workers", workers_.size()},
          {"hugepages", hugepages_},
          {"switches", switch_names()}};
}

ordered_json Runtime::totals_row(Switch& s) {
  Balance sum;
  // Only between two bursts is every packet in one place.
  for (std::size_t w = 0; w < s.pipelines.size(); ++w) on_worker(w, [&] { sum.add(*s.pipelines[w]); });
  return balance_row(sum);
}

bool Runtime::balanced() {
  const std::shared_lock lock(switches_mutex_);
  return std::all_of(switches_.begin(), switches_.end(),
                     [this](Switch& s) { return totals_row(s)["balanced"].get<bool>(); });
}

ordered_json Runtime::counters() {
  const std::shared_lock lock(switches_mutex_);
  const TimeNs end = stopped_ != 0 ? stopped_.load() : clock_.now();
  ordered_json out{{"version", WEFT_VERSION},    {"elapsed_s", static_cast<double>(end - started_) / 1e9},
                   {"tsc_hz", rte_get_tsc_hz()}, {"hugepages", hugepages_},
                   {"workers", worker_rows()},   {"switches", ordered_json::array()}};
  for (Switch& s : switches_) {
    ordered_json drops = ordered_json::object();
    for (std::size_t i = 0; i < pipeline::kDropReasonSlots; ++i) {
      if (const auto sum = drops_of(s.pipelines, i); sum != 0)
        drops[std::string(s.state->drop_reasons()[i].name)] = sum;
    }
    ordered_json counters = ordered_json::object();
    for (const auto& row : counter_rows(*s.state, s.pipelines)) {
      counters[row["stage"].get<std::string>()][row["counter"].get<std::string>()] = row["value"];
    }
    out["switches"].push_back({{"name", s.state->info().name},
                               {"totals", totals_row(s)},
                               {"ports", port_rows(*s.state, s.pipelines, s.ports)},
                               {"stages", stage_rows(*s.state, s.pipelines)},
                               {"drops", drops},
                               {"counters", counters}});
  }
  return out;
}

}  // namespace weft
