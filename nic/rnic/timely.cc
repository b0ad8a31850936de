// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "nic/rnic/timely.h"

#include <algorithm>

namespace weft::nic {

Timely::Timely(const TimelyParameters& parameters, std::uint64_t line_bps) noexcept
    : p_(parameters), line_(static_cast<double>(line_bps)), rate_(line_) {}

void Timely::increase(double steps) noexcept {
  rate_ = std::min(line_, rate_ + steps * static_cast<double>(p_.delta_bps));
  ++increases_;
}

// A steep gradient times beta is more than 1: the paper's formula would give a negative rate.
void Timely::decrease(double factor) noexcept {
  rate_ = std::max(std::min(line_, static_cast<double>(p_.min_bps)), rate_ * std::max(0.0, factor));
  calm_ = 0;
  ++cuts_;
}

void Timely::on_rtt(Time rtt) noexcept {
  const Time last = last_rtt_;
  last_rtt_ = rtt;
  if (p_.above_base) base_ = last == 0 ? rtt : std::min(base_, rtt);
  if (last == 0) return;
  const Time low = base_ + p_.t_low_ns, high = base_ + p_.t_high_ns;
  rtt_diff_ = (1 - p_.ewma) * rtt_diff_ + p_.ewma * static_cast<double>(rtt - last);
  if (rtt < low) return increase(1);
  if (rtt > high) {
    return decrease(1 - p_.beta * (1 - static_cast<double>(high) / static_cast<double>(rtt)));
  }
  if (gradient() > 0) return decrease(1 - p_.beta * gradient());
  calm_ = std::min(calm_ + 1, p_.hai_events);
  increase(calm_ >= p_.hai_events ? p_.hai_factor : 1);
}

}  // namespace weft::nic
