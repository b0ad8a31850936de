// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// The reaction point of QCN (IEEE 802.1Qau, in 802.1Q clause 30): the rate of a queue pair by what a switch near by
// says of its queue. Annulus (SIGCOMM 2020) has it beside the congestion control between the hosts, and a queue pair
// sends at the lower of the two rates; RateControl does that (DcqcnParameters::near_qcn).
//
//   standard, its pseudo code               here
//   rpCurrentRate, rpTargetRate             rate_bps(), target_bps()
//   rpByteStage, rpTimeStage                byte_stage_, timer_stage_
//   rpgThreshold, rpgGd                     kFastRecoveryCycles, kGd
//   rpgByteReset, rpgTimeReset, rpgAiRate   QcnParameters
//
// A notification cuts the rate by Gd * Fb, at most by half, and what it was becomes the target unless no cycle has
// passed since the last one. A cycle ends when so many bytes were sent, and another kind of cycle when so much time has
// passed; each end halves the distance to the target. After kFastRecoveryCycles of either kind the target rises as well
// (active increase), with cycles half as long, and faster after as many of both kinds (hyper-active increase).
//
// Not the standard's: the byte counter is not random by 15 %, since the switch's samples are (switch/stages/pnp/qcn.h);
// and the constants for 10 Gbit/s follow the line, so that a faster one does the same in less time.
//
// As with Dcqcn nothing has to be called when the timer expires: each call catches up.
#pragma once

#include <cstdint>

#include "nic/rnic/config.h"

namespace weft::nic {

class Qcn {
 public:
  static constexpr std::uint32_t kFastRecoveryCycles = 5;
  static constexpr unsigned kMostFeedback = 63;
  static constexpr double kGd = 1.0 / 128;

  Qcn(const QcnParameters& parameters, std::uint64_t line_bps) noexcept;

  /// A notification arrived. 0 says nothing, and what is above kMostFeedback counts as that.
  void on_feedback(Time now, unsigned feedback) noexcept;
  /// So many bytes left; feeds the byte counter.
  void on_sent(Time now, std::uint64_t bytes) noexcept;

  /// Bits per second at this time, which must not lie before the times of earlier calls: the line's until a
  /// notification comes, and never more.
  [[nodiscard]] double rate_bps(Time now) noexcept {
    if (now >= timer_) advance(now);
    return rate_;
  }
  [[nodiscard]] double target_bps(Time now) noexcept {
    if (now >= timer_) advance(now);
    return target_;
  }
  [[nodiscard]] std::uint64_t cuts() const noexcept { return cuts_; }
  [[nodiscard]] std::uint64_t increases() const noexcept { return increases_; }

 private:
  void advance(Time now) noexcept;
  void increase() noexcept;
  [[nodiscard]] bool limits() const noexcept { return timer_ != kNever; }

  QcnParameters p_;
  double line_;
  double rate_;
  double target_;
  Time timer_ = kNever;  ///< when the cycle of time ends; kNever: the rate is the line's
  std::uint32_t timer_stage_ = 0;
  std::uint32_t byte_stage_ = 0;
  std::uint64_t bytes_ = 0;
  std::uint64_t cuts_ = 0, increases_ = 0;
};

}  // namespace weft::nic
