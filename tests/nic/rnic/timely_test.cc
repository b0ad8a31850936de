// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "nic/rnic/timely.h"

#include <gtest/gtest.h>

#include <cmath>

#include "nic/rnic/rate_control.h"

namespace weft::nic {
namespace {

constexpr std::uint64_t kLine = 10'000'000'000;
constexpr TimelyParameters kPaper;

/// A unit whose rate is at the floor.
Timely at_floor() {
  Timely unit(kPaper, kLine);
  for (int i = 0; i < 20; ++i) unit.on_rtt(100 * kMs);
  EXPECT_EQ(unit.rate_bps(0), static_cast<double>(kPaper.min_bps));
  return unit;
}

TEST(Timely, StartsAtTheLineAndTheFirstSampleChangesNothing) {
  Timely unit(kPaper, kLine);
  unit.on_rtt(100 * kMs);
  EXPECT_EQ(unit.rate_bps(0), 1e10);
  EXPECT_EQ(unit.cuts() + unit.increases(), 0u);
}

TEST(Timely, BelowTLowEachSampleAddsDelta) {
  Timely unit = at_floor();
  for (int n = 1; n <= 20; ++n) {
    unit.on_rtt(kPaper.t_low_ns - 1);
    EXPECT_EQ(unit.rate_bps(0), 1e8 + n * 1e7) << "no hyperactive increase there: Algorithm 1 returns";
  }
  for (int n = 0; n < 2000; ++n) unit.on_rtt(kPaper.t_low_ns - 1);
  EXPECT_EQ(unit.rate_bps(0), 1e10) << "never above the line";
}

TEST(Timely, AboveTHighTheRateIsAPowerWhateverTheGradient) {
  for (const Time step : {Time{0}, Time{-10}, Time{10}}) {
    Timely unit(kPaper, kLine);
    Time rtt = 2 * kMs;
    unit.on_rtt(rtt);
    double expected = 1e10;
    for (int n = 0; n < 4; ++n) {
      rtt += step;
      unit.on_rtt(rtt);
      expected *= 1 - 0.8 * (1 - 500'000.0 / static_cast<double>(rtt));
      EXPECT_NEAR(unit.rate_bps(0) / expected, 1, 1e-12);
    }
    EXPECT_EQ(unit.cuts(), 4u);
  }
}

TEST(Timely, BetweenTheThresholdsTheRateFallsByTheFilteredGradient) {
  Timely unit(kPaper, kLine);
  constexpr double kStep = 1000;  // round trips grow by so much
  Time rtt = 100 * kUs;
  unit.on_rtt(rtt);
  double expected = 1e10;
  for (int n = 1; n <= 30; ++n) {
    rtt += static_cast<Time>(kStep);
    unit.on_rtt(rtt);
    const double filtered = kStep * (1 - std::pow(1 - 0.875, n));
    EXPECT_NEAR(unit.rtt_diff_ns(), filtered, 1e-9);
    EXPECT_NEAR(unit.gradient(), filtered / 20'000, 1e-12);
    expected *= 1 - 0.8 * filtered / 20'000;
    EXPECT_NEAR(unit.rate_bps(0) / expected, 1, 1e-9);
  }
}

TEST(Timely, AGradientThatIsTooSteepStopsAtTheFloor) {
  Timely unit(kPaper, kLine);
  unit.on_rtt(60 * kUs);
  unit.on_rtt(400 * kUs);  // beta times the gradient is 11.9
  EXPECT_EQ(unit.rate_bps(0), static_cast<double>(kPaper.min_bps));
  TimelyParameters p = kPaper;
  p.min_bps = 2 * kLine;
  Timely slow(p, kLine);
  slow.on_rtt(60 * kUs);
  slow.on_rtt(400 * kUs);
  EXPECT_EQ(slow.rate_bps(0), 1e10) << "a floor above the line is the line";
}

TEST(Timely, FiveSamplesWithoutGrowthInARowBeginHyperactiveIncrease) {
  Timely unit(kPaper, kLine);
  unit.on_rtt(60 * kUs);
  unit.on_rtt(400 * kUs);
  unit.on_rtt(60 * kUs);  // the filter has forgotten the rise: 0.125 * 297.5 - 0.875 * 340 us
  ASSERT_LT(unit.gradient(), 0);
  double expected = unit.rate_bps(0);
  EXPECT_EQ(expected, 1e8 + 1e7) << "the first of them";
  for (int n = 2; n <= 12; ++n) {
    unit.on_rtt(60 * kUs);
    expected += n >= 5 ? 5e7 : 1e7;
    EXPECT_EQ(unit.rate_bps(0), expected) << "sample " << n;
  }
  unit.on_rtt(80 * kUs);
  const double cut = unit.rate_bps(0);
  EXPECT_LT(cut, expected);
  unit.on_rtt(60 * kUs);
  EXPECT_EQ(unit.rate_bps(0), cut + 1e7) << "a sample with growth begins again";
}

TEST(RateControl, TimelySeesSamplesAndHeedsNoCnps) {
  QpConfig c;
  c.line_bps = kLine;
  c.congestion_control = CongestionControl::timely;
  c.nack_is_cnp = true;
  RateControl rate(c);
  rate.on_cnp(0);
  rate.on_response(0, {.nack = true});
  rate.on_response(0, {.acked_bytes = 1000});
  rate.on_timeout(0);
  EXPECT_EQ(rate.rate_bps(0), 1e10);
  rate.on_response(0, {.rtt_ns = 2 * kMs});
  rate.on_response(0, {.rtt_ns = 2 * kMs});
  EXPECT_NEAR(rate.rate_bps(0), 1e10 * (1 - 0.8 * 0.75), 1);
  EXPECT_EQ(rate.changes()->cuts, 1u);
  EXPECT_EQ(rate.dcqcn(), nullptr);
  c.congestion_control = CongestionControl::none;
  EXPECT_FALSE(RateControl(c).changes().has_value());
}

}  // namespace
}  // namespace weft::nic
