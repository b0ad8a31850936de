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
    // Rates are bits per second and times nanoseconds. Of a packet that leaves at its time the fraction is carried on:
    // at 400 Gbit/s a packet takes some 30 ns, and rounding each would cost a hundredth of the rate.
    if (now > next_send_) {
      next_send_ = now;
      fraction_ = 0;
    }
    const double wait = static_cast<double>(wire_bytes) * 8e9 / rate + fraction_;
    const auto whole = static_cast<Time>(wait);
    fraction_ = wait - static_cast<double>(whole);
    next_send_ += whole;
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
  double fraction_ = 0;  ///< of a nanosecond, that next_send_ is too early
  Algorithm algorithm_;
};

}  // namespace weft::nic
