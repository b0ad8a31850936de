// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/base/timer_heap.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "switch/base/rng.h"
#include "switch/base/time.h"

namespace weft {
namespace {

TEST(TimerHeap, GivesObjectsInTheOrderOfTheirEarliestDeadline) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Rng rng(seed);
    TimerHeap<TimeNs, kNever> heap;
    heap.resize(50);
    std::map<std::uint32_t, TimeNs> expected;
    for (int i = 0; i < 2000; ++i) {
      if (rng.below(3) > 0) {
        const auto object = static_cast<std::uint32_t>(rng.below(50));
        const auto at = static_cast<TimeNs>(rng.below(1000));
        heap.arm(object, at);
        expected[object] = expected.contains(object) ? std::min(expected[object], at) : at;
        continue;
      }
      if (expected.empty()) {
        EXPECT_EQ(heap.next(), kNever);
        continue;
      }
      auto first = expected.begin();
      for (auto it = expected.begin(); it != expected.end(); ++it) {
        if (it->second < first->second) first = it;
      }
      ASSERT_EQ(heap.next(), first->second) << "seed " << seed;
      ASSERT_EQ(heap.pop(), first->first) << "seed " << seed;
      expected.erase(first);
    }
  }
}

TEST(TimerHeap, SetMovesAnObjectForwardAndBackAndTakesItOut) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Rng rng(seed);
    TimerHeap<TimeNs, kNever> heap;
    heap.resize(20);
    std::map<std::uint32_t, TimeNs> expected;
    for (int i = 0; i < 2000; ++i) {
      const auto object = static_cast<std::uint32_t>(rng.below(20));
      const auto at = static_cast<TimeNs>(rng.below(100));
      if (rng.below(4) == 0) {
        heap.set(object, kNever);
        expected.erase(object);
      } else {
        heap.set(object, at);
        expected[object] = at;
      }
      const auto first = std::min_element(expected.begin(), expected.end(),
                                          [](const auto& a, const auto& b) { return a.second < b.second; });
      ASSERT_EQ(heap.next(), first == expected.end() ? kNever : first->second) << "seed " << seed;
      if (rng.below(8) != 0 || expected.empty()) continue;
      ASSERT_EQ(heap.pop(), first->first) << "the lowest number of those with one time; seed " << seed;
      expected.erase(first);
    }
  }
}

}  // namespace
}  // namespace weft
