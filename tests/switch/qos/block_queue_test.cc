// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/qos/block_queue.h"

#include <gtest/gtest.h>

#include <deque>
#include <vector>

#include "switch/base/rng.h"

namespace weft::qos {
namespace {

TEST(BlockQueue, QueuesBehaveAsDequesUntilTheirStockIsUsedUp) {
  constexpr std::size_t kQueues = 5;
  constexpr std::size_t kItems = 1000;
  const std::uint64_t seed = 7;
  SCOPED_TRACE(seed);
  Rng rng(seed);
  BlockPool<int> pool(BlockPool<int>::blocks_for(kItems, kQueues));
  std::vector<BlockQueue<int>> queues(kQueues);
  std::vector<std::deque<int>> model(kQueues);
  std::size_t inside = 0;
  for (int i = 0; i < 300'000; ++i) {
    const std::size_t q = rng.below(kQueues);
    // Fills and drains in turn.
    const bool fill = rng.below(100) < (i / 5000 % 2 == 0 ? 70u : 30u);
    if (fill && inside < kItems) {
      ASSERT_TRUE(queues[q].push(pool, i));
      model[q].push_back(i);
      ++inside;
    } else if (!fill && !model[q].empty()) {
      ASSERT_EQ(queues[q].front(), model[q].front());
      ASSERT_EQ(queues[q].pop(pool), model[q].front());
      model[q].pop_front();
      --inside;
    }
    ASSERT_EQ(queues[q].size(), model[q].size());
  }
  for (std::size_t q = 0; q < kQueues; ++q) {
    std::deque<int> seen;
    queues[q].for_each([&](int& v) { seen.push_back(v); });
    EXPECT_EQ(seen, model[q]);
  }
}

TEST(BlockQueue, PushFailsWhenNoBlockIsLeftAndWorksAgainAfterwards) {
  BlockPool<int> pool(1);
  BlockQueue<int> queue;
  int pushed = 0;
  while (queue.push(pool, pushed)) ++pushed;
  EXPECT_EQ(pushed, static_cast<int>(BlockPool<int>::kItems));
  for (int i = 0; i < pushed; ++i) EXPECT_EQ(queue.pop(pool), i);
  EXPECT_TRUE(queue.push(pool, 1));
}

}  // namespace
}  // namespace weft::qos
