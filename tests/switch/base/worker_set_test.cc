// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/base/worker_set.h"

#include <gmock/gmock.h>

#include <vector>

namespace weft {
namespace {

std::vector<int> numbers(WorkerSet set) {
  std::vector<int> all;
  set.for_each([&](std::uint16_t worker) { all.push_back(worker); });
  return all;
}

TEST(WorkerSet, HasThoseThatWereAddedInOrder) {
  WorkerSet set;
  EXPECT_TRUE(set.empty());
  for (const int worker : {63, 5, 0, 5}) set.add(static_cast<std::uint16_t>(worker));
  EXPECT_FALSE(set.empty());
  EXPECT_THAT(numbers(set), ::testing::ElementsAre(0, 5, 63));
  EXPECT_TRUE(set.has(63));
  EXPECT_FALSE(set.has(62));
  WorkerSet more;
  more.add(7);
  set.add(more);
  EXPECT_THAT(numbers(set), ::testing::ElementsAre(0, 5, 7, 63));
}

TEST(WorkerSet, TheFirstWorkersAreAsManyAsSaid) {
  EXPECT_TRUE(WorkerSet::first(0).empty());
  EXPECT_THAT(numbers(WorkerSet::first(2)), ::testing::ElementsAre(0, 1));
  EXPECT_EQ(numbers(WorkerSet::first(WorkerSet::kMost)).size(), WorkerSet::kMost);
}

TEST(WorkerSet, WhatIsAddedWhileItIsGoneThroughComesLater) {
  WorkerSet set = WorkerSet::first(2);
  std::vector<int> seen;
  set.for_each([&](std::uint16_t worker) {
    seen.push_back(worker);
    set.add(9);
  });
  EXPECT_THAT(seen, ::testing::ElementsAre(0, 1));
  EXPECT_TRUE(set.has(9));
}

}  // namespace
}  // namespace weft
