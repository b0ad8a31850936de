// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// What came of the frames of a trial: which arrived, how often, in which order, and after how long.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "switch/base/time_buckets.h"

namespace weft::ndr {

/// Times by size, to one part in 32; those above 2^40 ns count as the longest of them.
class Histogram {
 public:
  void add(std::uint64_t ns) noexcept {
    ++counts_[Buckets::of(ns)];
    ++total_;
    if (ns > largest_) largest_ = ns;
  }
  /// The upper end of the bucket in which the given share of all times is reached; 0 when there are none.
  /// @param share  0 to 1
  [[nodiscard]] std::uint64_t quantile(double share) const noexcept {
    return Buckets::quantile([&](std::size_t bucket) { return counts_[bucket]; }, total_, share, largest_);
  }
  [[nodiscard]] std::uint64_t total() const noexcept { return total_; }
  [[nodiscard]] std::uint64_t largest() const noexcept { return largest_; }

 private:
  using Buckets = TimeBuckets<5, 40>;

  std::array<std::uint64_t, Buckets::kCount> counts_{};
  std::uint64_t total_ = 0, largest_ = 0;
};

/// One direction of a trial. Frames are numbered from 0 in the order in which they were sent.
class Tally {
 public:
  explicit Tally(std::uint32_t qps) : next_of_qp_(qps, 0) {}

  /// @param qp      index of the frame's queue pair, below the constructor's
  /// @param number  of the frame
  /// @param ns      since it was sent
  void arrived(std::uint32_t qp, std::uint64_t number, std::uint64_t ns) {
    const std::size_t word = static_cast<std::size_t>(number / 64);
    if (word >= seen_.size()) seen_.resize(word + word / 2 + 1024);
    const std::uint64_t bit = std::uint64_t{1} << number % 64;
    if ((seen_[word] & bit) != 0) {
      ++duplicates_;
      return;
    }
    seen_[word] |= bit;
    ++received_;
    // Of one queue pair, a later frame was here first.
    if (number < next_of_qp_[qp]) {
      ++reordered_;
    } else {
      next_of_qp_[qp] = number + 1;
    }
    latency_.add(ns);
  }

  [[nodiscard]] std::uint64_t received() const noexcept { return received_; }      ///< each frame once
  [[nodiscard]] std::uint64_t duplicates() const noexcept { return duplicates_; }  ///< further copies
  [[nodiscard]] std::uint64_t reordered() const noexcept { return reordered_; }
  [[nodiscard]] const Histogram& latency() const noexcept { return latency_; }

 private:
  std::vector<std::uint64_t> next_of_qp_;
  std::vector<std::uint64_t> seen_{};
  std::uint64_t received_ = 0, duplicates_ = 0, reordered_ = 0;
  Histogram latency_{};
};

}  // namespace weft::ndr
