// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/stages/lb/path_pauses.h"

#include <gtest/gtest.h>

namespace weft::stages {
namespace {

TEST(PathPauses, AreOfOnePathToOneLeafAndEnd) {
  PathPauses pauses(3, 2);
  EXPECT_TRUE(pauses.pause(1, 0, 100));
  EXPECT_TRUE(pauses.paused(1, 0, 99));
  EXPECT_FALSE(pauses.paused(1, 0, 100));
  EXPECT_FALSE(pauses.paused(1, 1, 99));
  EXPECT_FALSE(pauses.paused(2, 0, 99));
}

TEST(PathPauses, PathsThatAreNotThereAreRefused) {
  PathPauses pauses(3, 2);
  EXPECT_FALSE(pauses.pause(1, 2, 100)) << "it is not the next leaf's";
  EXPECT_FALSE(pauses.pause(3, 0, 100));
  EXPECT_FALSE(pauses.paused(2, 0, 0));
  EXPECT_FALSE(pauses.paused(3, 0, 0));
}

TEST(PathPauses, AreTakenOverFromOneOfTheSameSize) {
  PathPauses old(2, 2), same(2, 2), other(2, 3);
  old.pause(1, 1, 100);
  same.adopt(old);
  other.adopt(old);
  EXPECT_EQ(same.until(1, 1), 100u);
  EXPECT_EQ(other.until(1, 1), 0u);
}

}  // namespace
}  // namespace weft::stages
