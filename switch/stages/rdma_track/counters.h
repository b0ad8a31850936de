// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "switch/base/counters.h"

namespace weft::stages {

/// Counters of the rdma_track stage, in the order in which it shows them. The sums over queue pairs (packets to cnps)
/// include those that have aged out, and do not saturate.
enum class TrackCounter : std::uint8_t {
#define WEFT_COUNTER(name, unit, kind, text) name,
#include "switch/stages/rdma_track/counters.def"
#undef WEFT_COUNTER
  count_,
};

inline constexpr std::size_t kTrackCounters = static_cast<std::size_t>(TrackCounter::count_);

/// One worker's counters.
class TrackCounters {
 public:
  void add(TrackCounter c, std::uint64_t n = 1) noexcept { values_[static_cast<std::size_t>(c)].add(n); }
  void subtract(TrackCounter c, std::uint64_t n = 1) noexcept { add(c, ~n + 1); }
  [[nodiscard]] std::uint64_t value(TrackCounter c) const noexcept {
    return values_[static_cast<std::size_t>(c)].value();
  }
  [[nodiscard]] const std::array<Counter, kTrackCounters>& all() const noexcept { return values_; }

 private:
  std::array<Counter, kTrackCounters> values_;
};

}  // namespace weft::stages
