// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#pragma once

#include <cstddef>
#include <cstdint>

#include "switch/base/counter_set.h"

namespace weft::stages {

/// Counters of the rdma_track stage, in the order in which it shows them. The sums over queue pairs (packets to cnps)
/// include those that have aged out, and do not saturate.
enum class TrackCounter : std::uint8_t {
#define WEFT_COUNTER(name, unit, kind, text) name,
#include "switch/stages/rdma_track/counters.def"
#undef WEFT_COUNTER
  count_,
};

/// One worker's counters.
class TrackCounters : public CounterSet<TrackCounter> {
 public:
  void subtract(TrackCounter c, std::uint64_t n = 1) noexcept { add(c, ~n + 1); }
  [[nodiscard]] std::uint64_t value(TrackCounter c) const noexcept {
    return all()[static_cast<std::size_t>(c)].value();
  }
};

}  // namespace weft::stages
