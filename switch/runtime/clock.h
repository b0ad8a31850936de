// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#pragma once

#include <rte_cycles.h>

#include <cstdint>

#include "switch/base/time.h"

namespace weft {

/// The time of a switch process: nanoseconds by the TSC, which all cores share. Starts at one second, so that "never
/// seen" timestamps of 0 are old.
class Clock {
 public:
  Clock()
      : base_(rte_rdtsc()),
        multiplier_(static_cast<std::uint64_t>((1e9 * 4294967296.0) / static_cast<double>(rte_get_tsc_hz()))) {}

  [[nodiscard]] TimeNs now() const noexcept { return at(rte_rdtsc()); }
  /// The time at which the cycle counter was `tsc`, which is not before construction.
  [[nodiscard]] TimeNs at(std::uint64_t tsc) const noexcept {
    const unsigned __int128 scaled = static_cast<unsigned __int128>(tsc - base_) * multiplier_;
    return kStart + static_cast<TimeNs>(scaled >> 32);
  }
  static constexpr TimeNs kStart = 1'000'000'000;

 private:
  std::uint64_t base_;
  std::uint64_t multiplier_;  // nanoseconds per cycle, 32 fractional bits
};

}  // namespace weft
