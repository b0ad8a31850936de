// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// The rate of a queue pair, whatever algorithm sets it. An algorithm sees every event that one could need: what was
// sent, what was acknowledged with its round-trip time, CNPs, NACKs and timeouts; another one is another alternative of
// the variant, with functions for the events that it heeds. Pacing is the same for all of them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <variant>

#include "nic/rnic/config.h"
#include "nic/rnic/dcqcn.h"
#include "nic/rnic/echo_clock.h"
#include "nic/rnic/hpcc.h"
#include "nic/rnic/qcn.h"
#include "nic/rnic/requester.h"
#include "nic/rnic/swift.h"
#include "nic/rnic/timely.h"

namespace weft::nic {

/// The fixed rate of a queue pair without congestion control.
class LineRate {
 public:
  explicit LineRate(std::uint64_t line_bps) noexcept : rate_(static_cast<double>(line_bps)) {}
  [[nodiscard]] double rate_bps(Time) const noexcept { return rate_; }

 private:
  double rate_;
};

/// What an algorithm did to the rate.
struct RateChanges {
  std::uint64_t cuts = 0, increases = 0;
};

class RateControl {
 public:
  explicit RateControl(const QpConfig& config)
      : nack_is_cnp_(config.nack_is_cnp),
        paced_(config.line_bps != 0),
        pacing_slack_(config.pacing_slack_ns),
        algorithm_(make(config)),
        mtu_(config.path_mtu),
        echo_clock_(echo_lost_after(config)) {
    if (hpcc() != nullptr && config.hpcc.near_rtt_ns != 0) {
      HpccParameters near = config.hpcc;
      near.base_rtt_ns = near_rtt_ = near.near_rtt_ns;
      near_.emplace<Hpcc>(near, config.line_bps);
    } else if (timely() != nullptr && config.timely.near_echo) {
      TimelyParameters near = config.timely;
      near.above_base = false;
      near_.emplace<Timely>(near, config.line_bps);
    } else if (swift() != nullptr && config.swift.near_target_ns != 0) {
      SwiftParameters near = config.swift;
      near.base_target_ns = near.near_target_ns;
      near_.emplace<Swift>(near, config.line_bps, config.path_mtu);
    } else if (dcqcn() != nullptr && config.dcqcn.near_qcn.enabled) {
      near_.emplace<Qcn>(config.dcqcn.near_qcn, config.line_bps);
    }
  }

