// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// A running process: switches, their ports, the workers, and what the control service may ask about them.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <set>
#include <shared_mutex>
#include <string>
#include <vector>

#include "switch/api/backend.h"
#include "switch/config/config.h"
#include "switch/kernel/kernel_switch.h"
#include "switch/observe/port_rates.h"
#include "switch/observe/running.h"
#include "switch/pipeline/node_pool.h"
#include "switch/pipeline/registry.h"
#include "switch/ports/link_events.h"
#include "switch/runtime/eal.h"
#include "switch/runtime/log.h"
#include "switch/runtime/service_manager.h"
#include "switch/runtime/worker.h"

namespace prometheus {
struct MetricFamily;
}

namespace weft {

/// Builds everything from a checked configuration, then runs until told to stop. Used from the main thread, but for the
/// Backend calls.
class Runtime : public api::Backend {
 public:
  /// Opens all devices and builds all switches. `error` is empty on success; otherwise the object is of no use.
  Runtime(const pipeline::Registry& registry, config::Config config, std::string config_file, const Eal& eal,
          std::string& error);
  ~Runtime() override;

  /// Starts the workers; returns when all of them forward.
  void start();
  /// Returns when no worker is in a burst any more that it had begun before. Any thread but a worker.
  void await_workers() const;

  struct Limits {
    const std::atomic<bool>* stop = nullptr;  ///< set by a signal
    std::chrono::milliseconds duration{0};    ///< 0: none
    bool exit_on_eof = false;                 ///< stop when all inputs have ended and nothing is held
    ServiceManager* manager = nullptr;        ///< told how things go
    std::atomic<bool>* reload = nullptr;      ///< set by a signal: reload(), and set it back; may be nullptr
  };
  /// Housekeeping and link supervision until a limit is reached; then drains and stops the workers.
  void run(const Limits& limits);

  /// Final or current counters; see switch/observe/README.md for the layout.
  [[nodiscard]] nlohmann::ordered_json counters();
  /// True when everything that was sent has arrived in its file; otherwise the log says what has not. After run().
  [[nodiscard]] bool outputs_complete() const noexcept { return outputs_complete_; }
  /// True when every packet of every switch is accounted for. Only meaningful after run().
  [[nodiscard]] bool balanced();

  /// Every counter, for Prometheus. Any thread, at any time; waits for no worker.
  [[nodiscard]] std::vector<prometheus::MetricFamily> metrics() const;

  /// What the service manager is told. Main thread; waits for no worker.
  [[nodiscard]] Health health() const;

  // Backend.
  [[nodiscard]] std::vector<api::TableInfo> tables() const override;
  [[nodiscard]] std::vector<std::string> switch_names() const override;
  [[nodiscard]] api::ShowResult show(const std::string& table, const std::string& switch_name,
                                     std::size_t max_rows) override;
  [[nodiscard]] api::ShowResult show_uncleared(const std::string& table, const std::string& switch_name,
                                               std::size_t max_rows) override;
  [[nodiscard]] api::ReloadResult diff(const std::string& path) override;
  [[nodiscard]] api::ReloadResult reload() override;
  [[nodiscard]] nlohmann::ordered_json about() const override;
  [[nodiscard]] api::SessionStart start_capture(const api::CaptureRequest& request) override;
  [[nodiscard]] api::SessionStart start_trace(const api::TraceRequest& request) override;
  [[nodiscard]] api::SessionStart start_record(const api::RecordRequest& request) override;
  [[nodiscard]] api::SessionPart read_session(std::uint64_t id) override;
  [[nodiscard]] bool stop_session(std::uint64_t id) override;
  [[nodiscard]] api::Outcome clear(const std::vector<std::string>& tables, const std::string& switch_name) override;
  [[nodiscard]] api::Outcome set(const api::SetRequest& request) override;
  [[nodiscard]] std::vector<api::CommandInfo> commands() const override;
  [[nodiscard]] bool checks_peer(const std::string& stage, const std::string& verb) const override;
  [[nodiscard]] api::CommandResult run_command(const api::CommandRequest& request) override;

  /// The level of the log was given on the command line: reloads leave it alone.
  void keep_log_level() noexcept { keep_log_level_ = true; }

 private:
  struct Switch {
    std::unique_ptr<pipeline::SwitchState> state;
    std::vector<std::shared_ptr<ports::Port>> ports;             ///< by PortIndex
    std::vector<std::unique_ptr<pipeline::Pipeline>> pipelines;  ///< by worker
    std::unique_ptr<kernel::KernelSwitch> kernel{};              ///< nullptr without SwitchInfo::kernel
    std::uint64_t id = 0;  ///< no other of the process has it, nor one that a reload makes of this
  };

  using OpenedPorts = std::vector<std::vector<std::shared_ptr<ports::Port>>>;  ///< by switch and PortIndex
  std::string build(const Eal& eal);
  [[nodiscard]] std::string missing_interfaces() const;
  std::string open_ports(OpenedPorts& opened);
  std::string open_port(const pipeline::SwitchInfo& info, const pipeline::PortInfo& port,
                        std::shared_ptr<ports::Port>& opened);
  /// How often workers are asked for what they still hold before they stop.
  static constexpr int kFlushRounds = 3;

