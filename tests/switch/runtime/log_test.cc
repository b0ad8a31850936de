// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/runtime/log.h"

#include <gtest/gtest.h>

#include "switch/base/time.h"

namespace weft {
namespace {

TEST(LogLimit, WritesABurstAndThenNothingUntilTheIntervalHasPassed) {
  LogLimit limit(3, 10 * kSecond);
  for (TimeNs t = 1; t <= 3; ++t) EXPECT_TRUE(limit.admit(t * kSecond, "tor1/p1")) << t;
  EXPECT_FALSE(limit.admit(4 * kSecond, "tor1/p1"));
  EXPECT_FALSE(limit.admit(11 * kSecond - 1, "tor1/p1"));
  EXPECT_TRUE(limit.admit(11 * kSecond, "tor1/p1"));
}

TEST(LogLimit, TheLastLineOfABurstSaysThatOthersWillBeLeftOut) {
  LogLimit limit(2, kSecond);
  EXPECT_EQ(limit.admit(0, "p")->note(), "");
  EXPECT_EQ(limit.admit(1, "p")->note(), " (further ones will not be written for a while)");
}

TEST(LogLimit, TheNextLineSaysHowManyWereLeftOut) {
  LogLimit limit(2, kSecond);
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(limit.admit(0, "p"));
  for (int i = 0; i < 5; ++i) EXPECT_FALSE(limit.admit(1, "p"));
  EXPECT_EQ(limit.admit(kSecond, "p")->note(), " (5 such messages before were not written)");
  EXPECT_EQ(limit.admit(3 * kSecond, "p")->note(), "");
}

TEST(LogLimit, SubjectsAreLimitedEachForItself) {
  LogLimit limit(1, kSecond);
  EXPECT_TRUE(limit.admit(0, "p1"));
  EXPECT_TRUE(limit.admit(0, "p2"));
  EXPECT_FALSE(limit.admit(1, "p1"));
}

}  // namespace
}  // namespace weft