  /// The earliest time at which the next data packet may leave.
  [[nodiscard]] Time next_send() const noexcept { return next_send_; }
  /// A data packet of so many bytes on the wire leaves now.
  void on_sent(Time now, std::uint64_t wire_bytes) noexcept {
    if (!paced_) return;
    std::visit(
        [&](auto& a) {
          if constexpr (requires { a.on_sent(now, wire_bytes); }) a.on_sent(now, wire_bytes);
        },
        algorithm_);
    if (auto* const near = std::get_if<Swift>(&near_)) {
      near->on_sent(now, wire_bytes);
      near_sent_ += mtu_;
    }
    if (auto* const near = std::get_if<Qcn>(&near_)) near->on_sent(now, wire_bytes);
    const double rate = rate_bps(now);
    // Rates are bits per second and times nanoseconds. Of a packet that leaves at its time the fraction is carried on:
    // at 400 Gbit/s a packet takes some 30 ns, and rounding each would cost a hundredth of the rate.
    if (const Time oldest = now - pacing_slack_; next_send_ < oldest) {
      next_send_ = oldest;
      fraction_ = 0;
    }
    const double wait = static_cast<double>(wire_bytes) * 8e9 / rate + fraction_;
    const auto whole = static_cast<Time>(wait);
    fraction_ = wait - static_cast<double>(whole);
    next_send_ += whole;
  }
  void on_response(Time now, const ResponseEvent& event) noexcept {
    if (event.nack && nack_is_cnp_) on_cnp(now);
    std::visit(
        [&](auto& a) {
          if constexpr (requires { a.on_nack(now); }) {
            if (event.nack) a.on_nack(now);
          }
          if constexpr (requires { a.on_ack(now, event.acked_bytes, event.rtt_ns); }) {
            if (event.acked_bytes > 0 || event.rtt_ns > 0) a.on_ack(now, event.acked_bytes, event.rtt_ns);
          }
          if constexpr (requires { a.on_rtt(event.rtt_ns); }) {
            if (event.rtt_ns > 0) a.on_rtt(event.rtt_ns);
          }
        },
        algorithm_);
  }
  /// Algorithms that go by delay alone do not heed CNPs.
  /// @param feedback  what a switch near by says of its queue (switch/wire/qcn_cnp.h); 0: the CNP does not say
  void on_cnp(Time now, unsigned feedback = 0) noexcept {
    if (auto* const near = std::get_if<Qcn>(&near_); near != nullptr && feedback != 0) {
      return near->on_feedback(now, feedback);
    }
    std::visit(
        [&](auto& a) {
          if constexpr (requires { a.on_cnp(now); }) a.on_cnp(now);
        },
        algorithm_);
  }
  /// What switches have said of their ports came back with an answer; see Hpcc::on_telemetry().
  void on_telemetry(Time now, const wire::IntPath& path, std::uint64_t acknowledged, std::uint64_t next) noexcept {
    if (auto* const hpcc = std::get_if<Hpcc>(&algorithm_)) hpcc->on_telemetry(now, path, acknowledged, next);
  }
  /// The same of the ports in front of a switch that has sent their records back. It says nothing of what was
  /// acknowledged, so that a round trip is HpccParameters::near_rtt_ns.
  void on_mirrored(Time now, const wire::IntPath& path) noexcept {
    if (auto* const near = std::get_if<Hpcc>(&near_)) {
      near->on_telemetry(now, path, static_cast<std::uint64_t>(now), static_cast<std::uint64_t>(now + near_rtt_));
    }
  }
  /// A request leaves that was not sent before: whether it asks a switch on the way for an echo.
  [[nodiscard]] bool asks_echo(Time now, wire::Psn psn) noexcept {
    return (near_timely() != nullptr || near_swift() != nullptr) && echo_clock_.asks(now, psn);
  }
  /// A switch on the way echoes a request.
  void on_echo(Time now, wire::Psn psn) noexcept {
    const Time rtt = echo_clock_.answered(now, psn);
    if (rtt == 0) return;
    if (auto* const near = std::get_if<Timely>(&near_)) near->on_rtt(rtt);
    // What was sent since the last echo: all but a round trip's worth of it has come to the switch, as each time.
    if (auto* const near = std::get_if<Swift>(&near_)) {
      near->on_ack(now, near_sent_, rtt);
      near_sent_ = 0;
    }
  }
  /// Packets that may be under way at a time, besides what QpConfig allows.
  [[nodiscard]] std::uint64_t window_packets() const noexcept {
    const Hpcc* const window = hpcc();
    return window != nullptr ? window->window_packets() : std::numeric_limits<std::uint64_t>::max();
  }
  /// The requester waited in vain for an answer.
  void on_timeout(Time now) noexcept {
    std::visit(
        [&](auto& a) {
          if constexpr (requires { a.on_timeout(now); }) a.on_timeout(now);
        },
        algorithm_);
  }
  [[nodiscard]] double rate_bps(Time now) noexcept {
    const double rate = std::visit([&](auto& a) { return a.rate_bps(now); }, algorithm_);
    if (const auto* const near = near_hpcc()) return std::min(rate, near->rate_bps(now));
    if (const auto* const near = near_timely()) return std::min(rate, near->rate_bps(now));
    if (const auto* const near = near_swift()) return std::min(rate, near->rate_bps(now));
    if (auto* const near = std::get_if<Qcn>(&near_)) return std::min(rate, near->rate_bps(now));
    return rate;
  }
  /// nullopt without congestion control.
  [[nodiscard]] std::optional<RateChanges> changes() const noexcept {
    return std::visit(
        [](const auto& a) -> std::optional<RateChanges> {
          if constexpr (requires { a.cuts(); }) return RateChanges{a.cuts(), a.increases()};
          return std::nullopt;
        },
        algorithm_);
  }
  /// Null unless DCQCN is chosen.
  [[nodiscard]] const Dcqcn* dcqcn() const noexcept { return std::get_if<Dcqcn>(&algorithm_); }
  /// By what switches near by say of their queues; null unless DCQCN is chosen with near_qcn.
  [[nodiscard]] const Qcn* near_qcn() const noexcept { return std::get_if<Qcn>(&near_); }
  /// Null unless HPCC is chosen.
  [[nodiscard]] const Hpcc* hpcc() const noexcept { return std::get_if<Hpcc>(&algorithm_); }
  /// By the ports whose records come back early; null unless HPCC is chosen with a near_rtt_ns.
  [[nodiscard]] const Hpcc* near_hpcc() const noexcept { return std::get_if<Hpcc>(&near_); }
  /// Null unless TIMELY is chosen.
  [[nodiscard]] const Timely* timely() const noexcept { return std::get_if<Timely>(&algorithm_); }
  /// By round trips to a switch on the way; null unless TIMELY is chosen with near_echo.
  [[nodiscard]] const Timely* near_timely() const noexcept { return std::get_if<Timely>(&near_); }
  /// Null unless Swift is chosen.
  [[nodiscard]] const Swift* swift() const noexcept { return std::get_if<Swift>(&algorithm_); }
  /// By round trips to a switch on the way; null unless Swift is chosen with a near_target_ns.
  [[nodiscard]] const Swift* near_swift() const noexcept { return std::get_if<Swift>(&near_); }

