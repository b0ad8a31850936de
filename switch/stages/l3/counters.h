// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "switch/base/counters.h"

namespace weft::stages {

/// Order of the counters of the `l3` stage.
enum class L3Counter : std::uint8_t {
#define WEFT_COUNTER(name, unit, kind, text) name,
#include "switch/stages/l3/counters.def"
#undef WEFT_COUNTER
  count_,
};

/// One worker's counters.
class L3Counters {
 public:
  void add(L3Counter counter) noexcept { counters_[static_cast<std::size_t>(counter)].add(1); }
  [[nodiscard]] std::span<const Counter> all() const noexcept { return counters_; }

 private:
  std::array<Counter, static_cast<std::size_t>(L3Counter::count_)> counters_;
};

}  // namespace weft::stages
