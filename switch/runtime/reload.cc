// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Live reload: what changed in the configuration file is built beside what runs, and exchanged while all workers stand
// between two bursts. Until then nothing that runs is touched, so that a reload that cannot be carried out leaves no
// trace.
#include <spdlog/spdlog.h>

#include <algorithm>
#include <bitset>
#include <exception>
#include <set>

#include "switch/config/diff.h"
#include "switch/pipeline/find.h"
#include "switch/runtime/commands.h"
#include "switch/runtime/log.h"
#include "switch/runtime/runtime.h"

namespace weft {
namespace {

using api::ReloadResult;
using config::Config;
using config::Value;
using pipeline::DropReason;
using pipeline::Pipeline;
using pipeline::PortIndex;
using pipeline::PortInfo;
using pipeline::PortMap;
using pipeline::SwitchInfo;

// The lines of a report without the count at its end.
std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t start = 0; start < text.size();) {
    const std::size_t end = std::min(text.find('\n', start), text.size());
    lines.push_back(text.substr(start, end - start));
    start = end + 1;
  }
  return lines;
}

void read_report(const config::Diagnostics& diagnostics, ReloadResult& result) {
  for (std::string& line : lines_of(diagnostics.to_string())) {
    const bool note = line.find(": note: ") != std::string::npos;
    (note ? result.notes : result.mistakes).push_back(std::move(line));
  }
}

const Value& source_of(const Config& config, const std::string& name) {
  static const Value kNothing;
  for (const Value& item : config.source["switches"].list_or_empty()) {
    if (item["name"].string() == name) return item;
  }
  return kNothing;
}

bool same_device(const PortInfo& a, const PortInfo& b) {
  return a.type == b.type && equal(a.device, b.device);
}

// What only one open device can have.
std::set<std::string> claims_of(const PortInfo& port) {
  std::set<std::string> out;
  for (const char* key : {"interface", "device", "tx_file"}) {
    if (port.device.has(key)) out.insert(std::string(key) + " " + port.device[key].string());
  }
  if (port.type == "vhost") out.insert("socket " + port.device["socket"].string());
  if (port.type == "memif") {
    out.insert("socket " + port.device["socket"].string() + " with id " + std::to_string(port.device["id"].integer()));
  }
  return out;
}

// The old port whose device each new port goes on with: the one of the same name, or one that has merely another name.
// nullptr where a device is opened.
std::vector<const PortInfo*> match_ports(const SwitchInfo& before, const SwitchInfo& after) {
  std::vector<const PortInfo*> matched(after.ports.size());
  std::set<const PortInfo*> taken;
  for (const PortInfo& port : after.ports) {
    const PortInfo* old = pipeline::find_port(before, port.name);
    if (old == nullptr || !same_device(*old, port)) continue;
    matched[port.index] = old;
    taken.insert(old);
  }
  for (const PortInfo& port : after.ports) {
    // The ends of links find each other by name.
    if (matched[port.index] != nullptr || port.type == "link") continue;
    const auto renamed = std::find_if(before.ports.begin(), before.ports.end(), [&](const PortInfo& old) {
      return !taken.contains(&old) && pipeline::find_port(after, old.name) == nullptr && same_device(old, port);
    });
    if (renamed == before.ports.end()) continue;
    matched[port.index] = &*renamed;
    taken.insert(&*renamed);
  }
  return matched;
}

}  // namespace

// What becomes of one switch of the new configuration.
struct Runtime::Plan {
  SwitchInfo info{};
  Switch* old = nullptr;  // nullptr: a new switch
  bool changed = true;
  std::vector<PortIndex> to{};  // by old port: its new index, kNoPort when its device is closed
  std::vector<std::shared_ptr<ports::Port>> ports{};
  std::vector<std::uint16_t> owners{};
  Switch made{};

  [[nodiscard]] PortMap map() const { return PortMap(to); }
};

// Undoes what a reload has changed in running devices if the reload fails.
class Runtime::Undo {
 public:
  Undo() = default;
  ~Undo() {
    for (const auto& step : steps_) step();
  }
  Undo(const Undo&) = delete;
  Undo& operator=(const Undo&) = delete;
  void add(std::function<void()> step) { steps_.push_back(std::move(step)); }
  void forget() { steps_.clear(); }

 private:
  std::vector<std::function<void()>> steps_;
};

