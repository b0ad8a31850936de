// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "nic/rnic/hpcc.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace weft::nic {
namespace {

constexpr std::uint32_t kHalfWrap = 1u << 15;

double speed_bps(std::uint8_t code) noexcept {
  return 1e6 * wire::kIntSpeedsMbps[code];
}

double slot_ns(std::uint8_t code) noexcept {
  return 8e9 * wire::kIntSlotBytes / speed_bps(code);
}

// The same ports in the same order, as far as their records tell.
bool same_path(const wire::IntPath& a, const wire::IntPath& b) noexcept {
  if (a.hops != b.hops || a.path != b.path) return false;
  for (unsigned i = 0; i < a.hops; ++i) {
    if (a.hop[i].speed != b.hop[i].speed) return false;
  }
  return true;
}

}  // namespace

Hpcc::Hpcc(const HpccParameters& parameters, std::uint64_t line_bps) noexcept
    : p_(parameters), line_(static_cast<double>(line_bps)) {
  if (p_.base_rtt_ns > 0) set_base(p_.base_rtt_ns);
}

// A window that was full stays full.
void Hpcc::set_base(Time base) noexcept {
  const double part = base_ == 0 ? 1 : window_ / bytes_in_base(line_);
  const double reference_part = base_ == 0 ? 1 : reference_ / bytes_in_base(line_);
  base_ = base;
  window_ = part * bytes_in_base(line_);
  reference_ = reference_part * bytes_in_base(line_);
}

void Hpcc::on_sent(Time, std::uint64_t wire_bytes) noexcept {
  packet_bytes_ = std::max(packet_bytes_, static_cast<double>(wire_bytes));
}

void Hpcc::on_rtt(Time rtt) noexcept {
  if (p_.base_rtt_ns == 0 && (base_ == 0 || rtt < base_)) set_base(rtt);
}

// U: the utilisation of the busiest port, an average over T. Of what nobody tells, a port is taken to be used as it
// should be, so that the window grows by its step alone: it is neither stuck low nor opened at once.
// @return false when there is nothing to compare with yet
bool Hpcc::measure(Time now, const wire::IntPath& path) noexcept {
  if (!has_last_ || !same_path(path, last_)) {
    has_last_ = true;
    last_ = path;
    last_at_ = now;
    return false;
  }
  double busiest = -1, tau = 0;
  for (unsigned i = 0; i < path.hops; ++i) {
    const wire::IntHop &hop = path.hop[i], &before = last_.hop[i];
    if (hop.speed == 0) continue;
    const double slot = slot_ns(hop.speed);
    const auto time = static_cast<std::uint16_t>(hop.time - before.time);
    const auto sent = static_cast<std::uint16_t>(hop.sent - before.sent);
    const bool wrapped = static_cast<double>(now - last_at_) >= slot * kHalfWrap;
    // Within the same slot, or overtaken by a later one: the next sample covers the time of both.
    if (!wrapped && (time == 0 || time >= kHalfWrap)) return false;
    const double queue_bits = 8.0 * wire::kIntQueueBytes * std::min(hop.queue, before.queue);
    const double queue = queue_bits * 1e9 / (speed_bps(hop.speed) * static_cast<double>(base_));
    const double used = queue + (wrapped ? p_.eta : static_cast<double>(sent) / time);
    if (used <= busiest) continue;
    busiest = used;
    tau = wrapped ? static_cast<double>(base_) : time * slot;
  }
  last_ = path;
  last_at_ = now;
  if (busiest < 0) {
    busiest = p_.eta;
    tau = static_cast<double>(base_);
  }
  const double weight = std::min(tau, static_cast<double>(base_)) / static_cast<double>(base_);
  u_ = (1 - weight) * u_ + weight * busiest;
  return true;
}

double Hpcc::compute(bool update) noexcept {
  const double step = bytes_in_base(static_cast<double>(p_.additive_bps));
  const bool multiplicative = u_ >= p_.eta || stage_ >= p_.max_stage;
  double window = multiplicative ? reference_ / (u_ / p_.eta) + step : reference_ + step;
  const double most = bytes_in_base(line_);
  window = std::clamp(window, std::min(bytes_in_base(static_cast<double>(p_.min_bps)), most), most);
  if (!update) return window;
  ++(window < reference_ ? cuts_ : increases_);
  stage_ = multiplicative ? 0 : stage_ + 1;
  reference_ = window;
  return window;
}

void Hpcc::on_telemetry(Time now, const wire::IntPath& path, std::uint64_t acknowledged, std::uint64_t next) noexcept {
  if (base_ == 0 || !measure(now, path)) return;
  const bool update = acknowledged > update_at_;
  window_ = compute(update);
  if (update) update_at_ = next;
}

double Hpcc::rate_bps(Time) const noexcept {
  return base_ == 0 ? line_ : std::min(line_, window_ * 8e9 / static_cast<double>(base_));
}

std::uint64_t Hpcc::window_packets() const noexcept {
  if (base_ == 0 || packet_bytes_ == 0 || p_.windowless) return std::numeric_limits<std::uint64_t>::max();
  // A packet may leave while less than the window is under way.
  return std::max<std::uint64_t>(1, static_cast<std::uint64_t>(std::ceil(window_ / packet_bytes_)));
}

}  // namespace weft::nic
