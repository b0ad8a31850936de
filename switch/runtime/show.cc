// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// What a runtime lets the control service, Prometheus and the service manager see of it.
#include <prometheus/metric_family.h>
#include <rte_cycles.h>
#include <rte_lcore.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "switch/config/diff.h"
#include "switch/observe/metrics.h"
#include "switch/observe/switch_rows.h"
#include "switch/runtime/runtime.h"

namespace weft {

using api::ShowResult;
using api::TableInfo;
using nlohmann::ordered_json;

std::vector<RunningSwitch> Runtime::running_switches() const {
  std::vector<RunningSwitch> views;
  for (const Switch& s : switches_) views.push_back({*s.state, s.ports, s.pipelines, s.id});
  return views;
}

std::vector<RunningWorker> Runtime::running_workers() const {
  std::vector<RunningWorker> views;
  for (std::size_t w = 0; w < workers_.size(); ++w)
    views.push_back({cpus_[w], static_cast<int>(rte_lcore_to_socket_id(lcores_[w])), workers_[w]->usage()});
  return views;
}

std::vector<TableInfo> Runtime::tables() const {
  const std::shared_lock lock(switches_mutex_);
  return tables_of(running_switches());
}

ShowResult Runtime::show_uncleared(const std::string& table, const std::string& switch_name, std::size_t max_rows) {
  ShowResult result;
  const std::shared_lock lock(switches_mutex_);
  const auto switches = running_switches();
  const auto known = tables_of(switches);
  if (std::none_of(known.begin(), known.end(), [&](const TableInfo& t) { return t.name == table; })) {
    result.error = "there is no table '" + table + "'";
    return result;
  }
  if (table == "workers") {
    result.rows = worker_rows(running_workers(), switches);
    return result;
  }
  if (table == "config") return config_table(switch_name, max_rows);
  bool found = switch_name.empty();
  for (const RunningSwitch& s : switches) {
    if (!switch_name.empty() && s.state.info().name != switch_name) continue;
    found = true;
    ordered_json rows = ordered_json::array();
    const std::size_t room = max_rows - std::min(max_rows, result.rows.size());
    result.truncated |= !switch_rows(s, table, room, rates_, on_worker_, rows);
    for (auto& row : rows) {
      ordered_json with_switch{{"switch", s.state.info().name}};
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

void Runtime::on_worker(std::size_t worker, const std::function<void()>& task) {
  const std::lock_guard lock(running_mutex_);
  if (running_) {
    workers_[worker]->call(task);
  } else {
    task();
  }
}

void Runtime::sample_rates(TimeNs now) {
  std::map<PortRates::Key, PortCounts> counts;
  const std::shared_lock lock(switches_mutex_);
  for (const RunningSwitch& s : running_switches()) count_ports(s, counts);
  rates_.sample(now, std::move(counts));
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

bool Runtime::balanced() {
  const std::shared_lock lock(switches_mutex_);
  const auto switches = running_switches();
  return std::all_of(switches.begin(), switches.end(),
                     [this](const RunningSwitch& s) { return balance_of(s, on_worker_).ok(); });
}

ordered_json Runtime::counters() {
  const std::shared_lock lock(switches_mutex_);
  const TimeNs end = stopped_ != 0 ? stopped_.load() : clock_.now();
  ordered_json out{{"version", WEFT_VERSION},
                   {"elapsed_s", static_cast<double>(end - started_) / 1e9},
                   {"tsc_hz", rte_get_tsc_hz()},
                   {"hugepages", hugepages_},
                   {"workers", worker_rows(running_workers(), running_switches())},
                   {"switches", ordered_json::array()}};
  for (const RunningSwitch& s : running_switches()) out["switches"].push_back(switch_counters(s, on_worker_));
  return out;
}

Health Runtime::health() const {
  Health health;
  for (const auto& worker : workers_) health.worker_loops.push_back(worker->usage().loops);
  for (const Switch& s : switches_) {
    for (const pipeline::PortInfo& port : s.state->info().ports) {
      ++health.ports;
      health.ports_up += s.state->link_up(port.index) ? 1 : 0;
    }
    for (const auto& p : s.pipelines) {
      health.rx_packets += p->totals().rx.value();
      health.dropped += p->totals().all_dropped();
    }
  }
  return health;
}

std::vector<prometheus::MetricFamily> Runtime::metrics() const {
  const std::shared_lock lock(switches_mutex_);
  return metrics_of({clock_.now() - started_, pools_.size(), pools_.available()}, running_workers(),
                    running_switches());
}

}  // namespace weft
