// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Links and path sets that change while packets flow: on command, and links at the times that the configuration says.
#include <spdlog/spdlog.h>

#include <algorithm>
#include <charconv>
#include <mutex>

#include "switch/config/config_schema.h"
#include "switch/config/schema/suggest.h"
#include "switch/runtime/commands.h"

namespace weft {
namespace {

using api::Outcome;
using config::quote;
using config::suggestion;
using pipeline::PortChange;
using pipeline::PortInfo;

std::optional<std::uint64_t> number(const std::string& text, std::int64_t max) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value > static_cast<std::uint64_t>(max))
    return std::nullopt;
  return value;
}

// One word, as link=down; empty, or what is wrong with it.
std::string read_word(const std::string& word, PortChange& change) {
  const std::size_t equals = word.find('=');
  const std::string key = word.substr(0, equals);
  const std::string value = equals == std::string::npos ? "" : word.substr(equals + 1);
  if (key == "link") {
    if (value != "up" && value != "down") return "link: expected up or down, found " + quote(value);
    change.link_up = value == "up";
  } else if (key == "rate_mbps") {
    change.rate_mbps = number(value, config::kMaxRateMbps);
    if (!change.rate_mbps)
      return "rate_mbps: expected 0 to " + std::to_string(config::kMaxRateMbps) + ", found " + quote(value);
  } else if (key == "delay_ns") {
    change.delay_ns = number(value, config::kMaxDelayNs);
    if (!change.delay_ns)
      return "delay_ns: expected 0 to " + std::to_string(config::kMaxDelayNs) + ", found " + quote(value);
  } else {
    return "unknown key " + quote(key) + suggestion(key, {"link", "rate_mbps", "delay_ns"});
  }
  return "";
}

std::string text_of(const PortChange& change) {
  std::string text;
  const auto add = [&](const std::string& part) { text += (text.empty() ? "" : ", ") + part; };
  if (change.link_up) add(*change.link_up ? "link up" : "link down");
  if (change.rate_mbps)
    add(*change.rate_mbps == 0 ? "rate of the device" : std::to_string(*change.rate_mbps) + " Mbit/s");
  if (change.delay_ns) add("delay " + std::to_string(*change.delay_ns) + " ns");
  return text;
}

}  // namespace

std::string Runtime::Commands::change_port(Switch& s, pipeline::PortIndex port, const PortChange& change) {
  const PortInfo& info = s.state->info().ports[port];
  if (change.link_up) {
    if (auto error = s.ports[port]->shut(ports::ShutBy::command, !*change.link_up); !error.empty()) return error;
    runtime_.supervise_links();
  }
  if (!change.rate_mbps && !change.delay_ns) return "";
  const Wire configured{info.rate_mbps, info.delay_ns, info.rate_mbps, info.delay_ns};
  Wire& known = wires_.try_emplace({s.state->info().name, info.name}, configured).first->second;
  // A reload has changed the port since.
  if (known.configured_rate_mbps != info.rate_mbps || known.configured_delay_ns != info.delay_ns) known = configured;
  known.rate_mbps = change.rate_mbps.value_or(known.rate_mbps);
  known.delay_ns = change.delay_ns.value_or(known.delay_ns);
  auto wire =
      std::make_unique<pipeline::EgressQueue>(info.queue_packets, known.rate_mbps, known.delay_ns, info.framing);
  const std::uint16_t owner = s.state->owner_of_port(port);
  for (std::uint16_t w = 0; w < s.pipelines.size(); ++w) {
    if (w == owner || !s.pipelines[w]->sends(port)) continue;
    runtime_.on_worker(w, [&] { s.pipelines[w]->leave_to_owner(runtime_.clock_.now(), port); });
  }
  runtime_.on_worker(owner, [&] { s.pipelines[owner]->exchange_wire(runtime_.clock_.now(), port, wire); });
  return "";
}

Outcome Runtime::Commands::set_port(const api::SetRequest& request) {
  constexpr const char* kUsage =
      "port takes a name and what changes: port p1 link=down, port p1 rate_mbps=1000 delay_ns=0";
  if (request.words.size() < 2) return Outcome::refused(kUsage);
  PortChange change;
  for (std::size_t i = 1; i < request.words.size(); ++i) {
    if (auto error = read_word(request.words[i], change); !error.empty()) return Outcome::refused(std::move(error));
  }
  const std::lock_guard lock(set_mutex_);
  // Other threads read the depth of the queue that is replaced.
  const std::lock_guard switches_lock(runtime_.switches_mutex_);
  const FoundPort port = find_port(request.switch_name, request.words[0]);
  if (!port.error.empty()) return Outcome::refused(port.error);
  const pipeline::SwitchInfo& info = port.of->state->info();
  const std::string name = info.name + "/" + info.ports[port.index].name;
  if (auto error = change_port(*port.of, port.index, change); !error.empty())
    return Outcome::refused(name + ": " + error);
  return {name + ": " + text_of(change), ""};
}

