// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace weft {

/// Buckets of a histogram of times, to one part in 2^kFine: below 2^kFine ns each nanosecond has its own, above that
/// each power of two has 2^kFine of equal width. Times of 2^kLargestBits ns and more are in the last one.
template <unsigned kFine, unsigned kLargestBits>
struct TimeBuckets {
  static constexpr std::size_t kCount = std::size_t{kLargestBits - kFine + 1} << kFine;

  [[nodiscard]] static constexpr std::size_t of(std::uint64_t ns) noexcept {
    if (ns < 1u << kFine) return static_cast<std::size_t>(ns);
    const auto bits = static_cast<unsigned>(std::bit_width(ns));
    if (bits > kLargestBits) return kCount - 1;
    const unsigned shift = bits - kFine - 1;
    return (std::size_t{shift + 1} << kFine) + static_cast<std::size_t>((ns >> shift) & ((1u << kFine) - 1));
  }
  /// The longest time of a bucket, in ns.
  [[nodiscard]] static constexpr std::uint64_t upper(std::size_t bucket) noexcept {
    if (bucket < 1u << kFine) return bucket;
    const std::size_t shift = (bucket >> kFine) - 1;
    return (((std::uint64_t{1} << kFine) | (bucket & ((1u << kFine) - 1))) << shift) + (std::uint64_t{1} << shift) - 1;
  }
  /// The upper end of the bucket in which a share of all times is reached; 0 when there are none.
  /// @param count_of  times in a bucket
  /// @param total     times in all of them
  /// @param share     0 to 1
  /// @param largest   of all times
  template <typename CountOf>
  [[nodiscard]] static std::uint64_t quantile(CountOf&& count_of, std::uint64_t total, double share,
                                              std::uint64_t largest) {
    if (total == 0) return 0;
    auto left = static_cast<std::uint64_t>(share * static_cast<double>(total - 1));
    for (std::size_t b = 0; b < kCount; ++b) {
      const std::uint64_t here = count_of(b);
      if (left < here) return b + 1 == kCount ? largest : std::min(upper(b), largest);
      left -= here;
    }
    return largest;
  }
};

}  // namespace weft
