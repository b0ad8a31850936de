// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/system/clock.h"

#include <gtest/gtest.h>

#include <chrono>

namespace weft {
namespace {

TEST(Clock, IsTheOneOfSteadyClockInNanoseconds) {
  const auto steady = [] {
    return static_cast<TimeNs>(std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count());
  };
  const TimeNs before = steady();
  const TimeNs now = monotonic_now();
  EXPECT_LE(before, now);
  EXPECT_LE(now, steady());
}

}  // namespace
}  // namespace weft