Runtime::Commands::FoundPort Runtime::Commands::find_port(const std::string& switch_name, const std::string& name) {
  FoundPort found;
  std::vector<std::string> known;
  for (Switch& s : runtime_.switches_) {
    const pipeline::SwitchInfo& info = s.state->info();
    if (!switch_name.empty() && info.name != switch_name) continue;
    for (const PortInfo& port : info.ports) {
      const std::string whole = info.name + "/" + port.name;
      known.push_back(switch_name.empty() && runtime_.switches_.size() > 1 ? whole : port.name);
      if (port.name != name && whole != name) continue;
      if (found.of != nullptr) {
        found.error = "several switches have a port " + quote(name) + "; say which one: SWITCH/" + name;
        return found;
      }
      found.of = &s;
      found.index = port.index;
    }
  }
  if (found.of == nullptr) found.error = "unknown port " + quote(name) + suggestion(name, known);
  return found;
}

// All ports at once, so that a controller can exchange one path for another.
Outcome Runtime::Commands::set_paths(const api::SetRequest& request) {
  constexpr const char* kUsage = "paths takes what happens to which ports: paths exclude s1 s2, paths include s1";
  const std::lock_guard lock(set_mutex_);
  const std::lock_guard switches_lock(runtime_.switches_mutex_);
  Switch* of = nullptr;
  std::vector<pipeline::PathChange> changes;
  std::string done;
  std::optional<bool> exclude;
  for (const std::string& word : request.words) {
    if (word == "exclude" || word == "include") {
      exclude = word == "exclude";
      continue;
    }
    if (!exclude) return Outcome::refused(kUsage);
    const FoundPort port = find_port(request.switch_name, word);
    if (!port.error.empty()) return Outcome::refused(port.error);
    if (of != nullptr && of != port.of) return Outcome::refused("these are ports of different switches");
    const bool twice = std::any_of(changes.begin(), changes.end(), [&](const auto& c) { return c.port == port.index; });
    if (twice) return Outcome::refused("port " + quote(word) + " stands twice");
    of = port.of;
    changes.push_back({port.index, *exclude});
    done += (done.empty() ? "" : ", ") + word + (*exclude ? " excluded" : " included");
  }
  if (changes.empty()) return Outcome::refused(kUsage);
  const std::string name = of->state->info().name + ": ";
  if (auto error = of->state->change_paths(changes); !error.empty()) return Outcome::refused(name + error);
  spdlog::info("{}{}", name, done);
  return {name + done, ""};
}

void Runtime::Commands::start_faults() {
  const std::lock_guard lock(alarm_mutex_);
  alarm_ = std::make_unique<Alarm>([this] { return now(); }, [this](TimeNs now) { return run_faults(now); });
}

void Runtime::Commands::stop_faults() {
  std::unique_ptr<Alarm> ends;
  {
    const std::lock_guard lock(alarm_mutex_);
    ends = std::move(alarm_);
  }
}

void Runtime::Commands::faults_changed() {
  const std::lock_guard lock(alarm_mutex_);
  if (alarm_) alarm_->call_now();
}

// As the simulator does: in the order of their times, over all switches.
TimeNs Runtime::Commands::run_faults(TimeNs now) {
  const TimeNs until = now - runtime_.started_ + 1;
  const std::lock_guard lock(set_mutex_);
  // Changes need this lock, and until it is held a reload may replace the list of faults.
  const std::lock_guard switches_lock(runtime_.switches_mutex_);
  const auto time_of = [&](std::size_t s, std::size_t place) {
    const auto& faults = runtime_.switches_[s].state->info().faults;
    return place < faults.size() ? static_cast<TimeNs>(faults[place].at_ns) : kNever;
  };
  TimeNs next = kNever;
  for (const Due& due : due_in_order(runtime_.switches_.size(), faults_done_, until, time_of, next)) {
    Switch& s = runtime_.switches_[due.list];
    make_fault(s, s.state->info().faults[due.place]);
  }
  faults_done_ = until;
  return next == kNever ? kNever : runtime_.started_ + next;
}

void Runtime::Commands::make_fault(Switch& s, const pipeline::FaultInfo& fault) {
  const std::string name = s.state->info().name + "/" + s.state->info().ports[fault.port].name;
  if (const auto error = change_port(s, fault.port, fault.change); !error.empty()) {
    spdlog::error("{}: scheduled change failed: {}", name, error);
  } else {
    spdlog::info("{}: as scheduled: {}", name, text_of(fault.change));
  }
}

}  // namespace weft
