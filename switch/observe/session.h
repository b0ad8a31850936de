// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Captures, traces and recordings that run: attached to the pipelines of a process, read by a client of the control
// service.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "switch/api/requests.h"
#include "switch/capture/packet_filter.h"
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
  [[nodiscard]] virtual TimeNs now() const = 0;
};

/// What captures and traces need to know of a switch after its pipelines may have been replaced.
struct SwitchNames {
  struct Stage {
    std::string name;
    std::vector<pipeline::CounterInfo> counters;
  };
  std::string name;
  std::vector<std::string> ports;  ///< by PortIndex
  std::vector<bool> links;         ///< by PortIndex: a cable to another switch of the process
  std::vector<Stage> stages;       ///< in the order of the pipeline
  const pipeline::DropReasons* drops = nullptr;

  /// "h1", or "none".
  [[nodiscard]] std::string port(pipeline::PortIndex index) const {
    return index < ports.size() ? ports[index] : "none";
  }
};

/// One capture, trace or recording. read() and the destructor are called by one thread at a time, stop() by any.
class Session {
 public:
  using Clock = std::chrono::steady_clock;

  explicit Session(PipelineSet& pipelines) : pipelines_(pipelines) {}
  virtual ~Session() = default;
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  /// As Backend::read_session().
  [[nodiscard]] api::SessionPart read();
  void stop(const std::string& reason);
  /// Takes everything off the pipelines, so that there is nothing new to read. Like read(), and before the end of
  /// whatever the taps belong to.
  virtual void detach();

 protected:
  /// Gives what there is, up to about `max_bytes`; sets the counts. True when a bound was reached: stop() was called.
  virtual void collect(api::SessionPart& part, std::size_t max_bytes) = 0;
  /// The last words, after detach() and the last collect().
  virtual void finish(api::SessionPart& part) = 0;

  void end_after(std::uint64_t duration_ms) {
    if (duration_ms != 0) end_ = Clock::now() + std::chrono::milliseconds(duration_ms);
  }

  /// Attaches taps, each to the pipeline of a switch (its index) and a worker; one that is a tracer traces there. They
  /// are the session's, and live until detach().
  void attach(std::map<std::pair<std::size_t, std::size_t>, pipeline::Tap*> taps);

  PipelineSet& pipelines_;

 private:
  [[nodiscard]] bool stopping() const noexcept { return stopping_.load(std::memory_order_acquire); }

  std::atomic<bool> stopping_{false};
  std::mutex reason_mutex_;
  std::string reason_;
  Clock::time_point end_ = Clock::time_point::max();
  std::map<std::pair<std::size_t, std::size_t>, pipeline::Tap*> taps_;  ///< that are attached
};

/// All sessions of a process.
class Sessions {
 public:
  static constexpr std::size_t kMaxSessions = 4;

  explicit Sessions(PipelineSet& pipelines) : pipelines_(pipelines) {}

  [[nodiscard]] api::SessionStart start_capture(const api::CaptureRequest& request);
  [[nodiscard]] api::SessionStart start_trace(const api::TraceRequest& request);
  [[nodiscard]] api::SessionStart start_record(const api::RecordRequest& request);
  [[nodiscard]] api::SessionPart read(std::uint64_t id);
  bool stop(std::uint64_t id);
  /// Ends sessions that nobody has read for ten seconds. Called now and then.
  void expire();
  /// Ends all and takes them off the pipelines, which are about to be replaced: what is known about them, such as the
  /// names of their stages, would be wrong. Readers learn why. None starts while the result is held.
  [[nodiscard]] std::unique_lock<std::mutex> end_all(const std::string& reason);

 private:
  struct Entry {
    std::shared_ptr<Session> session;
    std::shared_ptr<std::mutex> reading;
    Session::Clock::time_point last_read;
    bool trace;
  };
  // What a session needs to begin: the names of all switches and filters for them, by index; or why it cannot.
  struct Preparation {
    std::vector<SwitchNames> switches{};
    std::vector<capture::SwitchFilter> filters{};
    std::string error{};
  };
  [[nodiscard]] Preparation prepare(const capture::Query& query, bool trace);
  /// Names of all switches; and what `query` needs to know of each, whose description goes into `infos`.
  [[nodiscard]] std::vector<SwitchNames> names(const capture::Query& query, std::vector<pipeline::SwitchInfo>& infos,
                                               std::vector<capture::SwitchView>& views);
  [[nodiscard]] api::SessionStart add(std::shared_ptr<Session> session, bool trace);
  [[nodiscard]] std::string no_room(bool trace);

  PipelineSet& pipelines_;
  std::mutex mutex_;
  std::uint64_t next_id_ = 1;
  std::map<std::uint64_t, Entry> entries_;
};

}  // namespace weft
