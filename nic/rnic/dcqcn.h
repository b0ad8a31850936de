// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// DCQCN (Zhu et al., SIGCOMM 2015) as RNICs and the simulators of HPCC and ConWeave run it.
//
// Nothing has to be called when one of its timers expires: each call first catches up with all of them, in their order,
// which gives what periodic timers would. Alpha between two CNPs is a power, so that a long silence costs nothing.
//
//   paper                 here
//   RP, reaction point    Dcqcn
//   NP, notification point  CnpGenerator
//   R_C, R_T              rate_bps(), target_bps()
//   T, BC                 increase_interval_ns, increase_bytes
#pragma once

#include <cstdint>

#include "nic/rnic/config.h"

namespace weft::nic {

/// Reaction point of one queue pair.
class Dcqcn {
 public:
  Dcqcn(const DcqcnParameters& parameters, std::uint64_t line_bps) noexcept;

  /// A CNP arrived, or something that counts as one.
  void on_cnp(Time now) noexcept;
  /// So many bytes left; feeds the byte counter.
  void on_sent(Time now, std::uint64_t bytes) noexcept;

  /// Bits per second at this time, which must not lie before the times of earlier calls.
  [[nodiscard]] double rate_bps(Time now) noexcept {
    advance(now);
    return rate_;
  }
  [[nodiscard]] double target_bps(Time now) noexcept {
    advance(now);
    return target_;
  }
  [[nodiscard]] double alpha(Time now) noexcept;
  [[nodiscard]] std::uint64_t cnps() const noexcept { return cnps_; }
  [[nodiscard]] std::uint64_t cuts() const noexcept { return cuts_; }
  [[nodiscard]] std::uint64_t increases() const noexcept { return increases_; }

 private:
  void advance(Time now) noexcept;
  void advance_alpha(Time until) noexcept;
  void cut(Time at) noexcept;
  void increase() noexcept;
  [[nodiscard]] Time next_check() const noexcept;

  DcqcnParameters p_;
  double line_;
  double rate_;
  double target_;
  double alpha_ = 1.0;
  bool started_ = false;  ///< a CNP has arrived
  bool alpha_cnp_ = false;
  bool cut_pending_ = false;
  Time start_ = 0;       ///< of the first CNP: alpha and cuts keep its phase
  Time alpha_done_ = 0;  ///< alpha is right up to here
  Time checked_ = 0;     ///< cuts are done up to here
  Time timer_ = kNever;  ///< next expiry of the increase timer
  std::uint32_t timer_stage_ = 0;
  std::uint32_t byte_stage_ = 0;
  std::uint64_t bytes_ = 0;
  std::uint64_t cnps_ = 0, cuts_ = 0, increases_ = 0;
};

/// Notification point of one queue pair: which marked packets are answered by a CNP.
class CnpGenerator {
 public:
  explicit CnpGenerator(Time interval_ns) noexcept : interval_(interval_ns) {}
  /// A packet with CE arrived; true when a CNP is due.
  bool on_marked(Time now) noexcept {
    ++marked_;
    if (sent_ > 0 && now - last_ < interval_) return false;
    last_ = now;
    ++sent_;
    return true;
  }
  [[nodiscard]] std::uint64_t marked() const noexcept { return marked_; }
  [[nodiscard]] std::uint64_t sent() const noexcept { return sent_; }

 private:
  Time interval_;
  Time last_ = 0;
  std::uint64_t marked_ = 0, sent_ = 0;
};

}  // namespace weft::nic
