// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#pragma once

#include <thread>

#include "switch/observe/depth_ring.h"
#include "switch/observe/session.h"
#include "switch/qos/gauge.h"

namespace weft {

/// A class queue whose depth is recorded.
struct RecordedQueue {
  std::string name;         ///< "tor1/p1/3": switch, port, queue
  const qos::Gauge* bytes;  ///< lives until Session::detach()
};

/// Depths of class queues at a steady rate, as CSV: a line of names, `time_ns` first, then a line for each sample. The
/// depths are gauges that any thread may read, so a thread of the session reads them: workers know nothing of it, and
/// without a recording there is nothing that could cost anything.
class RecordSession : public Session {
 public:
  RecordSession(PipelineSet& pipelines, std::vector<RecordedQueue> queues, const api::RecordRequest& request);
  ~RecordSession() override;

  /// Ends the thread.
  void detach() override;

 protected:
  void collect(api::SessionPart& part, std::size_t max_bytes) override;
  void finish(api::SessionPart& part) override;

 private:
  void sample();  // the thread
  void count(api::SessionPart& part) const;

  std::vector<RecordedQueue> queues_;
  api::RecordRequest request_;
  DepthRing ring_;  ///< the time, then a value for each queue
  std::string heading_;
  std::uint64_t samples_ = 0;
  std::atomic<std::uint64_t> missed_{0};
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

/// The class queues that a request names, as far as `state` of one switch has them; appends to `queues`, and to `ports`
/// the names of the switch's ports.
void find_recorded_queues(const pipeline::SwitchState& state, const api::RecordRequest& request,
                          std::vector<RecordedQueue>& queues, std::vector<std::string>& ports);

}  // namespace weft
