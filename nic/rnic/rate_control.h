// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// The rate of a queue pair, whatever algorithm sets it. An algorithm sees every event that one could need: what was
// sent, what was acknowledged with its round-trip time, CNPs and NACKs; another one is another alternative of the
// variant. Pacing is the same for all of them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <variant>

#include "nic/rnic/config.h"
#include "nic/rnic/dcqcn.h"
#include "nic/rnic/requester.h"

namespace weft::nic {

/// The fixed rate of a queue pair without congestion control.
class LineRate {
 public:
  explicit LineRate(std::uint64_t line_bps) noexcept : rate_(static_cast<double>(line_bps)) {}
  [[nodiscard]] double rate_bps(Time) const noexcept { return rate_; }
  void on_cnp(Time) noexcept {}
  void on_sent(Time, std::uint64_t) noexcept {}

 private:
  double rate_;
};

class RateControl {
 public:
  explicit RateControl(const QpConfig& config)
      : nack_is_cnp_(config.nack_is_cnp), paced_(config.line_bps != 0), algorithm_(make(config)) {}

  /// The earliest time at which the next data packet may leave.
  [[nodiscard]] Time next_send() const noexcept { return next_send_; }
  /// A data packet of so many bytes on the wire leaves now.
  void on_sent(Time now, std::uint64_t wire_bytes) noexcept {
    if (!paced_) return;
    const double rate = std::visit(
        [&](auto& a) {
          a.on_sent(now, wire_bytes);
          return a.rate_bps(now);
        },
        algorithm_);
    // Rates are bits per second and times nanoseconds. Rounded up, so that the rate is never exceeded.
    next_send_ = std::max(next_send_, now) + static_cast<Time>(static_cast<double>(wire_bytes) * 8e9 / rate) + 1;
  }
  void on_response(Time now, const ResponseEvent& event) noexcept {
    if (event.nack && nack_is_cnp_) on_cnp(now);
  }
  void on_cnp(Time now) noexcept {
    std::visit([&](auto& a) { a.on_cnp(now); }, algorithm_);
  }
  [[nodiscard]] double rate_bps(Time now) noexcept {
    return std::visit([&](auto& a) { return a.rate_bps(now); }, algorithm_);
  }
  /// Null unless DCQCN is chosen.
  [[nodiscard]] const Dcqcn* dcqcn() const noexcept { return std::get_if<Dcqcn>(&algorithm_); }

 private:
  using Algorithm = std::variant<LineRate, Dcqcn>;
  static Algorithm make(const QpConfig& config) noexcept {
    if (config.congestion_control == CongestionControl::dcqcn && config.line_bps != 0) {
      return Dcqcn(config.dcqcn, config.line_bps);
    }
    return LineRate(config.line_bps);
  }

  bool nack_is_cnp_;
  bool paced_;
  Time next_send_ = 0;
  Algorithm algorithm_;
};

}  // namespace weft::nic