 private:
  // An echo is lost, or its request was, when it is not there after so many T_high, or targets of Swift.
  static constexpr Time kEchoLost = 2;
  static constexpr Time kEchoLostSwift = 10;
  static Time echo_lost_after(const QpConfig& config) noexcept {
    const SwiftParameters& swift = config.swift;
    return config.congestion_control == CongestionControl::swift
               ? kEchoLostSwift * std::max<Time>(1, swift.near_target_ns + swift.fs_range_ns)
               : kEchoLost * std::max<Time>(1, config.timely.t_high_ns);
  }
  using Algorithm = std::variant<LineRate, Dcqcn, Timely, Swift, Hpcc>;
  static Algorithm make(const QpConfig& config) noexcept {
    if (config.line_bps == 0) return LineRate(0);
    switch (config.congestion_control) {
      case CongestionControl::dcqcn:
        return Dcqcn(config.dcqcn, config.line_bps);
      case CongestionControl::timely:
        return Timely(config.timely, config.line_bps);
      case CongestionControl::swift:
        return Swift(config.swift, config.line_bps, config.path_mtu);
      case CongestionControl::hpcc:
        return Hpcc(config.hpcc, config.line_bps);
      case CongestionControl::none:
        break;
    }
    return LineRate(config.line_bps);
  }

  bool nack_is_cnp_;
  bool paced_;
  Time pacing_slack_;
  Time next_send_ = 0;
  double fraction_ = 0;  ///< of a nanosecond, that next_send_ is too early
  Algorithm algorithm_;
  std::variant<std::monostate, Hpcc, Timely, Swift, Qcn> near_{};  ///< of the way up to a switch that answers early
  Time near_rtt_ = 0;
  std::uint64_t near_sent_ = 0;  ///< payload of full packets since the last echo
  std::uint32_t mtu_;
  EchoClock echo_clock_;
};

}  // namespace weft::nic
