// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Token bucket: protocol unit for policing and shaping (the single rate of RFC 2697 without colours).
#pragma once

#include <algorithm>
#include <cstdint>

#include "switch/base/time.h"

namespace weft {

/// Tokens come in at a fixed rate and fill a bucket of a fixed depth; a packet takes one token per byte.
///
/// Levels are kept in thousandths of a bit: a rate of r Mbit/s is exactly r of them per nanosecond, so that no step
/// size and no number of steps makes the rate drift. The bucket is full at first.
class TokenBucket {
 public:
  static constexpr std::uint64_t kMaxRateMbps = 10'000'000;
  static constexpr std::uint64_t kMaxBytes = std::uint64_t{1} << 40;

  /// @param rate_mbps    Mbit/s (10^6 bit/s), 1 to kMaxRateMbps
  /// @param burst_bytes  depth of the bucket, 1 to kMaxBytes
  constexpr TokenBucket(std::uint64_t rate_mbps, std::uint64_t burst_bytes) noexcept
      : rate_(static_cast<std::int64_t>(rate_mbps)), depth_(cost(burst_bytes)), level_(depth_) {}

  /// Policing: takes the tokens of a packet if they are there.
  constexpr bool try_take(TimeNs now, std::uint32_t bytes) noexcept {
    fill(now);
    if (level_ < cost(bytes)) return false;
    level_ -= cost(bytes);
    return true;
  }

  /// Shaping: takes the tokens even if they are not there yet.
  /// @return when they are, which is when the packet may leave: `now`, or later. Packets leave in the order of calls.
  constexpr TimeNs take(TimeNs now, std::uint32_t bytes) noexcept {
    fill(now);
    level_ -= cost(bytes);
    return level_ >= 0 ? now : updated_ + static_cast<TimeNs>((-level_ + rate_ - 1) / rate_);
  }

  /// Bytes that take() has promised and that have not left by `now`, rounded up.
  [[nodiscard]] constexpr std::uint64_t backlog_bytes(TimeNs now) noexcept {
    fill(now);
    return level_ >= 0 ? 0 : static_cast<std::uint64_t>((-level_ + kPerByte - 1) / kPerByte);
  }

  /// Bytes that may leave at once at `now`, rounded down.
  [[nodiscard]] constexpr std::uint64_t tokens_bytes(TimeNs now) noexcept {
    fill(now);
    return level_ <= 0 ? 0 : static_cast<std::uint64_t>(level_ / kPerByte);
  }

  friend constexpr bool operator==(const TokenBucket&, const TokenBucket&) noexcept = default;

 private:
  static constexpr std::int64_t kPerByte = 8 * 1000;
  static constexpr std::int64_t cost(std::uint64_t bytes) noexcept {
    return static_cast<std::int64_t>(bytes) * kPerByte;
  }

  constexpr void fill(TimeNs now) noexcept {
    if (now <= updated_) return;
    const TimeNs elapsed = now - updated_;
    updated_ = now;
    // Compared by division: the product of a long pause and the rate would overflow.
    if (elapsed > static_cast<TimeNs>((depth_ - level_) / rate_)) {
      level_ = depth_;
    } else {
      level_ += static_cast<std::int64_t>(elapsed) * rate_;
    }
  }

  std::int64_t rate_;
  std::int64_t depth_;
  std::int64_t level_;  ///< negative: promised to packets that wait
  TimeNs updated_ = 0;
};

}  // namespace weft