  static void connect_links(const std::vector<pipeline::SwitchInfo>& infos, OpenedPorts& opened);
  [[nodiscard]] std::uint16_t default_owner(const pipeline::SwitchInfo& info, pipeline::PortIndex port) const;
  [[nodiscard]] Switch build_switch(pipeline::SwitchInfo info, const config::Value& file,
                                    std::vector<std::shared_ptr<ports::Port>> ports, std::vector<std::uint16_t> owners,
                                    const Switch* previous);
  // Everything but KernelSwitch::attach(). `previous` is the switch whose place `s` will take, or nullptr.
  std::string open_kernel(Switch& s, const Switch* previous);
  [[nodiscard]] std::vector<Polling> make_polling(const std::vector<Switch*>& switches) const;

  // Reload; see reload.cc.
  struct Plan;
  api::ReloadResult compare(const std::string& path, std::optional<config::Config>& next);
  std::string apply(config::Config& next);
  std::string number_switches(config::Config& next) const;
  std::string plan_ports(const config::Config& next, std::vector<Plan>& plans);
  class Undo;
  std::string open_new_ports(std::vector<Plan>& plans, Undo& undo);
  void build_changed(const config::Config& next, std::vector<Plan>& plans);
  void exchange(config::Config& next, std::vector<Plan>& plans);
  void adopt_all(std::vector<Plan>& plans);
  void close_ports(TimeNs now, Switch& s, const std::vector<pipeline::PortIndex>& to);
  void count_retired(const Switch& s);
  void adopt_rings(TimeNs now, std::vector<Plan>& plans, const std::vector<Switch*>& removed);

  // Looks after the devices, and tells the switches what they say. Main thread, or whoever has just changed a link.
  void supervise_links();
  void supervise(Switch& s, const pipeline::PortInfo& port);
  void follow_kernel(Switch& s, const pipeline::PortInfo& port);
  void warn_of_small_mtus() const;
  // Runs the task for every switch on every worker, one worker after the other.
  void for_each_worker(const std::function<void(Switch&, std::size_t)>& task);
  void warn_of_endless_inputs() const;
  // Both are true for good once no packet can come in any more; the second looks at the workers too.
  [[nodiscard]] bool inputs_ended() const;
  [[nodiscard]] bool ended_and_empty();
  // At least the packets that the process holds; 0 says that it held none at some moment during the call.
  [[nodiscard]] std::uint64_t inside() const;
  void drain();
  void say_placement();  // under reload_mutex_
  void stop_workers();
  void drop_what_is_left();
  void finish_outputs();
  [[nodiscard]] api::ShowResult config_table(const std::string& switch_name, std::size_t max_rows) const;
  void sample_rates(TimeNs now);
  // Views of what runs; under switches_mutex_.
  [[nodiscard]] std::vector<RunningSwitch> running_switches() const;
  [[nodiscard]] std::vector<RunningWorker> running_workers() const;
  // Runs the task where it cannot meet a burst: on the worker, or here when no worker runs.
  void on_worker(std::size_t worker, const std::function<void()>& task);

  const pipeline::Registry& registry_;
  config::Config config_;
  pipeline::Steering steer_{};
  std::string config_file_;
  std::vector<unsigned> cpus_;
  bool hugepages_;
  Clock clock_;
  const std::function<TimeNs()> time_ = [this] { return clock_.now(); };
  /// Payloads begin on cache lines when a stage of the configuration at the start has StageType::payload_aligned. A
  /// reload that brings the first such stage keeps the pool: the stage does the same, only slower.
  pipeline::NodePools pools_;
  HandoffRings rings_;
  mutable std::shared_mutex switches_mutex_;  ///< over switches_ and config_, which a reload exchanges
  std::vector<Switch> switches_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::vector<unsigned> lcores_;
  std::mutex running_mutex_;  ///< held over calls to workers, so that these do not end meanwhile
  bool running_ = false;
  bool outputs_complete_ = true;
  std::mutex reload_mutex_;  ///< one reload at a time; taken before switches_mutex_, and that before running_mutex_
  PortRates rates_;
  const OnWorker on_worker_ = [this](std::size_t w, const std::function<void()>& task) { on_worker(w, task); };
  std::uint64_t switches_made_ = 0;
  std::set<std::string> said_{};  ///< lines of the last say_placement()
  bool reloads_ = false;          ///< between start() and the end of run()
  bool keep_log_level_ = false;
  std::uint64_t retired_came_ = 0;  ///< as in inside(), of ports and switches that reloads removed
  std::uint64_t retired_left_ = 0;
  std::atomic<TimeNs> started_;
  std::mutex links_mutex_;  ///< over supervise_links()
  LogLimit link_log_;
  ports::LinkEvents link_events_;
  std::atomic<TimeNs> stopped_{0};

  class Commands;
  std::unique_ptr<Commands> commands_;
};

}  // namespace weft
