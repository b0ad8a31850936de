// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/base/time_buckets.h"

#include <gtest/gtest.h>

#include <map>

#include "switch/base/rng.h"

namespace weft {
namespace {

using Buckets = TimeBuckets<3, 36>;

TEST(TimeBuckets, EveryTimeIsInOneBucketWhoseWidthIsAnEighth) {
  std::uint64_t first = 0;
  for (std::size_t b = 0; b < Buckets::kCount; ++b) {
    const std::uint64_t last = Buckets::upper(b);
    ASSERT_EQ(Buckets::of(first), b);
    ASSERT_EQ(Buckets::of(last), b);
    ASSERT_LE((last - first) * 8, first);
    first = last + 1;
  }
  EXPECT_EQ(first, std::uint64_t{1} << 36);
  EXPECT_EQ(Buckets::of(first), Buckets::kCount - 1);
  EXPECT_EQ(Buckets::of(~std::uint64_t{0}), Buckets::kCount - 1);
}

TEST(TimeBuckets, AQuantileIsTheUpperEndOfItsBucket) {
  std::map<std::size_t, std::uint64_t> counts;
  Rng rng(5);
  std::vector<std::uint64_t> times;
  for (int i = 0; i < 1001; ++i) {
    times.push_back(rng.below(1'000'000));
    ++counts[Buckets::of(times.back())];
  }
  std::sort(times.begin(), times.end());
  for (const auto& [share, place] : std::map<double, std::size_t>{{0, 0}, {0.5, 500}, {0.99, 990}, {1, 1000}}) {
    const std::uint64_t found =
        Buckets::quantile([&](std::size_t b) { return counts[b]; }, times.size(), share, times.back());
    EXPECT_GE(found, times[place]);
    EXPECT_LE(found, times[place] + times[place] / 8);
    EXPECT_LE(found, times.back());
  }
  EXPECT_EQ(Buckets::quantile([](std::size_t) { return 0; }, 0, 0.5, 7), 0u);
}

}  // namespace
}  // namespace weft
