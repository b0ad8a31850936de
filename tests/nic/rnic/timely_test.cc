// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "nic/rnic/timely.h"

#include <gtest/gtest.h>

#include <cmath>
#include <utility>
#include <vector>

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

// Between data centres a round trip is longer than any threshold that fits within one.
TEST(Timely, ThresholdsMayCountFromTheShortestRoundTrip) {
  TimelyParameters p;
  p.above_base = true;
  Timely unit(p, kLine);
  constexpr Time kBase = 1 * kMs;
  unit.on_rtt(kBase + 40'000);
  for (int i = 0; i < 20; ++i) unit.on_rtt(kBase + 600'000);
  EXPECT_LT(unit.rate_bps(0), 1e10);
  EXPECT_EQ(unit.cuts(), 20u) << "above T_high";
  const double expected = 1 - 0.8 * (1 - static_cast<double>(kBase + 540'000) / static_cast<double>(kBase + 600'000));
  EXPECT_NEAR(unit.rate_bps(0), 1e10 * std::pow(expected, 20), 1e3);
  const double low = unit.rate_bps(0);
  for (int i = 0; i < 20; ++i) unit.on_rtt(kBase + 80'000);
  EXPECT_EQ(unit.rate_bps(0), low + 20 * 1e7) << "below T_low";
  unit.on_rtt(kBase);
  EXPECT_NEAR(unit.gradient(), unit.rtt_diff_ns() / 1e6, 1e-12);
}

// The way up to a switch near the source tells early, and the whole way as late as ever: the lower rate counts.
TEST(Timely, RoundTripsToASwitchSetARateOfTheirOwn) {
  QpConfig c;
  c.line_bps = kLine;
  c.congestion_control = CongestionControl::timely;
  for (const bool listens : {true, false}) {
    c.timely.near_echo = listens;
    RateControl rate(c);
    Time now = 0;
    for (std::uint32_t psn = 0; psn < 40; ++psn, now += 5 * kMs) {
      EXPECT_EQ(rate.asks_echo(now, wire::Psn(psn)), listens);
      rate.on_echo(now + 2 * c.timely.t_high_ns - 1, wire::Psn(psn));
    }
    ASSERT_NE(rate.timely(), nullptr);
    EXPECT_EQ(rate.timely()->rate_bps(now), 1e10);
    EXPECT_EQ(rate.near_timely() != nullptr, listens);
    EXPECT_EQ(rate.rate_bps(now), listens ? 1e8 : 1e10);
  }
}

// A queue that is longer than what an echo is waited for at first.
TEST(Timely, EchoesThatAreVeryLateAreHeardInTheEnd) {
  QpConfig c;
  c.line_bps = kLine;
  c.congestion_control = CongestionControl::timely;
  c.timely.near_echo = true;
  RateControl rate(c);
  const Time round_trip = 9 * c.timely.t_high_ns;
  std::vector<std::pair<Time, wire::Psn>> echoes;
  Time now = 0;
  for (std::uint32_t psn = 0; psn < 1000; ++psn, now += 100 * kUs) {
    if (rate.asks_echo(now, wire::Psn(psn))) echoes.emplace_back(now + round_trip, wire::Psn(psn));
    while (!echoes.empty() && echoes.front().first <= now) {
      rate.on_echo(now, echoes.front().second);
      echoes.erase(echoes.begin());
    }
  }
  EXPECT_GT(rate.near_timely()->cuts(), 2u);
  EXPECT_LT(rate.rate_bps(now), 1e10);
}

}  // namespace
}  // namespace weft::nic
