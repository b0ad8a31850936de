// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "switch/base/counters.h"

namespace weft {

/// Counters and gauges that are named by an enumeration, whose last value is `count_`.
template <typename Name>
class CounterSet {
 public:
  void add(Name name, std::uint64_t n = 1) noexcept { (*this)[name].add(n); }
  /// Of a gauge, which unlike a counter may fall.
  void set(Name name, std::uint64_t value) noexcept {
    Counter& gauge = (*this)[name];
    gauge.add(value - gauge.value());
  }
  [[nodiscard]] Counter& operator[](Name name) noexcept { return counters_[static_cast<std::size_t>(name)]; }
  /// In the order of the enumeration.
  [[nodiscard]] std::span<const Counter> all() const noexcept { return counters_; }

 private:
  std::array<Counter, static_cast<std::size_t>(Name::count_)> counters_;
};

}  // namespace weft
