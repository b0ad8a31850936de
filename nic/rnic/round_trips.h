// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// What round trips take, and how long a sender waits for an answer therefore (RFC 6298).
#pragma once

#include <algorithm>
#include <cstdint>

#include "nic/rnic/config.h"

namespace weft::nic {

/// Measures one packet at a time, which was sent once: an acknowledgement of what was sent twice says nothing of the
/// round trip. So the timeout stays doubled until there is one of a packet that was sent once (Karn): without that, a
/// network whose round trips are longer than the first timeout would carry everything twice.
class RoundTrips {
 public:
  /// Packet `sequence` leaves for the first time, and asks for an answer. Nothing, if another one is being measured.
  void sent(std::uint64_t sequence, Time now) noexcept {
    if (probing_) return;
    probing_ = true;
    probe_ = sequence;
    probe_time_ = now;
  }
  /// All packets before `end` are acknowledged. The measured packet's round trip if it is among them, or -1.
  Time acknowledged(std::uint64_t end, Time now) noexcept {
    if (!probing_ || end <= probe_) return -1;
    probing_ = false;
    return now - probe_time_;
  }
  /// Takes a round trip into the mean and its variation (RFC 6298, section 2).
  void take(Time rtt) noexcept {
    expiries_ = 0;
    if (smoothed_ == 0) {
      smoothed_ = rtt;
      variation_ = rtt / 2;
      return;
    }
    const Time difference = smoothed_ > rtt ? smoothed_ - rtt : rtt - smoothed_;
    variation_ += (difference - variation_) / 4;
    smoothed_ += (rtt - smoothed_) / 8;
  }
  /// No answer has come in time: packets are sent again, the measured one too.
  void expired() noexcept {
    probing_ = false;
    ++expiries_;
  }
  /// From `low` on, doubled by each expiry, up to `high`.
  [[nodiscard]] Time timeout(Time low, Time high) const noexcept {
    constexpr std::uint32_t kMost = 16;
    return std::min(high, std::max(low, smoothed_ + 4 * variation_) << std::min(expiries_, kMost));
  }
  /// Feeds all that decides; sequences as what is left of them behind `una`, times as what has passed at `now`.
  template <class Hash>
  void hash_state(Hash&& h, std::uint64_t una, Time now) const {
    h(std::uint64_t{expiries_});
    h(static_cast<std::uint64_t>(smoothed_));
    h(static_cast<std::uint64_t>(variation_));
    h(probing_ ? probe_ - una + 1 : 0);
    if (probing_) h(static_cast<std::uint64_t>(now - probe_time_));
  }
  friend bool operator==(const RoundTrips&, const RoundTrips&) = default;

 private:
  bool probing_ = false;
  std::uint32_t expiries_ = 0;  ///< since the last round trip was taken
  std::uint64_t probe_ = 0;
  Time probe_time_ = 0;
  Time smoothed_ = 0, variation_ = 0;  ///< 0: not known yet
};

}  // namespace weft::nic
