// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Captures and traces that run: attached to the pipelines of a process, read by a client of the control service.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "switch/control/operator.h"
#include "switch/pipeline/pipeline.h"

namespace weft {

/// The pipelines of a process, for what is attached to them. The control plane's view; any thread.
class PipelineSet {
 public:
  virtual ~PipelineSet() = default;
  [[nodiscard]] virtual std::uint16_t worker_count() const = 0;
  /// Calls `task` for every pipeline, on its worker and between two bursts, and waits for it.
  virtual void for_each_pipeline(
      const std::function<void(std::size_t switch_index, std::size_t worker, pipeline::Pipeline&)>& task) = 0;
  [[nodiscard]] virtual pipeline::TimeNs now() const = 0;
};

/// What captures and traces need to know of a switch after its pipelines may have been replaced.
struct SwitchNames {
  struct Stage {
    std::string name;
    std::vector<std::string> counters;
  };
  std::string name;
  std::vector<std::string> ports;  ///< by PortIndex
  std::vector<bool> links;         ///< by PortIndex: a cable to another switch of the process
  std::vector<Stage> stages;       ///< in the order of the pipeline

  /// "h1", or "none".
  [[nodiscard]] std::string port(pipeline::PortIndex index) const {
    return index < ports.size() ? ports[index] : "none";
  }
};

/// One capture or trace. read() and the destructor are called by one thread at a time, stop() by any.
class Session {
 public:
  using Clock = std::chrono::steady_clock;

  explicit Session(PipelineSet& pipelines) : pipelines_(pipelines) {}
  virtual ~Session() = default;
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  /// As Operator::read_session().
  [[nodiscard]] control::SessionPart read();
  void stop(const std::string& reason);

 protected:
  /// Gives what there is, up to about `max_bytes`; sets the counts. True when a bound was reached: stop() was called.
  virtual void collect(control::SessionPart& part, std::size_t max_bytes) = 0;
  /// Takes everything off the pipelines. Afterwards collect() is called until it gives nothing.
  virtual void detach() = 0;
  /// The last words.
  virtual void finish(control::SessionPart& part) = 0;

  void end_after(std::uint64_t duration_ms) {
    if (duration_ms != 0) end_ = Clock::now() + std::chrono::milliseconds(duration_ms);
  }

  PipelineSet& pipelines_;

 private:
  [[nodiscard]] bool stopping() const noexcept { return stopping_.load(std::memory_order_acquire); }

  std::atomic<bool> stopping_{false};
  std::mutex reason_mutex_;
  std::string reason_;
  Clock::time_point end_ = Clock::time_point::max();
  bool attached_ = true;
};

/// All sessions of a process.
class Sessions {
 public:
  static constexpr std::size_t kMaxSessions = 4;

  explicit Sessions(PipelineSet& pipelines) : pipelines_(pipelines) {}

  [[nodiscard]] control::SessionStart start_capture(const control::CaptureRequest& request);
  [[nodiscard]] control::SessionStart start_trace(const control::TraceRequest& request);
  [[nodiscard]] control::SessionPart read(std::uint64_t id);
  bool stop(std::uint64_t id);
  /// Ends sessions that nobody has read for ten seconds. Called now and then.
  void expire();
  /// Ends all: the pipelines are about to be replaced. Readers learn why.
  void stop_all(const std::string& reason);

 private:
  struct Entry {
    std::shared_ptr<Session> session;
    std::shared_ptr<std::mutex> reading;
    Session::Clock::time_point last_read;
    bool trace;
  };
  // The names of all switches, by index; also says what filters may choose from.
  [[nodiscard]] std::vector<SwitchNames> names(std::vector<pipeline::SwitchInfo>& infos);
  [[nodiscard]] control::SessionStart add(std::shared_ptr<Session> session, bool trace);
  [[nodiscard]] std::string no_room(bool trace);

  PipelineSet& pipelines_;
  std::mutex mutex_;
  std::uint64_t next_id_ = 1;
  std::map<std::uint64_t, Entry> entries_;
};

}  // namespace weft