ReloadResult Runtime::compare(const std::string& path, std::optional<Config>& next) {
  ReloadResult result;
  config::Diagnostics diagnostics;
  next = config::load_config_file(path, registry_, diagnostics);
  read_report(diagnostics, result);
  if (!next) return result;
  for (const auto& change : config::config_changes(config_, *next, registry_)) {
    result.changes.push_back(config::change_row(change));
    if (!change.refused.empty()) {
      result.mistakes.push_back(config::at(change.mark) + config::to_string(change) + ": " + change.refused);
    }
  }
  return result;
}

ReloadResult Runtime::diff(const std::string& path) {
  const std::lock_guard lock(reload_mutex_);
  std::optional<Config> next;
  ReloadResult result = compare(path, next);
  if (!result.mistakes.empty()) return result;
  // What a reload would find out before it opens anything.
  std::vector<Plan> plans;
  std::string error = number_switches(*next);
  if (error.empty()) error = plan_ports(*next, plans);
  if (!error.empty()) result.mistakes.push_back(std::move(error));
  return result;
}

ReloadResult Runtime::reload() {
  const std::lock_guard lock(reload_mutex_);
  std::optional<Config> next;
  ReloadResult result = compare(config_file_, next);
  if (!reloads_) result.mistakes.emplace_back("weft is not forwarding: it starts, or it ends");
  if (result.mistakes.empty()) {
    std::string error;
    try {
      error = apply(*next);
    } catch (const std::exception& e) {
      error = std::string("cannot build the new configuration: ") + e.what();
    }
    if (!error.empty()) result.mistakes.push_back(std::move(error));
  }
  result.applied = result.mistakes.empty();
  for (const std::string& line : result.mistakes) spdlog::error("reload refused: {}", line);
  if (result.applied) spdlog::info("reloaded {}: {} change(s)", config_file_, result.changes.size());
  return result;
}

std::string Runtime::apply(Config& next) {
  if (auto error = number_switches(next); !error.empty()) return error;
  std::vector<Plan> plans;
  if (auto error = plan_ports(next, plans); !error.empty()) return error;
  Undo undo;
  if (auto error = open_new_ports(plans, undo); !error.empty()) return error;
  build_changed(next, plans);
  for (Plan& plan : plans) {
    if (!plan.changed) continue;
    if (auto error = open_kernel(plan.made, plan.old); !error.empty()) return error;
  }
  const bool new_level = next.log.level != config_.log.level && !keep_log_level_;
  undo.forget();
  exchange(next, plans);
  if (new_level) set_log_level(config_.log.level);
  say_placement();
  return "";
}

// Switches that run keep their index, which packets in rings carry, and their seed unless the file has one.
std::string Runtime::number_switches(Config& next) const {
  std::bitset<256> used;
  for (const SwitchInfo& info : config_.switches) used.set(info.index);
  for (SwitchInfo& info : next.switches) {
    const auto running = std::find_if(config_.switches.begin(), config_.switches.end(),
                                      [&](const SwitchInfo& old) { return old.name == info.name; });
    if (running != config_.switches.end()) {
      info.index = running->index;
      if (!source_of(next, info.name).has("seed")) info.seed = running->seed;
      continue;
    }
    const std::size_t free = (~used)._Find_first();
    if (free == used.size()) return config::at(info.mark) + "too many switches come and go in one reload";
    used.set(free);
    info.index = static_cast<std::uint8_t>(free);
  }
  return "";
}

std::string Runtime::plan_ports(const Config& next, std::vector<Plan>& plans) {
  std::map<std::string, std::string> closing;  // what a device claims that will be closed, and its port
  for (Switch& s : switches_) {
    const SwitchInfo& before = s.state->info();
    const auto after = std::find_if(next.switches.begin(), next.switches.end(),
                                    [&](const SwitchInfo& info) { return info.name == before.name; });
    std::vector<const PortInfo*> matched;
    if (after != next.switches.end()) matched = match_ports(before, *after);
    for (const PortInfo& port : before.ports) {
      if (std::find(matched.begin(), matched.end(), &port) != matched.end()) continue;
      for (const auto& claim : claims_of(port)) closing.emplace(claim, before.name + "/" + port.name);
    }
  }
  for (const SwitchInfo& info : next.switches) {
    Plan& plan = plans.emplace_back();
    plan.info = info;
    commands_->keep_settings(plan.info);
    plan.ports.resize(info.ports.size());
    for (const PortInfo& port : info.ports) plan.owners.push_back(default_owner(info, port.index));
    const auto old = std::find_if(switches_.begin(), switches_.end(),
                                  [&](const Switch& s) { return s.state->info().name == info.name; });
    std::vector<const PortInfo*> matched(info.ports.size());
    const bool same = old != switches_.end() && equal(source_of(config_, info.name), source_of(next, info.name));
    if (old != switches_.end()) {
      plan.old = &*old;
      plan.changed = !same;
      plan.to.assign(old->ports.size(), pipeline::kNoPort);
      matched = match_ports(old->state->info(), info);
    }
    for (const PortInfo& port : info.ports) {
      if (const PortInfo* was = matched[port.index]) {
        PortInfo& is = plan.info.ports[port.index];
        plan.to[was->index] = port.index;
        plan.ports[port.index] = old->ports[was->index];
        plan.owners[port.index] = old->state->owner_of_port(was->index);
        if (is.mac.is_zero()) is.mac = was->mac;
        continue;
      }
      for (const auto& claim : claims_of(port)) {
        const auto holder = closing.find(claim);
        if (holder == closing.end()) continue;
        return config::at(port.mark) + "port " + info.name + "/" + port.name + ": " + claim +
               " is still in use by port " + holder->second +
               ", which this reload closes; take that port out in a reload of its own first";
      }
    }
  }
  return "";
}

