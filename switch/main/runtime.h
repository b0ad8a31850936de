// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// A running process: switches, their ports, the workers, and what the control service may ask about them.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "switch/control/backend.h"
#include "switch/control/config.h"
#include "switch/main/eal.h"
#include "switch/main/log.h"
#include "switch/main/service_manager.h"
#include "switch/main/worker.h"
#include "switch/pipeline/pool.h"
#include "switch/pipeline/registry.h"

namespace prometheus {
struct MetricFamily;
}

namespace weft {

/// Builds everything from a checked configuration, then runs until told to stop. Used from the main thread, but for the
/// Backend calls.
class Runtime : public control::Backend {
 public:
  /// Opens all devices and builds all switches. `error` is empty on success; otherwise the object is of no use.
  Runtime(const pipeline::Registry& registry, control::Config config, std::string config_file, const Eal& eal,
          std::string& error);
  ~Runtime() override;

  /// Starts the workers.
  void start();

  struct Limits {
    const std::atomic<bool>* stop = nullptr;  ///< set by a signal
    std::chrono::milliseconds duration{0};    ///< 0: none
    bool exit_on_eof = false;                 ///< stop when all inputs have ended and nothing is held
    ServiceManager* manager = nullptr;        ///< told how things go
  };
  /// Housekeeping and link supervision until a limit is reached; then drains and stops the workers.
  void run(const Limits& limits);

  /// Final or current counters; see switch/main/README.md for the layout.
  [[nodiscard]] nlohmann::ordered_json counters();
  /// True when every packet of every switch is accounted for. Only meaningful after run().
  [[nodiscard]] bool balanced();

  /// Every counter, for Prometheus. Any thread, at any time; waits for no worker.
  [[nodiscard]] std::vector<prometheus::MetricFamily> metrics() const;

  /// What the service manager is told. Any thread, at any time; waits for no worker.
  [[nodiscard]] Health health() const;

  // Backend.
  [[nodiscard]] std::vector<control::TableInfo> tables() const override;
  [[nodiscard]] std::vector<std::string> switch_names() const override;
  [[nodiscard]] control::ShowResult show(const std::string& table, const std::string& switch_name,
                                         std::size_t max_rows) override;
  [[nodiscard]] nlohmann::ordered_json about() const override;

 private:
  struct Switch {
    std::unique_ptr<pipeline::SwitchState> state;
    std::vector<std::unique_ptr<ports::Port>> ports;             ///< by PortIndex
    std::vector<std::unique_ptr<pipeline::Pipeline>> pipelines;  ///< by worker
  };

  std::string build(const pipeline::Registry& registry, const Eal& eal);
  std::string open_ports(std::vector<std::vector<std::unique_ptr<ports::Port>>>& opened);
  std::string connect_links(std::vector<std::vector<std::unique_ptr<ports::Port>>>& opened);
  void build_switch(const pipeline::Registry& registry, std::size_t index,
                    std::vector<std::unique_ptr<ports::Port>> ports);
  void assign_polling();
  void supervise_links();
  // Runs the task for every switch on every worker, one worker after the other.
  void for_each_worker(const std::function<void(Switch&, std::size_t)>& task);
  void warn_of_endless_inputs() const;
  // Both are true for good once no packet can come in any more; the second looks at the workers too.
  [[nodiscard]] bool inputs_ended() const;
  [[nodiscard]] bool ended_and_empty();
  // At least the packets that the process holds; 0 says that it held none at some moment during the call.
  [[nodiscard]] std::uint64_t inside() const;
  void drain();
  void stop_workers();
  void drop_what_is_left();
  // Rows of a table of one switch; false when there are more than `max_rows`.
  bool switch_rows(Switch& s, const std::string& table, std::size_t max_rows, nlohmann::ordered_json& rows);
  bool stage_table_rows(Switch& s, const std::string& table, std::size_t max_rows, nlohmann::ordered_json& rows);
  [[nodiscard]] nlohmann::ordered_json totals_row(Switch& s);
  [[nodiscard]] nlohmann::ordered_json worker_rows() const;
  // Runs the task where it cannot meet a burst: on the worker, or here when no worker runs.
  void on_worker(std::size_t worker, const std::function<void()>& task);

  control::Config config_;
  std::string config_file_;
  std::vector<unsigned> cpus_;
  bool hugepages_;
  Clock clock_;
  pipeline::Pool pool_;
  HandoffRings rings_;
  std::vector<Switch> switches_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::vector<unsigned> lcores_;
  std::mutex running_mutex_;  ///< held over calls to workers, so that these do not end meanwhile
  bool running_ = false;
  std::atomic<pipeline::TimeNs> started_;
  LogLimit link_log_;
  std::atomic<pipeline::TimeNs> stopped_{0};
};

}  // namespace weft
