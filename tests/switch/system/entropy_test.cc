// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/system/entropy.h"

#include <gtest/gtest.h>

#include <set>

namespace weft {
namespace {

// Each fails by chance once in 2^64 / 500000 runs and once in 2^1000.
TEST(Entropy, NoTwoSeedsAreAlikeAndAllBitsAreUsed) {
  std::set<std::uint64_t> seeds;
  std::uint64_t ones = 0, zeros = 0;
  for (int i = 0; i < 1000; ++i) {
    const std::uint64_t seed = fresh_seed();
    seeds.insert(seed);
    ones |= seed;
    zeros |= ~seed;
  }
  EXPECT_EQ(seeds.size(), 1000u);
  EXPECT_EQ(ones & zeros, ~std::uint64_t{0});
}

}  // namespace
}  // namespace weft
