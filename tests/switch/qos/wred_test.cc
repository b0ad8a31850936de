// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/qos/wred.h"

#include <gtest/gtest.h>

#include <cmath>

#include "switch/base/rng.h"

namespace weft::qos {
namespace {

TEST(Curve, HitsFollowTheCurveWithinTheBinomialBound) {
  const CurveSettings settings{100'000, 400'000, 0.2};
  const Curve curve(settings);
  constexpr int kTrials = 200'000;
  Rng rng(42);
  for (const std::uint64_t depth : {100'001ull, 150'000ull, 250'000ull, 399'999ull, 400'000ull}) {
    const double p = 0.2 * static_cast<double>(depth - 100'000) / 300'000;
    int hits = 0;
    for (int i = 0; i < kTrials; ++i) hits += curve.hit(depth, rng.next()) ? 1 : 0;
    // Five standard deviations.
    EXPECT_NEAR(hits, p * kTrials, 5 * std::sqrt(kTrials * p * (1 - p)) + 1) << depth;
  }
}

TEST(Curve, CoinsAndATrialThatMakesUpForThemFollowTheCurveToo) {
  for (const double most : {1.0, 0.6, 0.5, 0.25, 0.2, 0.01, 1e-5}) {
    const Curve curve({100'000, 400'000, most});
    const unsigned coins = curve.halvings();
    EXPECT_LE(coins, 6U);
    EXPECT_TRUE(coins == 6 || most * (2 << coins) > 0.999) << most;
    EXPECT_LE(most * (1 << coins), 1) << most;
    constexpr int kTrials = 400'000;
    FastDraws random(7);
    for (const std::uint64_t depth : {150'000ull, 400'000ull}) {
      const double p = most * static_cast<double>(depth - 100'000) / 300'000;
      int hits = 0;
      for (int i = 0; i < kTrials; ++i) {
        bool left = true;
        for (unsigned k = 0; k < coins; ++k) left &= (random.next() & 1) != 0;
        hits += left && curve.hit(depth, coins, random.next()) ? 1 : 0;
      }
      EXPECT_NEAR(hits, p * kTrials, 5 * std::sqrt(kTrials * p * (1 - p)) + 1) << most << " " << depth;
    }
    EXPECT_TRUE(curve.hit(400'001, 0, ~0ull));
  }
}

TEST(Curve, NeverHitsUpToKminAndAlwaysBeyondKmax) {
  const Curve curve({100'000, 400'000, 0.2});
  for (const std::uint64_t random : {0ull, 1ull, ~0ull}) {
    EXPECT_FALSE(curve.hit(0, random));
    EXPECT_FALSE(curve.hit(100'000, random));
    EXPECT_TRUE(curve.hit(400'001, random));
    EXPECT_TRUE(curve.hit(~0ull >> 8, random));
  }
}

TEST(Curve, EqualThresholdsAreAStep) {
  const Curve curve({5000, 5000, 0.5});
  EXPECT_FALSE(curve.hit(5000, 0));
  EXPECT_TRUE(curve.hit(5001, ~0ull));
}

TEST(Curve, GrowsSteadilyAndNeverWrapsForAnyProbability) {
  for (const double p : {0.0, 1e-9, 0.05, 0.8, 1.0}) {
    for (const std::uint64_t width : {1ull, 3ull, 1000ull, 1ull << 30}) {
      const Curve curve({1000, 1000 + width, p});
      std::uint64_t before = 0;
      for (int step = 0; step <= 64; ++step) {
        const std::uint64_t at = curve.at(1000 + width * static_cast<unsigned>(step) / 64);
        EXPECT_GE(at, before);
        before = at;
      }
      EXPECT_NEAR(static_cast<double>(before) / 18446744073709551616.0, p, 1e-6);
    }
  }
}

TEST(Wred, WithoutSettingsNothingIsMarkedOrDropped) {
  const Wred none;
  EXPECT_FALSE(none.mark.hit(~0ull >> 1, 0));
  EXPECT_FALSE(none.drop.hit(~0ull >> 1, 0));
}

TEST(Wred, MarksAndDropsHaveThresholdsOfTheirOwn) {
  WredSettings s;
  s.mark = {1000, 2000, 1};
  s.drop_by_curve = true;
  s.drop = {5000, 6000, 1};
  const Wred wred(s);
  EXPECT_TRUE(wred.mark.hit(3000, 0));
  EXPECT_FALSE(wred.drop.hit(3000, 0));
  EXPECT_TRUE(wred.drop.hit(6001, ~0ull));
  s.drop_by_curve = false;
  EXPECT_FALSE(Wred(s).drop.hit(1'000'000, 0));
  s.ecn = false;
  EXPECT_FALSE(Wred(s).mark.hit(1'000'000, 0));
}

}  // namespace
}  // namespace weft::qos
