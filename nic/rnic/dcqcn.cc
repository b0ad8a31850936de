// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "nic/rnic/dcqcn.h"

#include <algorithm>

namespace weft::nic {
namespace {

/// base^n by squaring: a sequence of multiplications that is the same everywhere.
double power(double base, std::uint64_t n) noexcept {
  double result = 1.0;
  for (; n > 0; n >>= 1, base *= base) {
    if ((n & 1) != 0) result *= base;
  }
  return result;
}

/// Increases after which both rates are the line's for certain, from whatever they were.
constexpr std::uint32_t kMaxStage = 1u << 20;

}  // namespace

Dcqcn::Dcqcn(const DcqcnParameters& parameters, std::uint64_t line_bps) noexcept
    : p_(parameters),
      line_(static_cast<double>(line_bps)),
      rate_(line_),
      target_(line_),
      alpha_(parameters.initial_alpha) {}

void Dcqcn::on_cnp(Time now) noexcept {
  ++cnps_;
  advance(now);
  if (started_) advance_alpha(now);  // intervals that are over have not seen this CNP
  cut_pending_ = alpha_cnp_ = true;
  if (started_) return;
  started_ = true;
  alpha_cnp_ = false;
  alpha_ = p_.initial_alpha;
  start_ = alpha_done_ = now;
  checked_ = now + 1;  // one nanosecond behind alpha, so that a cut sees the newest alpha
  rate_ = target_ = std::max(static_cast<double>(p_.min_bps), rate_ * p_.rate_on_first_cnp);
}

/// Alpha decays once per interval; an interval with a CNP lifts it.
void Dcqcn::advance_alpha(Time until) noexcept {
  const Time slots = (until - alpha_done_) / p_.alpha_interval_ns;
  if (slots <= 0) return;
  alpha_done_ += slots * p_.alpha_interval_ns;
  std::uint64_t decays = static_cast<std::uint64_t>(slots);
  if (alpha_cnp_) {
    alpha_ = (1 - p_.g) * alpha_ + p_.g;
    alpha_cnp_ = false;
    --decays;
  }
  alpha_ *= power(1 - p_.g, decays);
}

double Dcqcn::alpha(Time now) noexcept {
  advance(now);
  if (started_) advance_alpha(now);
  return alpha_;
}

Time Dcqcn::next_check() const noexcept {
  return cut_pending_ ? checked_ + p_.decrease_interval_ns : kNever;
}

void Dcqcn::cut(Time at) noexcept {
  advance_alpha(at);
  if (p_.clamp_target || timer_stage_ != 0 || byte_stage_ != 0) target_ = rate_;
  rate_ = std::max(static_cast<double>(p_.min_bps), rate_ * (1 - alpha_ / 2));
  rate_ = std::min(rate_, line_);
  timer_stage_ = byte_stage_ = 0;
  bytes_ = 0;
  cut_pending_ = false;
  timer_ = at + p_.increase_interval_ns;
  ++cuts_;
}

/// Fast recovery, additive and hyper increase, by how often the timer and the byte counter have come round.
void Dcqcn::increase() noexcept {
  const std::uint32_t f = p_.fast_recovery_steps;
  const bool counter = p_.increase_bytes != 0;
  const std::uint32_t most = std::max(timer_stage_, byte_stage_);
  const std::uint32_t least = counter ? std::min(timer_stage_, byte_stage_) : timer_stage_;
  if (most >= f) {
    const bool hyper = counter ? least > f : timer_stage_ > f;
    target_ = std::min(line_, target_ + static_cast<double>(hyper ? p_.hyper_bps : p_.additive_bps));
  }
  rate_ = std::min(line_, (rate_ + target_) / 2);
  ++increases_;
}

void Dcqcn::on_sent(Time now, std::uint64_t bytes) noexcept {
  if (p_.increase_bytes == 0 || !started_) return;
  advance(now);  // the first cut may be due
  if (timer_ == kNever) return;
  bytes_ += bytes;
  while (bytes_ >= p_.increase_bytes) {
    bytes_ -= p_.increase_bytes;
    increase();
    byte_stage_ = std::min(byte_stage_ + 1, kMaxStage);
  }
}

void Dcqcn::advance(Time now) noexcept {
  if (!started_) return;
  while (true) {
    // Checks without a CNP change nothing but must keep their phase.
    if (!cut_pending_) {
      const Time passed = std::min(now, timer_) - checked_;
      if (passed >= p_.decrease_interval_ns) {
        checked_ += passed / p_.decrease_interval_ns * p_.decrease_interval_ns;
      }
    }
    const Time check = next_check();
    if (std::min(check, timer_) > now) return;
    if (check <= timer_) {
      cut(check);
      checked_ = check;
      continue;
    }
    if (rate_ >= line_ && target_ >= line_) {
      // Nothing left to gain; only the phase and the stage go on.
      const Time stop = std::min(check, now);
      const auto times = static_cast<std::uint64_t>((stop - timer_) / p_.increase_interval_ns) + 1;
      timer_stage_ = static_cast<std::uint32_t>(std::min<std::uint64_t>(timer_stage_ + times, kMaxStage));
      timer_ += static_cast<Time>(times) * p_.increase_interval_ns;
      continue;
    }
    increase();
    timer_stage_ = std::min(timer_stage_ + 1, kMaxStage);
    timer_ += p_.increase_interval_ns;
  }
}

}  // namespace weft::nic
