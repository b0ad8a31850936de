// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#pragma once

#include <memory>
#include <mutex>

#include "switch/api/requests.h"
#include "switch/observe/baselines.h"
#include "switch/observe/session.h"
#include "switch/runtime/alarm.h"
#include "switch/runtime/runtime.h"

namespace weft {

/// What Runtime does of a Backend besides tables and reloads: sessions on its pipelines, baselines of its tables,
/// settings, and verbs of stages.
class Runtime::Commands : private PipelineSet {
 public:
  explicit Commands(Runtime& runtime) : runtime_(runtime), sessions_(*this) {}

  [[nodiscard]] api::SessionStart start_capture(const api::CaptureRequest& request) {
    return sessions_.start_capture(request);
  }
  [[nodiscard]] api::SessionStart start_trace(const api::TraceRequest& request) {
    return sessions_.start_trace(request);
  }
  [[nodiscard]] api::SessionStart start_record(const api::RecordRequest& request);
  [[nodiscard]] api::SessionPart read_session(std::uint64_t id) { return sessions_.read(id); }
  bool stop_session(std::uint64_t id) { return sessions_.stop(id); }
  [[nodiscard]] api::Outcome clear(const std::vector<std::string>& tables, const std::string& switch_name);
  [[nodiscard]] api::Outcome set(const api::SetRequest& request);
  [[nodiscard]] std::vector<api::CommandInfo> list() const;
  [[nodiscard]] bool checks_peer(const std::string& stage, const std::string& verb) const;
  [[nodiscard]] api::CommandResult run(const api::CommandRequest& request);

  /// Pipelines will be replaced: sessions end, and say so. None starts while the result is held.
  [[nodiscard]] std::unique_lock<std::mutex> begin_reload() {
    return sessions_.end_all("the configuration was reloaded");
  }
  /// From now on scheduled changes are made at their times, by a thread of their own, until stop_faults(), which waits
  /// for a change that is being made. Main thread, without locks.
  void start_faults();
  void stop_faults();
  /// Other changes are scheduled than before.
  void faults_changed();
  /// A reload: options of stages that were set stay set where the file says of them what it said before. Under the
  /// lock of reloads.
  void keep_settings(pipeline::SwitchInfo& info) const;
  /// After a reload: forgets what was set and does not hold any more. Under the lock of reloads.
  void forget_settings();
  /// Ends sessions that nobody reads.
  void expire() { sessions_.expire(); }
  /// Subtracts what was cleared.
  void subtract_cleared(const std::string& table, nlohmann::ordered_json& rows) { baselines_.apply(table, rows); }

 private:
  class RunningStage;
  [[nodiscard]] std::uint16_t worker_count() const override {
    return static_cast<std::uint16_t>(runtime_.workers_.size());
  }
  void for_each_pipeline(
      const std::function<void(std::size_t switch_index, std::size_t worker, pipeline::Pipeline&)>& task) override;
  [[nodiscard]] TimeNs now() const override { return runtime_.clock_.now(); }
  [[nodiscard]] std::string unknown_switch(const std::string& name) const;
  [[nodiscard]] api::Outcome set_log_level(const std::vector<std::string>& words);
  [[nodiscard]] api::Outcome set_stage(const api::SetRequest& request);
  // Instances of a stage for other options, by worker. Under a lock on the switches.
  [[nodiscard]] std::vector<std::shared_ptr<pipeline::Stage>> remade(const Switch& s, std::size_t stage,
                                                                     const config::Value& options) const;
  // Puts them in the places of those that run. Without a lock on the switches: workers take it, one after the other.
  void exchange_instances(Switch& s, std::size_t stage, std::vector<std::shared_ptr<pipeline::Stage>>& made);
  [[nodiscard]] api::Outcome set_port(const api::SetRequest& request);
  [[nodiscard]] api::Outcome set_paths(const api::SetRequest& request);
  struct FoundPort {
    Switch* of = nullptr;
    pipeline::PortIndex index = 0;
    std::string error{};
  };
  // See faults.cc. Under a lock on the switches.
  [[nodiscard]] FoundPort find_port(const std::string& switch_name, const std::string& name);
  // Empty, or why the port stays as it is. Under set_mutex_ and an exclusive lock on the switches.
  [[nodiscard]] std::string change_port(Switch& s, pipeline::PortIndex port, const pipeline::PortChange& change);
  // Makes the changes whose time has come, and returns the time of the next one.
  TimeNs run_faults(TimeNs now);
  void make_fault(Switch& s, const pipeline::FaultInfo& fault);
  [[nodiscard]] std::vector<std::string> settings() const;

  /// Options that were set, and those of the configuration that they replace.
  struct Changed {
    config::Value configured;
    config::Value now;
  };

  /// What was set of a port, and what the configuration said then.
  struct Wire {
    std::uint64_t configured_rate_mbps, configured_delay_ns;
    std::uint64_t rate_mbps, delay_ns;
  };

  Runtime& runtime_;
  std::mutex set_mutex_;
  std::map<std::pair<std::string, std::string>, Wire> wires_;  ///< by switch and port
  TimeNs faults_done_ = 0;                                     ///< after the start: what was due until then is done
  std::map<std::pair<std::string, std::string>, Changed>
      changed_;  ///< by switch and stage; also under the lock of reloads
  Baselines baselines_;
  Sessions sessions_;
  std::mutex alarm_mutex_;
  std::unique_ptr<Alarm> alarm_;  ///< while scheduled changes are made
};

}  // namespace weft
