// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "tools/sim/crew.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

namespace weft::sim {
namespace {

TEST(Crew, DoesEveryPieceOnceInEveryRound) {
  for (const unsigned threads : {1u, 2u, 5u}) {
    Crew crew(threads);
    ASSERT_EQ(crew.threads(), threads);
    // Not atomic: a round ends before the next one begins.
    std::vector<int> done(37, 0);
    for (int round = 1; round <= 200; ++round) {
      const auto pieces = static_cast<std::uint32_t>(round % 38);
      std::fill(done.begin(), done.end(), 0);
      crew.run(pieces, [&](std::uint32_t i) { ++done[i]; });
      for (std::uint32_t i = 0; i < done.size(); ++i) ASSERT_EQ(done[i], i < pieces ? 1 : 0) << round;
    }
  }
}

TEST(Crew, SharesARoundAmongItsThreads) {
  Crew crew(3);
  std::mutex lock;
  std::set<std::thread::id> seen;
  crew.run(3, [&](std::uint32_t) {
    {
      const std::lock_guard guard(lock);
      seen.insert(std::this_thread::get_id());
    }
    // Nobody does a second piece while others sleep.
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  });
  EXPECT_GT(seen.size(), 1u);
}

// Who waited for long sleeps, and wakes up for the next round.
TEST(Crew, GoesOnAfterAPause) {
  Crew crew(2);
  int sum = 0;
  std::mutex lock;
  for (int round = 0; round < 5; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    crew.run(4, [&](std::uint32_t) {
      const std::lock_guard guard(lock);
      ++sum;
    });
  }
  EXPECT_EQ(sum, 20);
}

}  // namespace
}  // namespace weft::sim
