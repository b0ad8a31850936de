// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#pragma once

#include <cstddef>
#include <cstdint>

#include "switch/base/counter_set.h"

namespace weft {

/// A counter, and what it follows in the counts of a unit, which know no counters.
template <typename Name, typename Counts>
struct Follows {
  Name counter;
  std::uint64_t Counts::*value;
};

/// Adds to counters what a unit has counted since it was asked last.
/// @param before  its counts at that time; becomes `now`
template <typename Name, typename Counts, std::size_t n>
void add_news(CounterSet<Name>& counters, const Follows<Name, Counts> (&follow)[n], const Counts& now,
              Counts& before) noexcept {
  for (const Follows<Name, Counts>& one : follow) {
    const std::uint64_t news = now.*one.value - before.*one.value;
    if (news != 0) counters.add(one.counter, news);
  }
  before = now;
}

}  // namespace weft
