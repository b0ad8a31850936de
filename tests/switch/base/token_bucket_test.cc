// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/base/token_bucket.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "switch/base/rng.h"
#include "switch/base/time.h"

namespace weft {
namespace {

TEST(TokenBucket, IsFullAtFirst) {
  TokenBucket bucket(8, 1000);
  EXPECT_TRUE(bucket.try_take(5, 600));
  EXPECT_TRUE(bucket.try_take(5, 400));
  EXPECT_FALSE(bucket.try_take(5, 1));
}

TEST(TokenBucket, ARefusedPacketTakesNothing) {
  TokenBucket bucket(8, 1000);
  ASSERT_TRUE(bucket.try_take(0, 900));
  EXPECT_FALSE(bucket.try_take(0, 101));
  EXPECT_TRUE(bucket.try_take(0, 100));
}

TEST(TokenBucket, EarnsOneByteInExactlyItsTimeOnTheWire) {
  // 8 Mbit/s: one byte a microsecond.
  TokenBucket bucket(8, 1000);
  ASSERT_TRUE(bucket.try_take(0, 1000));
  EXPECT_FALSE(bucket.try_take(999, 1));
  EXPECT_TRUE(bucket.try_take(1000, 1));
  EXPECT_FALSE(bucket.try_take(1999, 1));
  EXPECT_TRUE(bucket.try_take(2000, 1));
}

TEST(TokenBucket, NeverHoldsMoreThanItsDepth) {
  TokenBucket bucket(100'000, 1500);
  EXPECT_EQ(bucket.tokens_bytes(kSecond * 3600), 1500u);
  EXPECT_EQ(bucket.tokens_bytes(kNever), 1500u);
}

TEST(TokenBucket, DoesNotDriftOverStepsOfASecond) {
  // 7 Mbit/s are 875000 bytes a second: the bucket is emptied every second for an hour and never has a byte more.
  TokenBucket bucket(7, 1'000'000);
  ASSERT_TRUE(bucket.try_take(0, 1'000'000));
  for (TimeNs t = kSecond; t <= 3600 * kSecond; t += kSecond) {
    ASSERT_EQ(bucket.tokens_bytes(t), 875'000u) << "at " << t;
    ASSERT_TRUE(bucket.try_take(t, 875'000));
    ASSERT_FALSE(bucket.try_take(t, 1)) << "at " << t;
  }
}

TEST(TokenBucket, StepsOfOneNanosecondEarnExactlyWhatOneLongStepEarns) {
  for (const std::uint64_t rate : {1, 3, 7, 333, 99'999}) {
    TokenBucket small(rate, 1 << 20);
    TokenBucket large(rate, 1 << 20);
    ASSERT_TRUE(small.try_take(0, 1 << 20));
    ASSERT_TRUE(large.try_take(0, 1 << 20));
    for (TimeNs t = 1; t <= 200'003; ++t) static_cast<void>(small.tokens_bytes(t));
    static_cast<void>(large.tokens_bytes(200'003));
    EXPECT_EQ(small, large) << rate << " Mbit/s";
  }
}

TEST(TokenBucket, ShapedPacketsLeaveAtExactlyTheRate) {
  // 12 Mbit/s: 1500 bytes a millisecond. The burst lets two packets go at once.
  TokenBucket bucket(12, 3000);
  std::vector<TimeNs> leave;
  for (int i = 0; i < 6; ++i) leave.push_back(bucket.take(0, 1500));
  EXPECT_EQ(leave, (std::vector<TimeNs>{0, 0, 1'000'000, 2'000'000, 3'000'000, 4'000'000}));
  EXPECT_EQ(bucket.backlog_bytes(0), 6000u);
  EXPECT_EQ(bucket.backlog_bytes(1'000'000), 4500u);
  EXPECT_EQ(bucket.backlog_bytes(4'000'000), 0u);
}

TEST(TokenBucket, FractionsOfNanosecondsAreRoundedUpAndNotLost) {
  // 3 Mbit/s: a byte takes 2666 2/3 ns.
  TokenBucket bucket(3, 1);
  ASSERT_EQ(bucket.take(0, 1), 0u);
  EXPECT_EQ(bucket.take(0, 1), 2667u);
  EXPECT_EQ(bucket.take(0, 1), 5334u);
  EXPECT_EQ(bucket.take(0, 1), 8000u);
}

TEST(TokenBucket, TimeThatGoesBackEarnsNothing) {
  TokenBucket bucket(8, 1000);
  ASSERT_TRUE(bucket.try_take(5000, 1000));
  EXPECT_FALSE(bucket.try_take(4000, 1));
  EXPECT_EQ(bucket.take(4000, 1), 6000u);
}

// The definition of conformance, computed another way: in every interval between departures no more bytes leave than
// the burst and what the interval earns.
TEST(TokenBucket, NoIntervalCarriesMoreThanBurstAndRate) {
  for (const std::uint64_t seed : {1, 2, 3}) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Rng rng(seed);
    const std::uint64_t rate = 1 + rng.below(1000);
    const std::uint64_t burst = 2000 + rng.below(8000);
    TokenBucket bucket(rate, burst);
    struct Departure {
      TimeNs at;
      std::uint64_t bytes;
    };
    std::vector<Departure> out;
    TimeNs now = 0;
    for (int i = 0; i < 400; ++i) {
      now += rng.below(50'000);
      const auto bytes = static_cast<std::uint32_t>(64 + rng.below(1900));
      out.push_back({std::max(now, bucket.take(now, bytes)), bytes});
    }
    for (std::size_t first = 0; first < out.size(); ++first) {
      std::uint64_t millibits = 0;
      for (std::size_t last = first; last < out.size(); ++last) {
        ASSERT_TRUE(last == first || out[last].at >= out[last - 1].at) << "shaping reordered";
        millibits += out[last].bytes * 8000;
        ASSERT_LE(millibits, burst * 8000 + (out[last].at - out[first].at) * rate) << first << " to " << last;
      }
    }
  }
}

}  // namespace
}  // namespace weft
