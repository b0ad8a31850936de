// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/stages/impair/hold_queue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "switch/base/rng.h"

namespace weft::stages {
namespace {

TEST(HoldQueue, GivesItemsBackInTheOrderOfTheirTimes) {
  HoldQueue<int> queue(8);
  for (const int at : {5, 1, 4, 2, 3}) ASSERT_TRUE(queue.push(static_cast<TimeNs>(at), at));
  for (const int at : {1, 2, 3, 4, 5}) {
    EXPECT_EQ(queue.next(), static_cast<TimeNs>(at));
    EXPECT_EQ(queue.pop(), at);
  }
  EXPECT_TRUE(queue.empty());
}

TEST(HoldQueue, HasNoDeadlineWhenEmpty) {
  EXPECT_EQ(HoldQueue<int>(1).next(), kNever);
}

TEST(HoldQueue, RefusesMoreThanItsCapacity) {
  HoldQueue<int> queue(2);
  EXPECT_TRUE(queue.push(1, 1));
  EXPECT_TRUE(queue.push(1, 2));
  EXPECT_FALSE(queue.push(0, 3));
  EXPECT_EQ(queue.size(), 2u);
  EXPECT_EQ(queue.pop(), 1);
  EXPECT_TRUE(queue.push(1, 4));
}

TEST(HoldQueue, EqualTimesKeepTheOrderOfArrivalAsAStableSortDoes) {
  for (const std::uint64_t seed : {11, 12, 13, 14}) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Rng rng(seed);
    HoldQueue<int> queue(2000);
    std::vector<std::pair<TimeNs, int>> expected;
    for (int i = 0; i < 2000; ++i) {
      const TimeNs at = rng.below(40);
      expected.emplace_back(at, i);
      ASSERT_TRUE(queue.push(at, i));
    }
    std::stable_sort(expected.begin(), expected.end(), [](auto& a, auto& b) { return a.first < b.first; });
    for (const auto& [at, item] : expected) {
      ASSERT_EQ(queue.next(), at);
      ASSERT_EQ(queue.pop(), item);
    }
  }
}

}  // namespace
}  // namespace weft::stages
