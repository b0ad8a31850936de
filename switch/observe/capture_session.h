// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#pragma once

#include "switch/capture/capture_tap.h"
#include "switch/capture/packet_filter.h"
#include "switch/capture/record_ring.h"
#include "switch/observe/session.h"

namespace weft {

/// A capture: taps that copy into a ring per worker, which are made into a pcapng file here. Its interfaces are the
/// ports of the chosen switches ("tor1/h1") and one per switch for what it drops ("tor1 drops").
class CaptureSession : public Session {
 public:
  CaptureSession(PipelineSet& pipelines, std::vector<SwitchNames> switches, std::vector<capture::SwitchFilter> filters,
                 const api::CaptureRequest& request);
  ~CaptureSession() override;

 protected:
  void collect(api::SessionPart& part, std::size_t max_bytes) override;
  void finish(api::SessionPart& part) override;

 private:
  void describe_interfaces(std::vector<capture::SwitchFilter>& filters);
  void attach_taps(const std::vector<capture::SwitchFilter>& filters);
  [[nodiscard]] bool bound_reached(std::size_t next_bytes);
  void append(std::string& out, const capture::Record& record);
  [[nodiscard]] std::uint64_t lost() const;
  [[nodiscard]] std::uint64_t epoch(TimeNs time) const noexcept { return epoch_offset_ + time; }

  std::vector<SwitchNames> switches_;
  api::CaptureRequest request_;
  std::vector<std::unique_ptr<capture::RecordRing>> rings_;  ///< by worker
  std::vector<std::unique_ptr<capture::CaptureTap>> taps_;
  std::vector<std::uint32_t> first_interface_;  ///< by switch: of its first port; its drops come behind its last one
  std::vector<std::uint64_t> packets_of_;       ///< by interface
  std::string start_;                           ///< of the file, until it was given away
  std::uint64_t epoch_offset_;                  ///< nanoseconds between the epoch and the start of the process's time
  std::uint64_t packets_ = 0;
  std::uint64_t bytes_ = 0;
  bool full_ = false;  ///< a bound was reached
};

}  // namespace weft
