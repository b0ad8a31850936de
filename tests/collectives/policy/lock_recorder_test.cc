// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "collectives/policy/lock_recorder.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <vector>

#include "switch/base/rng.h"

namespace weft::inc::policy {
namespace {

TEST(LockRecorder, TheFirstToComeHasIt) {
  LockRecorder recorder;
  EXPECT_EQ(recorder.lock(1, 7, 100, 200), nullptr);
  const auto* other = recorder.lock(1, 8, 110, 210);
  ASSERT_NE(other, nullptr);
  EXPECT_EQ(other->group, 7u);
  EXPECT_EQ(other->since, 100u);
  EXPECT_EQ(recorder.lock(2, 8, 110, 210), nullptr) << "another block";
  EXPECT_FALSE(recorder.unlock(1, 8));
  EXPECT_TRUE(recorder.unlock(1, 7));
  EXPECT_EQ(recorder.lock(1, 8, 120, 220), nullptr);
}

TEST(LockRecorder, ItsHolderMayLockItAgain) {
  LockRecorder recorder;
  EXPECT_EQ(recorder.lock(1, 7, 100, 200), nullptr);
  EXPECT_EQ(recorder.lock(1, 7, 150, 300), nullptr);
  ASSERT_NE(recorder.holder(1, 250), nullptr);
  EXPECT_EQ(recorder.holder(1, 250)->since, 100u);
}

TEST(LockRecorder, ALockOfACrashedGroupIsOverAtItsTime) {
  LockRecorder recorder;
  EXPECT_EQ(recorder.lock(1, 7, 100, 200), nullptr);
  EXPECT_NE(recorder.lock(1, 8, 199, 300), nullptr);
  EXPECT_EQ(recorder.lock(1, 8, 200, 300), nullptr);
  EXPECT_FALSE(recorder.unlock(1, 7)) << "it is another's now";
  EXPECT_EQ(recorder.holder(1, 250)->group, 8u);
}

TEST(TreeLocks, AGroupThatDoesNotGetAllKeepsNothing) {
  TreeLocks locks;
  const std::vector<Allocation> one{{1, 0, 0, false}, {2, 0, 0, false}}, other{{3, 0, 0, false}, {2, 0, 0, false}};
  EXPECT_FALSE(locks.lock(7, one, 0, 100));
  const auto busy = locks.lock(8, other, 1, 100);
  ASSERT_TRUE(busy);
  EXPECT_EQ(busy->node, 2u);
  EXPECT_EQ(busy->holder, 7u);
  EXPECT_EQ(locks.held(8, other, 1), 0u);
  EXPECT_EQ(locks.held(7, one, 1), 2u);
  locks.unlock(7, one);
  EXPECT_FALSE(locks.lock(8, other, 2, 100));
}

TEST(TreeLocks, NoBlockIsEverLockedTwiceAndSomebodyAlwaysGetsOn) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(seed);
    std::vector<std::vector<Allocation>> trees(8);
    for (auto& tree : trees) {
      for (NodeId node = 0; node < 6; ++node) {
        if (rng.below(2) == 0) tree.push_back({node, 0, static_cast<std::uint32_t>(rng.below(2)), true});
      }
    }
    TreeLocks locks;
    std::vector<bool> has(trees.size(), false);
    for (TimeNs now = 0; now < 300; ++now) {
      const auto group = static_cast<GroupId>(rng.below(trees.size()));
      if (has[group]) {
        locks.unlock(group, trees[group]);
        has[group] = false;
      } else {
        has[group] = !locks.lock(group, trees[group], now, 1000);
        const bool alone = std::count(has.begin(), has.end(), true) == 0;
        EXPECT_FALSE(alone) << "nobody has anything, and it was refused";
      }
      for (GroupId a = 0; a < trees.size(); ++a) {
        EXPECT_EQ(locks.held(a, trees[a], now), has[a] ? trees[a].size() : 0);
      }
    }
  }
}

}  // namespace
}  // namespace weft::inc::policy
