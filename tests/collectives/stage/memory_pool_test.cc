// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "collectives/stage/memory_pool.h"

#include <gtest/gtest.h>

#include <vector>

#include "switch/base/rng.h"

namespace weft::inc {
namespace {

TEST(MemoryPool, RegionsDoNotOverlapAndComeBackWhole) {
  auto pool = std::make_shared<MemoryPool>(64 * 1024);
  Rng rng(3);
  std::vector<MemoryPool::Region> held;
  for (int step = 0; step < 5000; ++step) {
    if (!held.empty() && rng.below(2) == 0) {
      held.erase(held.begin() + static_cast<std::ptrdiff_t>(rng.below(held.size())));
    } else if (auto region = pool->allocate(1 + rng.below(5000))) {
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(region->data()) % 64, 0u);
      held.push_back(std::move(region));
    }
    std::size_t sum = 0;
    for (const auto& a : held) {
      sum += a->size();
      for (const auto& b : held) {
        ASSERT_TRUE(a == b || a->data() + a->size() <= b->data() || b->data() + b->size() <= a->data());
      }
    }
    ASSERT_EQ(pool->free_bytes(), pool->bytes() - sum);
  }
  held.clear();
  EXPECT_EQ(pool->largest_bytes(), 64u * 1024);
}

TEST(MemoryPool, WhatDoesNotFitIsRefusedAndTheRestStaysUsable) {
  auto pool = std::make_shared<MemoryPool>(256);
  const auto first = pool->allocate(65);
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(first->size(), 128u);
  EXPECT_EQ(pool->allocate(129), nullptr);
  EXPECT_NE(pool->allocate(128), nullptr);
}

TEST(MemoryPool, ARegionOutlivesThePoolsOwner) {
  auto pool = std::make_shared<MemoryPool>(128);
  const auto region = pool->allocate(128);
  pool.reset();
  region->front() = std::byte{1};
}

}  // namespace
}  // namespace weft::inc
