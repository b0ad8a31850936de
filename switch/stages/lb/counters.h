// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "switch/base/counters.h"

namespace weft::stages {

/// Order of the counters of the `lb` stage.
enum class LbCounter : std::uint8_t {
#define WEFT_COUNTER(name, unit, kind, text) name,
#include "switch/stages/lb/counters.def"
#undef WEFT_COUNTER
  count_,
};

/// Of one instance of the stage.
class LbCounters {
 public:
  void add(LbCounter counter, std::uint64_t count = 1) noexcept {
    counters_[static_cast<std::size_t>(counter)].add(count);
  }
  [[nodiscard]] std::span<const Counter> all() const noexcept { return counters_; }

 private:
  std::array<Counter, static_cast<std::size_t>(LbCounter::count_)> counters_;
};

}  // namespace weft::stages
