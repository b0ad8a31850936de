// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// What happened when, in a fixed number of equal intervals that grow with the time that is looked at.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "switch/base/time.h"

namespace weft::flow {

class Timeline {
 public:
  static constexpr std::size_t kIntervals = 256;

  /// @param values  amounts that are added together
  explicit Timeline(std::size_t values) : values_(values), amounts_(kIntervals * values, 0.0) {}

  /// Spreads amounts evenly over [from, to). Times need not be in order; nothing happens where from >= to.
  /// @param amounts  as many as `values`
  void add(TimeNs from, TimeNs to, std::span<const double> amounts);

  [[nodiscard]] TimeNs width() const noexcept { return width_; }
  /// Intervals that something was added to, or that come before such.
  [[nodiscard]] std::size_t used() const noexcept { return used_; }
  [[nodiscard]] double at(std::size_t interval, std::size_t value) const noexcept {
    return amounts_[interval * values_ + value];
  }

 private:
  void widen();

  std::size_t values_, used_ = 0;
  TimeNs width_ = 1 << 20;  ///< about a millisecond
  std::vector<double> amounts_;
};

}  // namespace weft::flow
