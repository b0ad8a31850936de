// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "nic/rnic/qcn.h"

#include <algorithm>

namespace weft::nic {
namespace {

constexpr double kLineOfStandard = 1e10;
constexpr Time kTimeReset = 15 * kMs;
constexpr double kAiRate = 5e6, kHaiRate = 50e6, kMinRate = 5e6;

/// Below the line's rate by so little the limit is none: halves of the distance alone would never end.
constexpr double kNothing = 1;

std::uint64_t in_proportion(std::uint64_t given, double standard, double line) noexcept {
  return given != 0 ? given : std::max<std::uint64_t>(1, static_cast<std::uint64_t>(standard * line / kLineOfStandard));
}

QcnParameters for_line(QcnParameters p, double line) noexcept {
  if (p.timer_ns == 0) p.timer_ns = std::max<Time>(1, static_cast<Time>(kTimeReset * kLineOfStandard / line));
  p.additive_bps = in_proportion(p.additive_bps, kAiRate, line);
  p.hyper_bps = in_proportion(p.hyper_bps, kHaiRate, line);
  p.min_bps = in_proportion(p.min_bps, kMinRate, line);
  return p;
}

}  // namespace

Qcn::Qcn(const QcnParameters& parameters, std::uint64_t line_bps) noexcept
    : p_(for_line(parameters, static_cast<double>(line_bps))),
      line_(static_cast<double>(line_bps)),
      rate_(line_),
      target_(line_) {}

void Qcn::on_feedback(Time now, unsigned feedback) noexcept {
  if (feedback == 0) return;
  if (now >= timer_) advance(now);
  if (!limits() || timer_stage_ != 0 || byte_stage_ != 0) target_ = rate_;
  rate_ *= 1 - kGd * std::min(feedback, kMostFeedback);
  rate_ = std::max(std::min(line_, static_cast<double>(p_.min_bps)), rate_);
  timer_stage_ = byte_stage_ = 0;
  bytes_ = 0;
  timer_ = now + p_.timer_ns;
  ++cuts_;
}

void Qcn::on_sent(Time now, std::uint64_t bytes) noexcept {
  if (now >= timer_) advance(now);
  if (!limits()) return;
  bytes_ += bytes;
  while (limits()) {
    const std::uint64_t cycle = byte_stage_ < kFastRecoveryCycles ? p_.bytes : std::max<std::uint64_t>(1, p_.bytes / 2);
    if (bytes_ < cycle) return;
    bytes_ -= cycle;
    ++byte_stage_;
    increase();
  }
}

void Qcn::advance(Time now) noexcept {
  while (now >= timer_) {
    ++timer_stage_;
    timer_ += timer_stage_ < kFastRecoveryCycles ? p_.timer_ns : std::max<Time>(1, p_.timer_ns / 2);
    increase();
  }
}

// A target that is far away comes nearer at the end of the first cycle: several notifications in a row leave it where
// it was before all of them.
void Qcn::increase() noexcept {
  constexpr double kFar = 10, kNearer = 8;
  const bool by_bytes = byte_stage_ > kFastRecoveryCycles, by_time = timer_stage_ > kFastRecoveryCycles;
  if ((byte_stage_ == 1 || timer_stage_ == 1) && target_ > kFar * rate_) {
    target_ /= kNearer;
  } else if (by_bytes && by_time) {
    target_ += static_cast<double>(p_.hyper_bps) * (std::min(byte_stage_, timer_stage_) - kFastRecoveryCycles);
  } else if (by_bytes || by_time) {
    target_ += static_cast<double>(p_.additive_bps);
  }
  target_ = std::min(line_, target_);
  rate_ = std::min(line_, (rate_ + target_) / 2);
  ++increases_;
  if (line_ - rate_ >= kNothing) return;
  rate_ = target_ = line_;
  timer_ = kNever;
}

}  // namespace weft::nic
