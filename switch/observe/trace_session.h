// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "switch/capture/packet_filter.h"
#include "switch/capture/trace_table.h"
#include "switch/observe/session.h"

namespace weft {

/// A trace: every packet whose way has ended becomes one line of JSON.
class TraceSession : public Session {
 public:
  TraceSession(PipelineSet& pipelines, std::vector<SwitchNames> switches, std::vector<capture::SwitchFilter> filters,
               const api::TraceRequest& request);
  ~TraceSession() override;
  [[nodiscard]] bool usable() const noexcept { return table_.usable(); }

 protected:
  void collect(api::SessionPart& part, std::size_t max_bytes) override;
  void finish(api::SessionPart& part) override;

 private:
  void attach_taps(const std::vector<capture::SwitchFilter>& filters);
  [[nodiscard]] std::string line_of(const capture::TraceRecord& record);
  [[nodiscard]] nlohmann::ordered_json step_of(const pipeline::TraceEvent& event, TimeNs start) const;
  [[nodiscard]] std::string verdict_of(const pipeline::TraceEvent& event, const SwitchNames& names) const;
  [[nodiscard]] std::string why_of(const pipeline::TraceEvent& event, const SwitchNames& names) const;

  std::vector<SwitchNames> switches_;
  api::TraceRequest request_;
  bool by_reason_;
  capture::TraceTable table_;
  std::vector<std::unique_ptr<capture::TraceTap>> taps_;
  std::uint64_t packets_ = 0;
};

}  // namespace weft
