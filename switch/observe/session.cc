// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/observe/session.h"

#include <algorithm>
#include <thread>

#include "switch/config/schema/suggest.h"
#include "switch/observe/capture_session.h"
#include "switch/observe/record_session.h"
#include "switch/observe/trace_session.h"

namespace weft {
namespace {

using api::SessionPart;
using api::SessionStart;
using std::chrono::milliseconds;

constexpr milliseconds kLongestWait{250};
constexpr milliseconds kGathering{20};  // a few packets are not sent one by one
constexpr milliseconds kPoll{2};
constexpr std::size_t kPartBytes = std::size_t{1} << 20;
constexpr std::chrono::seconds kForgotten{10};

}  // namespace

SessionPart Session::read() {
  SessionPart part;
  const auto start = Clock::now();
  auto first = Clock::time_point::max();
  while (!stopping()) {
    collect(part, kPartBytes);
    const auto now = Clock::now();
    if (now >= end_) stop("the time is over");
    if (!part.data.empty()) first = std::min(first, now);
    if (stopping() || part.data.size() >= kPartBytes || now - start >= kLongestWait) break;
    if (first != Clock::time_point::max() && now - first >= kGathering) break;
    std::this_thread::sleep_for(kPoll);
  }
  if (!stopping() || part.data.size() >= kPartBytes) return part;
  detach();
  collect(part, kPartBytes);
  if (part.data.size() >= kPartBytes) return part;
  finish(part);
  part.ended = true;
  const std::lock_guard lock(reason_mutex_);
  part.reason = reason_;
  return part;
}

void Session::stop(const std::string& reason) {
  const std::lock_guard lock(reason_mutex_);
  if (stopping()) return;
  reason_ = reason;
  stopping_.store(true, std::memory_order_release);
}

void Session::attach(std::map<std::pair<std::size_t, std::size_t>, pipeline::Tap*> taps) {
  taps_ = std::move(taps);
  pipelines_.for_each_pipeline([this](std::size_t index, std::size_t worker, pipeline::Pipeline& pipeline) {
    const auto found = taps_.find({index, worker});
    if (found == taps_.end() || !pipeline.add_tap(*found->second)) return;
    if (auto* tracer = dynamic_cast<pipeline::Tracer*>(found->second)) pipeline.set_tracer(tracer);
  });
}

void Session::detach() {
  if (taps_.empty()) return;
  pipelines_.for_each_pipeline([this](std::size_t, std::size_t, pipeline::Pipeline& pipeline) {
    for (const auto& [place, tap] : taps_) {
      if (pipeline.tracer() == tap) pipeline.set_tracer(nullptr);
      pipeline.remove_tap(*tap);
    }
  });
  taps_.clear();
}

std::vector<SwitchNames> Sessions::names(const capture::Query& query, std::vector<pipeline::SwitchInfo>& infos,
                                         std::vector<capture::SwitchView>& views) {
  std::vector<SwitchNames> out;
  pipelines_.for_each_pipeline([&](std::size_t index, std::size_t worker, pipeline::Pipeline& pipeline) {
    if (worker != 0) return;
    const pipeline::SwitchState& state = pipeline.state();
    if (out.size() <= index) {
      out.resize(index + 1);
      infos.resize(index + 1);
      views.resize(index + 1);
    }
    infos[index] = state.info();
    const auto* groups = state.capability<pipeline::FlowGroups>();
    for (const std::uint32_t group : query.groups) {
      views[index].groups.push_back(groups != nullptr ? groups->flows(group)
                                                      : std::vector<pipeline::FlowGroups::Flow>());
    }
    out[index].name = state.info().name;
    for (const auto& port : state.info().ports) {
      out[index].ports.push_back(port.name);
      out[index].links.push_back(port.type == "link");
    }
    out[index].drops = &state.drop_reasons();
    for (const auto* type : state.types()) out[index].stages.push_back({type->name, type->counters});
  });
  return out;
}

std::string Sessions::no_room(bool trace) {
  if (entries_.size() >= kMaxSessions) {
    return "end a capture, trace or recording first: there are already " + std::to_string(kMaxSessions);
  }
  for (const auto& [id, entry] : entries_) {
    if (trace && entry.trace) return "a trace is running already, and there can be only one";
  }
  return "";
}

SessionStart Sessions::add(std::shared_ptr<Session> session, bool trace) {
  const std::uint64_t id = next_id_++;
  entries_[id] = {std::move(session), std::make_shared<std::mutex>(), Session::Clock::now(), trace};
  return {id, ""};
}

Sessions::Preparation Sessions::prepare(const capture::Query& query, bool trace) {
  Preparation made;
  made.error = no_room(trace);
  if (!made.error.empty()) return made;
  std::vector<pipeline::SwitchInfo> infos;
  std::vector<capture::SwitchView> views;
  made.switches = names(query, infos, views);
  for (std::size_t i = 0; i < views.size(); ++i) views[i].info = &infos[i];
  auto filters = capture::make_filters(query, views, *made.switches.front().drops);
  made.filters = std::move(filters.by_switch);
  made.error = std::move(filters.error);
  return made;
}

SessionStart Sessions::start_capture(const api::CaptureRequest& request) {
  const std::lock_guard lock(mutex_);
  Preparation made = prepare(request.query, false);
  if (!made.error.empty()) return {0, std::move(made.error)};
  return add(std::make_shared<CaptureSession>(pipelines_, std::move(made.switches), std::move(made.filters), request),
             false);
}

SessionStart Sessions::start_trace(const api::TraceRequest& request) {
  const std::lock_guard lock(mutex_);
  Preparation made = prepare(request.query, true);
  if (!made.error.empty()) return {0, std::move(made.error)};
  auto session = std::make_shared<TraceSession>(pipelines_, std::move(made.switches), std::move(made.filters), request);
  if (!session->usable()) return {0, "DPDK has no room left for the mark that traced packets carry"};
  return add(std::move(session), true);
}

SessionStart Sessions::start_record(const api::RecordRequest& request) {
  const std::lock_guard lock(mutex_);
  if (auto error = no_room(false); !error.empty()) return {0, std::move(error)};
  std::vector<RecordedQueue> queues;
  std::vector<std::string> ports;
  pipelines_.for_each_pipeline([&](std::size_t, std::size_t worker, pipeline::Pipeline& pipeline) {
    if (worker == 0) find_recorded_queues(pipeline.state(), request, queues, ports);
  });
  if (ports.empty()) return {0, "no switch has `qos`, so there are no class queues to record"};
  for (const std::string& port : request.ports) {
    if (std::find(ports.begin(), ports.end(), port) != ports.end()) continue;
    return {0, "no switch with `qos` has a port " + config::quote(port) + config::suggestion(port, ports)};
  }
  if (queues.empty()) return {0, "the switch has no such class queues; one without `qos` has none"};
  return add(std::make_shared<RecordSession>(pipelines_, std::move(queues), request), false);
}

SessionPart Sessions::read(std::uint64_t id) {
  Entry entry;
  {
    const std::lock_guard lock(mutex_);
    const auto found = entries_.find(id);
    if (found == entries_.end()) {
      SessionPart part;
      part.error = "there is no such session; one that nobody reads for ten seconds ends";
      return part;
    }
    found->second.last_read = Session::Clock::now();
    entry = found->second;
  }
  SessionPart part;
  {
    const std::lock_guard reading(*entry.reading);
    part = entry.session->read();
  }
  const std::lock_guard lock(mutex_);
  if (part.ended) {
    entries_.erase(id);
  } else if (const auto found = entries_.find(id); found != entries_.end()) {
    found->second.last_read = Session::Clock::now();
  }
  return part;
}

bool Sessions::stop(std::uint64_t id) {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(id);
  if (found == entries_.end()) return false;
  found->second.session->stop("stopped");
  return true;
}

void Sessions::expire() {
  std::vector<Entry> forgotten;  // ended without the lock: that waits for workers
  const std::lock_guard lock(mutex_);
  for (auto it = entries_.begin(); it != entries_.end();) {
    if (Session::Clock::now() - it->second.last_read < kForgotten) {
      ++it;
      continue;
    }
    forgotten.push_back(std::move(it->second));
    it = entries_.erase(it);
  }
}

std::unique_lock<std::mutex> Sessions::end_all(const std::string& reason) {
  std::unique_lock lock(mutex_);
  for (auto& [id, entry] : entries_) {
    entry.session->stop(reason);
    const std::lock_guard reading(*entry.reading);
    entry.session->detach();
  }
  return lock;
}

}  // namespace weft
