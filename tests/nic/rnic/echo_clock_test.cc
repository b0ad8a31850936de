// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "nic/rnic/echo_clock.h"

#include <gtest/gtest.h>

namespace weft::nic {
namespace {

TEST(EchoClock, OneRequestAsksAtATimeUntilItsEchoIsLost) {
  EchoClock clock(1'000);
  EXPECT_EQ(clock.answered(5, wire::Psn(0)), 0u) << "nobody has asked";
  EXPECT_TRUE(clock.asks(10, wire::Psn(1)));
  EXPECT_FALSE(clock.asks(20, wire::Psn(2)));
  EXPECT_EQ(clock.answered(30, wire::Psn(2)), 0u);
  EXPECT_EQ(clock.answered(40, wire::Psn(1)), 30u);
  EXPECT_EQ(clock.answered(40, wire::Psn(1)), 0u) << "a second one is nobody's";
  EXPECT_TRUE(clock.asks(50, wire::Psn(3)));
  EXPECT_FALSE(clock.asks(1'049, wire::Psn(4)));
  EXPECT_TRUE(clock.asks(1'050, wire::Psn(5)));
  EXPECT_EQ(clock.answered(1'060, wire::Psn(3)), 0u) << "too late";
  EXPECT_EQ(clock.answered(1'070, wire::Psn(5)), 20u);
}

TEST(EchoClock, WaitsTwiceAsLongAfterEachLossAndNoLongerThanTheMost) {
  EchoClock clock(1'000);
  Time now = 0;
  std::uint32_t psn = 0;
  EXPECT_TRUE(clock.asks(now, wire::Psn(psn)));
  for (Time wait = 1'000; wait <= 64'000; wait *= 2) {
    EXPECT_FALSE(clock.asks(now + wait - 1, wire::Psn(psn + 1)));
    now += wait;
    EXPECT_TRUE(clock.asks(now, wire::Psn(++psn))) << wait;
  }
  EXPECT_FALSE(clock.asks(now + 63'999, wire::Psn(99)));
  EXPECT_EQ(clock.answered(now + 63'999, wire::Psn(psn)), 63'999u);
  now += 64'000;
  EXPECT_TRUE(clock.asks(now, wire::Psn(++psn)));
  EXPECT_FALSE(clock.asks(now + 999, wire::Psn(psn + 1)));
  EXPECT_TRUE(clock.asks(now + 1'000, wire::Psn(psn + 1))) << "an echo makes it short again";
}

}  // namespace
}  // namespace weft::nic
