// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "nic/rnic/qcn.h"

#include <gtest/gtest.h>

#include <cmath>

#include "nic/rnic/rate_control.h"

namespace weft::nic {
namespace {

constexpr std::uint64_t kLine = 10'000'000'000;
constexpr double kLineBps = kLine;
constexpr Time kTimer = 15 * kMs;  // of the standard, at this line
constexpr std::uint64_t kCycleBytes = 150'000;
constexpr unsigned kMost = Qcn::kMostFeedback;

TEST(Qcn, SendsAtTheRateOfTheLineUntilItIsNotified) {
  Qcn unit({}, kLine);
  for (int i = 0; i < 20; ++i) unit.on_sent(i * kTimer, kCycleBytes);
  EXPECT_EQ(unit.rate_bps(kTimer * 40), kLineBps);
  EXPECT_EQ(unit.increases(), 0u);
}

TEST(Qcn, OneCutIsGdTimesFeedback) {
  for (unsigned feedback = 1; feedback <= kMost; ++feedback) {
    Qcn unit({}, kLine);
    unit.on_feedback(5, feedback);
    EXPECT_DOUBLE_EQ(unit.rate_bps(5), kLineBps * (1 - feedback / 128.0));
    EXPECT_EQ(unit.target_bps(5), kLineBps);
    EXPECT_EQ(unit.cuts(), 1u);
  }
  Qcn unit({}, kLine);
  unit.on_feedback(5, 1000);
  EXPECT_DOUBLE_EQ(unit.rate_bps(5), kLineBps * (1 - 63 / 128.0)) << "there is no more feedback than that";
}

TEST(Qcn, FeedbackOfZeroIsIgnored) {
  Qcn unit({}, kLine);
  unit.on_feedback(0, 0);
  EXPECT_EQ(unit.rate_bps(0), kLineBps);
  unit.on_feedback(0, 20);
  unit.on_sent(1, kCycleBytes);
  const double rate = unit.rate_bps(1);
  unit.on_feedback(1, 0);
  EXPECT_EQ(unit.rate_bps(1), rate);
  EXPECT_EQ(unit.target_bps(1), kLineBps) << "nor does it make the rate the target";
  EXPECT_EQ(unit.cuts(), 1u);
}

// The target is not the line's rate here: that of the first cut, when the second one comes.
TEST(Qcn, FiveCyclesOfEitherKindRecoverAllButAThirtySecondOfTheCut) {
  for (const bool by_time : {false, true}) {
    Qcn unit({}, kLine);
    Time now = 0;
    unit.on_feedback(now, kMost);
    unit.on_sent(now, kCycleBytes);
    const double before = unit.rate_bps(now);
    unit.on_feedback(now, 32);
    EXPECT_EQ(unit.target_bps(now), before);
    EXPECT_DOUBLE_EQ(unit.rate_bps(now), before * 0.75);
    for (int n = 1; n <= 5; ++n) {
      if (by_time) {
        EXPECT_NEAR(unit.rate_bps(now + kTimer - 1), before * (1 - 0.25 / std::exp2(n - 1)), 1);
        now += kTimer;
      } else {
        unit.on_sent(now, kCycleBytes - 1);
        EXPECT_NEAR(unit.rate_bps(now), before * (1 - 0.25 / std::exp2(n - 1)), 1);
        unit.on_sent(now, 1);
      }
      EXPECT_NEAR(unit.rate_bps(now), before * (1 - 0.25 / std::exp2(n)), 1);
      EXPECT_EQ(unit.target_bps(now), before) << "fast recovery does not raise it";
    }
  }
}

TEST(Qcn, ThenTheTargetRisesInCyclesHalfAsLong) {
  for (const bool by_time : {false, true}) {
    Qcn unit({}, kLine);
    Time now = 0;
    unit.on_feedback(now, kMost);
    unit.on_sent(now, kCycleBytes);
    unit.on_feedback(now, kMost);
    const double before = unit.target_bps(now);
    const auto pass = [&](int half_cycles) {
      if (by_time) {
        now += half_cycles * kTimer / 2;
      } else {
        unit.on_sent(now, static_cast<std::uint64_t>(half_cycles) * kCycleBytes / 2);
      }
    };
    pass(10);
    EXPECT_EQ(unit.target_bps(now), before);
    for (int n = 1; n <= 8; ++n) {
      const double rate = unit.rate_bps(now);
      pass(1);
      EXPECT_NEAR(unit.target_bps(now), before + n * 5e6, 1);
      EXPECT_NEAR(unit.rate_bps(now), (rate + before + n * 5e6) / 2, 1);
    }
  }
}

TEST(Qcn, ThenFasterWhenBothKindsHaveComeRound) {
  Qcn unit({}, kLine);
  unit.on_feedback(0, kMost);
  unit.on_sent(0, kCycleBytes);
  unit.on_feedback(0, kMost);
  const double before = unit.target_bps(0);
  Time now = 5 * kTimer;
  unit.on_sent(now, 5 * kCycleBytes);
  EXPECT_EQ(unit.target_bps(now), before);
  now += kTimer / 2;
  EXPECT_NEAR(unit.target_bps(now), before + 5e6, 1) << "one kind alone";
  unit.on_sent(now, kCycleBytes / 2);
  EXPECT_NEAR(unit.target_bps(now), before + 5e6 + 50e6, 1);
  unit.on_sent(now, kCycleBytes / 2);
  EXPECT_NEAR(unit.target_bps(now), before + 5e6 + 2 * 50e6, 1) << "as often as the kind that is behind";
  now += kTimer / 2;
  EXPECT_NEAR(unit.target_bps(now), before + 5e6 + 2 * 50e6 + 2 * 50e6, 1);
}

TEST(Qcn, NotificationsInARowKeepTheTargetAndOneThatIsFarComesNearer) {
  Qcn unit({}, kLine);
  for (int i = 0; i < 4; ++i) unit.on_feedback(i, kMost);
  const double low = kLineBps * std::pow(1 - 63 / 128.0, 4);
  EXPECT_NEAR(unit.rate_bps(10), low, 1);
  EXPECT_EQ(unit.target_bps(10), kLineBps);
  unit.on_sent(10, kCycleBytes);
  EXPECT_DOUBLE_EQ(unit.target_bps(10), kLineBps / 8);
  EXPECT_NEAR(unit.rate_bps(10), (low + kLineBps / 8) / 2, 1);
  unit.on_sent(10, kCycleBytes);
  EXPECT_DOUBLE_EQ(unit.target_bps(10), kLineBps / 8) << "in the first cycle alone";
}

TEST(Qcn, TheLimitEndsAtTheRateOfTheLineAndTheFloorHolds) {
  Qcn unit({}, kLine);
  for (int i = 0; i < 50; ++i) unit.on_feedback(i, kMost);
  EXPECT_EQ(unit.rate_bps(100), 5e6);
  EXPECT_EQ(unit.rate_bps(100'000 * kTimer), kLineBps);
  const std::uint64_t increases = unit.increases();
  unit.on_sent(100'000 * kTimer, 100 * kCycleBytes);
  EXPECT_EQ(unit.rate_bps(kNever - 1), kLineBps);
  EXPECT_EQ(unit.increases(), increases) << "there is nothing left to do";
  unit.on_feedback(kNever / 2, 64 / 2);
  EXPECT_DOUBLE_EQ(unit.rate_bps(kNever / 2), kLineBps * 0.75);
}

// Ten times the line: ten times the rates, and a tenth of the time.
TEST(Qcn, TheConstantsFollowTheLineUnlessTheyAreGiven) {
  Qcn unit({}, 10 * kLine);
  for (int i = 0; i < 50; ++i) unit.on_feedback(0, kMost);
  EXPECT_EQ(unit.rate_bps(kTimer / 10 - 1), 5e7);
  EXPECT_GT(unit.rate_bps(kTimer / 10), 5e7);
  Qcn given({.timer_ns = 1 * kUs, .bytes = 1000, .min_bps = 1'000'000'000}, 10 * kLine);
  for (int i = 0; i < 50; ++i) given.on_feedback(0, kMost);
  EXPECT_EQ(given.rate_bps(999), 1e9);
  EXPECT_GT(given.rate_bps(1000), 1e9);
  const double rate = given.rate_bps(1000);
  given.on_sent(1000, 1000);
  EXPECT_GT(given.rate_bps(1000), rate);
}

/// As Annulus over DCQCN: both loops.
RateControl dual(bool near) {
  QpConfig c;
  c.line_bps = kLine;
  c.congestion_control = CongestionControl::dcqcn;
  c.dcqcn = *dcqcn_parameters("longhaul", kLine);
  c.dcqcn.near_qcn.enabled = near;
  return RateControl(c);
}

TEST(RateControl, NotificationsNearByCutTheNearRateAlone) {
  RateControl rate = dual(true);
  rate.on_cnp(0, 32);
  EXPECT_DOUBLE_EQ(rate.rate_bps(10 * kUs), kLineBps * 0.75);
  EXPECT_EQ(rate.dcqcn()->cnps(), 0u);
  EXPECT_EQ(rate.near_qcn()->cuts(), 1u);
}

TEST(RateControl, OtherCnpsCutTheFarRateAlone) {
  RateControl rate = dual(true);
  rate.on_cnp(0);
  EXPECT_LT(rate.rate_bps(10 * kUs), kLineBps * 0.6);
  EXPECT_EQ(rate.dcqcn()->cnps(), 1u);
  EXPECT_EQ(rate.near_qcn()->cuts(), 0u);
}

TEST(RateControl, TheLowerOfBothRatesCounts) {
  RateControl rate = dual(true);
  rate.on_cnp(0);
  const double far = rate.rate_bps(10 * kUs);
  rate.on_cnp(10 * kUs, 1);
  EXPECT_EQ(rate.rate_bps(10 * kUs), far) << "the near one is above it";
  for (int i = 0; i < 3; ++i) rate.on_cnp(10 * kUs, kMost);
  const double near = kLineBps * (1 - 1 / 128.0) * std::pow(1 - 63 / 128.0, 3);
  ASSERT_LT(near, far);
  EXPECT_NEAR(rate.rate_bps(10 * kUs), near, 1);
}

TEST(RateControl, WhatIsSentLetsTheNearRateRecover) {
  RateControl rate = dual(true);
  rate.on_cnp(0, 32);
  rate.on_sent(1, kCycleBytes);
  EXPECT_DOUBLE_EQ(rate.rate_bps(1), kLineBps * 0.875);
}

TEST(RateControl, WithoutANearLoopANotificationIsACnp) {
  RateControl rate = dual(false);
  rate.on_cnp(0, 1);
  EXPECT_LT(rate.rate_bps(10 * kUs), kLineBps * 0.6);
  EXPECT_EQ(rate.dcqcn()->cnps(), 1u);
  EXPECT_EQ(rate.near_qcn(), nullptr);
}

}  // namespace
}  // namespace weft::nic