// Opens devices and sets MTUs. What was opened closes itself.
std::string Runtime::open_new_ports(std::vector<Plan>& plans, Undo& undo) {
  const auto set_up = [&](Plan& plan, const PortInfo& port) -> std::string {
    auto& device = plan.ports[port.index];
    if (!device) return port.type == "link" ? "" : open_port(plan.info, port, device);
    const std::uint32_t before = device->mtu_bytes();
    if (port.mtu_bytes == 0 || port.mtu_bytes == before) return "";
    const std::string wrong = device->set_mtu(port, port.mtu_bytes);
    if (!wrong.empty()) return config::at(port.mark) + "port " + plan.info.name + "/" + port.name + ": " + wrong;
    undo.add([device, port, before] { static_cast<void>(device->set_mtu(port, before)); });
    return "";
  };
  for (Plan& plan : plans) {
    for (const PortInfo& port : plan.info.ports) {
      if (!plan.changed) continue;
      if (auto error = set_up(plan, port); !error.empty()) return error;
    }
  }
  std::vector<SwitchInfo> infos;
  OpenedPorts opened;
  for (Plan& plan : plans) {
    infos.push_back(plan.info);
    opened.push_back(std::move(plan.ports));
  }
  connect_links(infos, opened);
  for (std::size_t i = 0; i < plans.size(); ++i) plans[i].ports = std::move(opened[i]);
  return "";
}

void Runtime::build_changed(const Config& next, std::vector<Plan>& plans) {
  for (Plan& plan : plans) {
    if (!plan.changed) continue;
    plan.made = build_switch(plan.info, next.source, plan.ports, plan.owners, plan.old);
    for (const PortInfo& port : plan.info.ports) plan.made.state->set_link(port.index, plan.ports[port.index]->is_up());
  }
}

void Runtime::exchange(Config& next, std::vector<Plan>& plans) {
  std::vector<Switch*> all;
  all.reserve(plans.size());
  for (Plan& plan : plans) all.push_back(plan.changed ? &plan.made : plan.old);
  std::vector<Polling> polling = make_polling(all);
  std::vector<Switch> running;
  running.reserve(plans.size());
  // Packets between the kernel and the workers wait in their rings until attach().
  for (Plan& plan : plans) {
    if (plan.changed && plan.old != nullptr && plan.old->kernel) plan.old->kernel->stop();
  }
  {
    std::unique_lock<std::mutex> no_sessions;
    const bool all_stay = plans.size() == switches_.size() &&
                          std::none_of(plans.begin(), plans.end(), [](const Plan& plan) { return plan.changed; });
    if (!all_stay) no_sessions = commands_->begin_reload();
    const std::unique_lock lock(switches_mutex_);
    const std::lock_guard running_lock(running_mutex_);
    for (auto& worker : workers_) worker->ask_to_pause();
    for (auto& worker : workers_) worker->wait_until_paused();
    const TimeNs paused = clock_.now();
    adopt_all(plans);
    for (std::size_t w = 0; w < workers_.size(); ++w) {
      workers_[w]->set_polling(std::move(polling[w]));
      workers_[w]->set_idle(next.idle);
    }
    const TimeNs took = clock_.now() - paused;
    for (auto& worker : workers_) worker->go_on();
    for (Plan& plan : plans) {
      if (plan.changed && plan.made.kernel) plan.made.kernel->attach(*plan.made.state);
    }
    for (Plan& plan : plans) {
      if (plan.changed) plan.made.state->announce_links();
    }
    for (Plan& plan : plans) running.push_back(std::move(plan.changed ? plan.made : *plan.old));
    switches_.swap(running);
    config_ = std::move(next);
    commands_->faults_changed();
    commands_->forget_settings();
    spdlog::debug("reload: the workers stood still for {} us", took / 1000);
  }
}

