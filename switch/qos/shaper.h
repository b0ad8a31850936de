// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#pragma once

#include <cstdint>

#include "switch/qos/types.h"

namespace weft::qos {

/// Limits a rate: a token bucket, kept as the time at which it is full again, so that nothing is divided. A packet may
/// go while the bucket is not empty, and may overdraw it by its length less one.
class Shaper {
 public:
  /// Smallest rate: below it the time of a large frame would not fit.
  static constexpr std::uint64_t kMinBytesPerSecond = 1000;

  Shaper() = default;
  /// @param bytes_s  0: no limit
  /// @param burst_bytes  size of the bucket
  Shaper(std::uint64_t bytes_s, std::uint64_t burst_bytes) noexcept {
    if (bytes_s == 0) return;
    ns_per_byte_ = (std::uint64_t{1'000'000'000} << 24) / bytes_s;
    burst_ns_ = static_cast<std::uint64_t>(static_cast<unsigned __int128>(burst_bytes) * ns_per_byte_ >> 24);
  }

  [[nodiscard]] bool limited() const noexcept { return ns_per_byte_ != 0; }
  [[nodiscard]] bool open(TimeNs now) const noexcept { return full_at_ <= now + burst_ns_; }
  /// When it is open next; 0 while it has no limit.
  [[nodiscard]] TimeNs opens_at() const noexcept { return full_at_ <= burst_ns_ ? 0 : full_at_ - burst_ns_; }
  void sent(TimeNs now, std::uint64_t bytes) noexcept {
    if (!limited()) return;
    if (full_at_ < now) {
      full_at_ = now;
      fraction_ = 0;
    }
    const auto cost = static_cast<unsigned __int128>(bytes) * ns_per_byte_ + fraction_;
    full_at_ += static_cast<std::uint64_t>(cost >> 24);
    fraction_ = static_cast<std::uint32_t>(cost) & 0xffffff;
  }

 private:
  std::uint64_t ns_per_byte_ = 0;  ///< in 2^-24 ns
  std::uint64_t burst_ns_ = 0;
  TimeNs full_at_ = 0;
  std::uint32_t fraction_ = 0;
};

}  // namespace weft::qos
