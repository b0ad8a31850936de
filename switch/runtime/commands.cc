// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/runtime/commands.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <limits>
#include <shared_mutex>

#include "switch/config/schema/suggest.h"
#include "switch/pipeline/set_words.h"
#include "switch/runtime/log.h"

namespace weft {
namespace {

using api::Outcome;
using config::quote;
using config::suggestion;

}  // namespace

api::SessionStart Runtime::start_capture(const api::CaptureRequest& request) {
  return commands_->start_capture(request);
}
api::SessionStart Runtime::start_trace(const api::TraceRequest& request) {
  return commands_->start_trace(request);
}
api::SessionStart Runtime::start_record(const api::RecordRequest& request) {
  return commands_->start_record(request);
}
api::SessionPart Runtime::read_session(std::uint64_t id) {
  return commands_->read_session(id);
}
bool Runtime::stop_session(std::uint64_t id) {
  return commands_->stop_session(id);
}
Outcome Runtime::clear(const std::vector<std::string>& tables, const std::string& switch_name) {
  return commands_->clear(tables, switch_name);
}
Outcome Runtime::set(const api::SetRequest& request) {
  return commands_->set(request);
}
std::vector<api::CommandInfo> Runtime::commands() const {
  return commands_->list();
}
bool Runtime::checks_peer(const std::string& stage, const std::string& verb) const {
  return commands_->checks_peer(stage, verb);
}
api::CommandResult Runtime::run_command(const api::CommandRequest& request) {
  return commands_->run(request);
}

api::ShowResult Runtime::show(const std::string& table, const std::string& switch_name, std::size_t max_rows) {
  api::ShowResult result = show_uncleared(table, switch_name, max_rows);
  commands_->subtract_cleared(table, result.rows);
  return result;
}

void Runtime::Commands::for_each_pipeline(
    const std::function<void(std::size_t, std::size_t, pipeline::Pipeline&)>& task) {
  const std::shared_lock lock(runtime_.switches_mutex_);
  runtime_.for_each_worker([&](Switch& s, std::size_t worker) {
    const auto index = static_cast<std::size_t>(&s - runtime_.switches_.data());
    task(index, worker, *s.pipelines[worker]);
  });
}

std::string Runtime::Commands::unknown_switch(const std::string& name) const {
  const std::vector<std::string> known = runtime_.switch_names();
  if (name.empty() || std::find(known.begin(), known.end(), name) != known.end()) return "";
  return "unknown switch " + quote(name) + suggestion(name, known);
}

api::SessionStart Runtime::Commands::start_record(const api::RecordRequest& request) {
  if (auto error = unknown_switch(request.switch_name); !error.empty()) return {0, std::move(error)};
  return sessions_.start_record(request);
}

Outcome Runtime::Commands::clear(const std::vector<std::string>& tables, const std::string& switch_name) {
  if (auto error = unknown_switch(switch_name); !error.empty()) return Outcome::refused(std::move(error));
  const std::vector<std::string> countable = Baselines::tables();
  std::vector<std::string> offered;
  for (const auto& table : runtime_.tables()) offered.push_back(table.name);
  std::vector<std::string> chosen;
  for (const std::string& name : countable) {
    if (std::find(offered.begin(), offered.end(), name) != offered.end()) chosen.push_back(name);
  }
  if (!tables.empty()) {
    for (const std::string& name : tables) {
      if (std::find(chosen.begin(), chosen.end(), name) != chosen.end()) continue;
      const bool exists = std::find(offered.begin(), offered.end(), name) != offered.end();
      if (exists) {
        return Outcome::refused("nothing in table " + quote(name) + " counts up; to clear: " + config::joined(chosen));
      }
      return Outcome::refused("unknown table " + quote(name) + suggestion(name, chosen));
    }
    chosen = tables;
  }
  for (const std::string& table : chosen) {
    for (const std::string& name : runtime_.switch_names()) {
      if (!switch_name.empty() && name != switch_name) continue;
      const auto rows = runtime_.show_uncleared(table, name, std::numeric_limits<std::size_t>::max());
      baselines_.set(table, name, rows.rows);
    }
  }
  return {"cleared " + config::joined(chosen) + (switch_name.empty() ? "" : " of switch " + switch_name), ""};
}

Outcome Runtime::Commands::set(const api::SetRequest& request) {
  if (auto error = unknown_switch(request.switch_name); !error.empty()) return Outcome::refused(std::move(error));
  if (request.name == "log-level") return set_log_level(request.words);
  if (request.name == "port") return set_port(request);
  if (request.name == "paths") return set_paths(request);
  const std::vector<std::string> known = settings();
  if (std::find(known.begin(), known.end(), request.name) != known.end()) return set_stage(request);
  return Outcome::refused("unknown setting " + quote(request.name) + suggestion(request.name, known));
}

std::vector<std::string> Runtime::Commands::settings() const {
  std::vector<std::string> names{"log-level", "port", "paths"};
  const std::shared_lock lock(runtime_.switches_mutex_);
  for (const Switch& s : runtime_.switches_) {
    for (const pipeline::StageType* type : s.state->types()) {
      if (type->set && std::find(names.begin(), names.end(), type->name) == names.end()) names.push_back(type->name);
    }
  }
  return names;
}

void Runtime::Commands::keep_settings(pipeline::SwitchInfo& info) const {
  for (std::size_t i = 0; i < info.pipeline.size(); ++i) {
    pipeline::StageSpec& spec = info.pipeline[i];
    const auto known = changed_.find({info.name, spec.name});
    if (known == changed_.end() || !equal(known->second.configured, spec.options)) continue;
    const pipeline::StageType* type = runtime_.registry_.find(spec.name);
    config::Diagnostics diagnostics;
    if (type->check) type->check(known->second.now, info, diagnostics);
    const std::string order = order_mistakes(runtime_.registry_, info.pipeline, i, known->second.now);
    if (!order.empty()) diagnostics.error(spec.mark, order);
    if (diagnostics.ok()) {
      spec.options = known->second.now;
    } else {
      spdlog::warn("{}: what was set of {} does not fit any more: {}", info.name, spec.name,
                   pipeline::mistakes_of(diagnostics));
    }
  }
}

void Runtime::Commands::forget_settings() {
  std::erase_if(changed_, [&](const auto& entry) {
    const auto& [name, stage] = entry.first;
    for (const Switch& s : runtime_.switches_) {
      const auto at = s.state->info().name == name ? s.state->position(stage) : std::nullopt;
      if (at) return !equal(s.state->info().pipeline[*at].options, entry.second.now);
    }
    return true;
  });
}

Outcome Runtime::Commands::set_log_level(const std::vector<std::string>& words) {
  const std::vector<std::string> names{"trace", "debug", "info", "warning", "error"};
  if (words.size() != 1) return Outcome::refused("log-level takes one word: " + config::joined(names));
  const auto at = std::find(names.begin(), names.end(), words[0]);
  if (at == names.end()) return Outcome::refused("unknown log level " + quote(words[0]) + suggestion(words[0], names));
  weft::set_log_level(static_cast<config::LogLevel>(at - names.begin()));
  return {"log level is now " + words[0], ""};
}

}  // namespace weft