void Runtime::adopt_all(std::vector<Plan>& plans) {
  const TimeNs now = clock_.now();
  std::vector<Switch*> removed;
  for (Switch& s : switches_) {
    if (std::none_of(plans.begin(), plans.end(), [&](const Plan& plan) { return plan.old == &s; })) {
      removed.push_back(&s);
    }
  }
  for (Plan& plan : plans) {
    if (plan.changed && plan.old != nullptr) close_ports(now, *plan.old, plan.to);
  }
  for (Switch* s : removed) {
    close_ports(now, *s, std::vector<PortIndex>(s->ports.size(), pipeline::kNoPort));
    for (int round = 0; round < kFlushRounds; ++round) {
      for (auto& p : s->pipelines) {
        p->flush_stages(now);
        p->drop_queued(now);
      }
    }
  }
  adopt_rings(now, plans, removed);
  for (const Switch* s : removed) count_retired(*s);
  for (Plan& plan : plans) {
    if (!plan.changed || plan.old == nullptr) continue;
    const PortMap map = plan.map();
    plan.made.state->adopt(*plan.old->state, map);
    for (std::size_t w = 0; w < workers_.size(); ++w) {
      plan.made.pipelines[w]->adopt(now, *plan.old->pipelines[w], map);
    }
  }
}

// Ports that are gone: what a link still brings is received, and what went through them is remembered for inside().
void Runtime::close_ports(TimeNs now, Switch& s, const std::vector<PortIndex>& to) {
  for (const PortInfo& port : s.state->info().ports) {
    if (to[port.index] != pipeline::kNoPort) continue;
    Pipeline& owner = *s.pipelines[s.state->owner_of_port(port.index)];
    rte_mbuf* packets[pipeline::Batch::kCapacity];
    while (port.type == "link") {
      const std::uint16_t count = s.ports[port.index]->receive(now, 0, packets, pipeline::Batch::kCapacity);
      if (count == 0) break;
      owner.receive(now, port.index, packets, count);
    }
    if (port.type == "link") continue;
    for (const auto& p : s.pipelines) {
      retired_came_ += p->port_totals(port.index).rx.value();
      retired_left_ += p->port_totals(port.index).tx.value();
    }
  }
}

void Runtime::count_retired(const Switch& s) {
  for (const auto& p : s.pipelines) {
    const pipeline::FlowTotals& t = p->totals();
    retired_came_ += t.made();
    retired_left_ += t.ended();
  }
}

// Packets on their way between workers: those of switches and ports that are gone end here, others learn the new names
// of their ports.
void Runtime::adopt_rings(TimeNs now, std::vector<Plan>& plans, const std::vector<Switch*>& removed) {
  std::array<Switch*, 256> old{};
  std::array<Switch*, 256> made{};
  std::array<std::optional<PortMap>, 256> maps{};
  for (Switch* s : removed) old[s->state->info().index] = s;
  for (Plan& plan : plans) {
    if (!plan.changed || plan.old == nullptr) continue;
    old[plan.info.index] = plan.old;
    made[plan.info.index] = &plan.made;
    maps[plan.info.index] = plan.map();
  }
  const auto keeps = [&](std::uint16_t worker, rte_mbuf* m) {
    const std::uint8_t index = pipeline::meta(m).switch_index;
    if (old[index] == nullptr) return true;
    if (maps[index] && maps[index]->rename(m)) {
      made[index]->pipelines[worker]->keep_handoff(m);
      return true;
    }
    const auto reason = maps[index] ? DropReason::port_removed : DropReason::shutdown;
    old[index]->pipelines[worker]->refuse_handoff(now, m, reason);
    return false;
  };
  const auto sift = [&](std::uint16_t worker, auto& ring) {
    std::vector<rte_mbuf*> packets;
    ring.drain([&](rte_mbuf* m) { packets.push_back(m); });
    std::erase_if(packets, [&](rte_mbuf* m) { return !keeps(worker, m); });
    ring.push(packets.data(), static_cast<std::uint32_t>(packets.size()));
  };
  for (std::uint16_t from = 0; from < rings_.workers(); ++from) {
    for (std::uint16_t worker = 0; worker < rings_.workers(); ++worker) {
      sift(worker, rings_.control(from, worker));
      sift(worker, rings_.ring(from, worker));
    }
  }
}

}  // namespace weft
