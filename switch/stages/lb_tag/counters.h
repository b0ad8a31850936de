// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "switch/base/counters.h"

namespace weft::stages {

/// Order of the counters of the `lb_tag` stage.
enum class LbTagCounter : std::uint8_t {
#define WEFT_COUNTER(name, unit, kind, text) name,
#include "switch/stages/lb_tag/counters.def"
#undef WEFT_COUNTER
  count_,
};

/// Of one instance of the stage.
class LbTagCounters {
 public:
  void add(LbTagCounter counter, std::uint64_t count = 1) noexcept {
    counters_[static_cast<std::size_t>(counter)].add(count);
  }
  /// Of a gauge.
  void set(LbTagCounter counter, std::uint64_t value) noexcept {
    Counter& gauge = counters_[static_cast<std::size_t>(counter)];
    gauge.add(value - gauge.value());
  }
  [[nodiscard]] std::span<const Counter> all() const noexcept { return counters_; }

 private:
  std::array<Counter, static_cast<std::size_t>(LbTagCounter::count_)> counters_;
};

}  // namespace weft::stages
