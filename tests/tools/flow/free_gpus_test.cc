// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "tools/flow/free_gpus.h"

#include <gtest/gtest.h>

#include <set>

namespace weft::flow {
namespace {

TEST(FreeGpus, PackedJobsGetTheFirstWholeServers) {
  FreeGpus free(32, 8, Placement::packed, 1);
  const auto first = free.take(16);
  ASSERT_TRUE(first);
  EXPECT_EQ(first->front(), 0u);
  EXPECT_EQ(first->back(), 15u);
  EXPECT_EQ(free.take(17), std::nullopt);
  EXPECT_EQ(free.free(), 16u);
  free.give_back(*first);
  EXPECT_EQ(free.take(32)->size(), 32u);
}

TEST(FreeGpus, WhatIsLeftOverGoesWhereTheLeastIsLeft) {
  FreeGpus free(24, 8, Placement::packed, 1);
  EXPECT_EQ(*free.take(3), (std::vector<Gpu>{0, 1, 2}));
  EXPECT_EQ(*free.take(5), (std::vector<Gpu>{3, 4, 5, 6, 7}));
  EXPECT_EQ(free.take(10)->back(), 17u);
  EXPECT_EQ(*free.take(6), (std::vector<Gpu>{18, 19, 20, 21, 22, 23}));
  EXPECT_EQ(free.take(1), std::nullopt);
}

TEST(FreeGpus, RandomOnesDependOnTheSeedAlone) {
  const auto taken = [](std::uint64_t seed) {
    FreeGpus free(1024, 8, Placement::random, seed);
    std::set<Gpu> all;
    std::vector<Gpu> order;
    while (const auto gpus = free.take(64)) {
      all.insert(gpus->begin(), gpus->end());
      order.insert(order.end(), gpus->begin(), gpus->end());
    }
    EXPECT_EQ(all.size(), 1024u);
    return order;
  };
  EXPECT_EQ(taken(1), taken(1));
  EXPECT_NE(taken(1), taken(2));
}

}  // namespace
}  // namespace weft::flow
