// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "nic/rnic/swift.h"

#include <algorithm>
#include <cmath>

namespace weft::nic {

// The paper's alpha and beta of flow scaling: windows of fs_min_cwnd add fs_range, those of fs_max_cwnd nothing.
Swift::Swift(const SwiftParameters& parameters, std::uint64_t line_bps, std::uint32_t mtu) noexcept
    : p_(parameters),
      line_(static_cast<double>(line_bps)),
      mtu_(mtu),
      packet_bits_(8.0 * mtu),
      fs_alpha_(static_cast<double>(p_.fs_range_ns) / (1 / std::sqrt(p_.fs_min_cwnd) - 1 / std::sqrt(p_.fs_max_cwnd))),
      fs_beta_(-fs_alpha_ / std::sqrt(p_.fs_max_cwnd)) {}

double Swift::target_ns(double cwnd) const noexcept {
  const double scaling = fs_alpha_ / std::sqrt(cwnd) + fs_beta_;
  return static_cast<double>(p_.base_target_ns) + std::clamp(scaling, 0.0, static_cast<double>(p_.fs_range_ns));
}

double Swift::line_cwnd() const noexcept {
  return line_ * 1e-9 * static_cast<double>(rtt_) / packet_bits_;
}

double Swift::rate_bps(Time) const noexcept {
  return rtt_ == 0 ? line_ : std::min(line_, cwnd_ * packet_bits_ * 1e9 / static_cast<double>(rtt_));
}

void Swift::on_sent(Time, std::uint64_t wire_bytes) noexcept {
  packet_bits_ = std::max(packet_bits_, 8.0 * static_cast<double>(wire_bytes));
}

// A window beyond what the line carries would have to be taken back before a decrease showed.
void Swift::limit() noexcept {
  cwnd_ = std::clamp(cwnd_, p_.min_cwnd, std::max(p_.min_cwnd, line_cwnd()));
}

void Swift::decrease(Time now, double factor) noexcept {
  cwnd_ *= factor;
  limit();
  decreased_at_ = now;
  ++cuts_;
}

void Swift::on_ack(Time now, std::uint64_t acked_bytes, Time rtt) noexcept {
  if (acked_bytes > 0) timeouts_ = 0;
  if (rtt > 0) {
    if (rtt_ == 0) cwnd_ = line_ * 1e-9 * static_cast<double>(rtt) / packet_bits_;  // goes on as it began
    rtt_ = rtt;
    limit();
  }
  if (rtt_ == 0) return;
  const double target = target_ns(cwnd_), delay = static_cast<double>(rtt_);
  if (delay < target) {
    const double packets = static_cast<double>(acked_bytes) / mtu_;
    cwnd_ += p_.ai * packets / std::max(1.0, cwnd_);
    limit();
    ++increases_;
  } else if (rtt > 0 && may_decrease(now)) {
    decrease(now, std::max(1 - p_.beta * (delay - target) / delay, 1 - p_.max_mdf));
  }
}

void Swift::on_nack(Time now) noexcept {
  if (rtt_ > 0 && may_decrease(now)) decrease(now, 1 - p_.max_mdf);
}

void Swift::on_timeout(Time now) noexcept {
  ++timeouts_;
  if (rtt_ == 0) return;
  if (timeouts_ >= p_.reset_after) {
    decrease(now, 0);
  } else if (may_decrease(now)) {
    decrease(now, 1 - p_.max_mdf);
  }
}

}  // namespace weft::nic
