// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// TIMELY (Mittal et al., SIGCOMM 2015): the rate follows how round trips grow. A sample is a round trip of the
// requester, at most one at a time; the paper has one per segment.
//
//   paper (Algorithm 1)         here
//   new_rtt, prev_rtt           on_rtt(), its last argument
//   rtt_diff                    rtt_diff_ns()
//   normalized_gradient         gradient()
//   completion event            a sample
//
// Not TIMELY's: above_base, for paths whose base round trip no fixed threshold fits, and a second rate by round trips
// to a switch on the way (near_echo, echo_clock.h), which RateControl has.
#pragma once

#include <cstdint>

#include "nic/rnic/config.h"

namespace weft::nic {

/// The rate of one queue pair. The first sample only starts the differences.
class Timely {
 public:
  Timely(const TimelyParameters& parameters, std::uint64_t line_bps) noexcept;

  /// A round trip of so many nanoseconds, more than 0, has ended.
  void on_rtt(Time rtt) noexcept;

  /// Bits per second, from min_bps (or the line's rate if that is less) to the line's rate.
  [[nodiscard]] double rate_bps(Time) const noexcept { return rate_; }
  [[nodiscard]] double rtt_diff_ns() const noexcept { return rtt_diff_; }
  [[nodiscard]] double gradient() const noexcept { return rtt_diff_ / static_cast<double>(unit_of_growth()); }
  [[nodiscard]] std::uint64_t cuts() const noexcept { return cuts_; }
  [[nodiscard]] std::uint64_t increases() const noexcept { return increases_; }

 private:
  void increase(double steps) noexcept;
  void decrease(double factor) noexcept;
  [[nodiscard]] Time unit_of_growth() const noexcept { return p_.min_rtt_ns > base_ ? p_.min_rtt_ns : base_; }

  TimelyParameters p_;
  double line_;
  double rate_;
  Time last_rtt_ = 0;  ///< 0: none yet
  Time base_ = 0;      ///< above_base: the shortest so far
  double rtt_diff_ = 0;
  std::uint32_t calm_ = 0;  ///< samples between the thresholds without growth, in a row
  std::uint64_t cuts_ = 0, increases_ = 0;
};

}  // namespace weft::nic
