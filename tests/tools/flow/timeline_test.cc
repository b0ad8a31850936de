// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "tools/flow/timeline.h"

#include <gtest/gtest.h>

#include <array>

#include "switch/base/rng.h"

namespace weft::flow {
namespace {

TEST(Timeline, SpreadsWhatIsAddedOverItsTime) {
  Timeline t(2);
  const TimeNs w = t.width();
  t.add(w / 2, 2 * w + w / 2, std::array{4.0, 8.0});
  ASSERT_EQ(t.used(), 3u);
  EXPECT_DOUBLE_EQ(t.at(0, 0), 1);
  EXPECT_DOUBLE_EQ(t.at(1, 0), 2);
  EXPECT_DOUBLE_EQ(t.at(2, 0), 1);
  EXPECT_DOUBLE_EQ(t.at(1, 1), 4);
  t.add(5, 5, std::array{1.0, 1.0});
  EXPECT_DOUBLE_EQ(t.at(0, 0), 1);
}

TEST(Timeline, GrowsAndLosesNothing) {
  Timeline t(1);
  Rng rng(1);
  double all = 0;
  for (int i = 0; i < 10'000; ++i) {
    const TimeNs from = rng.below(1ull << (20 + i / 500));
    const double amount = static_cast<double>(rng.below(100));
    t.add(from, from + 1 + rng.below(1 << 24), std::array{amount});
    all += amount;
  }
  double sum = 0;
  for (std::size_t i = 0; i < Timeline::kIntervals; ++i) sum += t.at(i, 0);
  EXPECT_NEAR(sum, all, 1e-6 * all);
  EXPECT_GT(t.width(), 1u << 20);
  EXPECT_LE(t.used(), Timeline::kIntervals);
}

TEST(Timeline, AnIntervalKeepsItsPlaceWhenTimeGoesOn) {
  Timeline t(1);
  const TimeNs w = t.width();
  t.add(10 * w, 11 * w, std::array{1.0});
  t.add(600 * w, 601 * w, std::array{1.0});
  EXPECT_EQ(t.width(), 4 * w);
  EXPECT_DOUBLE_EQ(t.at(2, 0), 1);
  EXPECT_DOUBLE_EQ(t.at(150, 0), 1);
  EXPECT_EQ(t.used(), 151u);
}

}  // namespace
}  // namespace weft::flow
