// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// HPCC (Li et al., SIGCOMM 2019): switches say with each packet how busy their ports are (switch/wire/telemetry.h), and
// a window follows the busiest one of the path, to a utilisation a little below 1. The rate is the window per round
// trip.
//
//   paper (Algorithm 1)          here
//   MeasureInflight, U           measure(), utilisation()
//   ComputeWind, W, W_c          compute(), window_bytes(), reference_
//   ack.seq > lastUpdateSeq      a packet that was sent after the last update is acknowledged
//   T                            base_rtt_us; 0: the shortest round trip that the queue pair has seen
//   W_AI                         r_ai_mbps, times T
//
// Not HPCC's: a sample in which a counter may have wrapped tells of the queue alone, and where no port tells anything,
// or none knows its speed, the window grows by its step per round trip. A sample along another path than the last
// begins anew: queue pairs whose packets are sprayed over paths that take turns learn nothing. RateControl has a second
// one for ports whose records a switch on the way sends back (near_rtt_us).
#pragma once

#include <cstdint>

#include "nic/rnic/config.h"
#include "switch/wire/telemetry.h"

namespace weft::nic {

/// Window and rate of one queue pair. Bytes are those of whole frames.
class Hpcc {
 public:
  Hpcc(const HpccParameters& parameters, std::uint64_t line_bps) noexcept;

  /// A data packet of so many bytes left.
  void on_sent(Time, std::uint64_t wire_bytes) noexcept;
  /// A round trip of so many nanoseconds, more than 0, has ended.
  void on_rtt(Time rtt) noexcept;
  /// An ACK has brought what the ports on the way have said.
  /// @param acknowledged, next  packets that are acknowledged, and that were ever sent: they only grow
  void on_telemetry(Time now, const wire::IntPath& path, std::uint64_t acknowledged, std::uint64_t next) noexcept;

  /// Bits per second: the line's rate until the first sample.
  [[nodiscard]] double rate_bps(Time) const noexcept;
  /// Packets that may be under way, one at least; without bound until T is known, and without a window.
  [[nodiscard]] std::uint64_t window_packets() const noexcept;
  [[nodiscard]] double window_bytes() const noexcept { return window_; }
  [[nodiscard]] double utilisation() const noexcept { return u_; }
  [[nodiscard]] std::uint64_t cuts() const noexcept { return cuts_; }
  [[nodiscard]] std::uint64_t increases() const noexcept { return increases_; }

 private:
  [[nodiscard]] bool measure(Time now, const wire::IntPath& path) noexcept;
  [[nodiscard]] double compute(bool update) noexcept;
  void set_base(Time base) noexcept;
  [[nodiscard]] double bytes_in_base(double bps) const noexcept { return bps * static_cast<double>(base_) / 8e9; }

  HpccParameters p_;
  double line_;
  Time base_ = 0;  ///< T; 0: not known
  double window_ = 0, reference_ = 0;
  double u_ = 1;
  double packet_bytes_ = 0;  ///< the largest so far
  std::uint32_t stage_ = 0;  ///< incStage
  std::uint64_t update_at_ = 0;
  bool has_last_ = false;
  Time last_at_ = 0;
  wire::IntPath last_{};
  std::uint64_t cuts_ = 0, increases_ = 0;
};

}  // namespace weft::nic
