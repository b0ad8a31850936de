// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "bench/ndr/tally.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "switch/base/rng.h"

namespace weft::ndr {
namespace {

TEST(Tally, EveryFrameCountsOnceAndOrderIsThatOfAQueuePair) {
  Tally t(2);
  t.arrived(0, 0, 10);
  t.arrived(0, 4, 10);
  t.arrived(1, 1, 10);  // earlier, of another queue pair
  t.arrived(0, 2, 10);  // late
  t.arrived(0, 4, 10);  // again
  t.arrived(1, 1'000'003, 10);
  EXPECT_EQ(t.received(), 5u);
  EXPECT_EQ(t.duplicates(), 1u);
  EXPECT_EQ(t.reordered(), 1u);
  EXPECT_EQ(t.latency().total(), 5u);
}

TEST(Histogram, QuantilesAreRightToOnePartIn32) {
  Histogram h;
  Rng rng(5);
  std::vector<std::uint64_t> all;
  for (int i = 0; i < 20'000; ++i) {
    const std::uint64_t ns = rng.next() >> (24 + rng.next() % 40);
    all.push_back(ns);
    h.add(ns);
  }
  std::sort(all.begin(), all.end());
  for (const double share : {0.0, 0.1, 0.5, 0.9, 0.99, 0.999, 1.0}) {
    const std::uint64_t exact = all[static_cast<std::size_t>(share * static_cast<double>(all.size() - 1))];
    EXPECT_GE(h.quantile(share), exact) << share;
    EXPECT_LE(h.quantile(share), exact + exact / 32 + 1) << share;
  }
  EXPECT_EQ(h.largest(), all.back());
}

TEST(Histogram, HasNoQuantilesOfNothingAndTakesAnyTime) {
  Histogram h;
  EXPECT_EQ(h.quantile(0.5), 0u);
  h.add(~std::uint64_t{0});
  EXPECT_EQ(h.quantile(0.5), h.largest());
}

}  // namespace
}  // namespace weft::ndr
