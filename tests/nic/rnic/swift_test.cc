// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "nic/rnic/swift.h"

#include <gtest/gtest.h>

#include <cmath>

#include "nic/rnic/rate_control.h"

namespace weft::nic {
namespace {

constexpr std::uint64_t kLine = 10'000'000'000;
constexpr std::uint32_t kMtu = 1000, kWire = 1250;  // 1 us on the line
constexpr SwiftParameters kDefault;

/// A unit whose first round trip was so long.
Swift after_first(Time rtt, const SwiftParameters& p = kDefault) {
  Swift unit(p, kLine, kMtu);
  unit.on_sent(0, kWire);
  unit.on_ack(0, 0, rtt);
  return unit;
}

TEST(Swift, GoesOnWithTheWindowThatTheLineHadInTheFirstRoundTrip) {
  Swift unit(kDefault, kLine, kMtu);
  unit.on_sent(0, kWire);
  unit.on_ack(0, 5 * kMtu, 0);
  unit.on_nack(0);
  EXPECT_EQ(unit.rate_bps(0), 1e10);
  EXPECT_EQ(unit.cwnd(), 0) << "without a sample there is no window";
  unit.on_ack(0, 0, 10 * kUs);
  EXPECT_NEAR(unit.cwnd(), 10, 1e-9);
  EXPECT_NEAR(unit.rate_bps(0), 1e10, 1);
}

TEST(Swift, TheTargetGrowsByTheRootOfSmallWindows) {
  Swift unit(kDefault, kLine, kMtu);
  EXPECT_NEAR(unit.target_ns(0.1), 20'000 + 100'000, 1e-6) << "fs_min_cwnd";
  EXPECT_EQ(unit.target_ns(0.01), 20'000 + 100'000) << "no more than fs_range";
  EXPECT_NEAR(unit.target_ns(100), 20'000, 1e-6) << "fs_max_cwnd";
  EXPECT_EQ(unit.target_ns(1000), 20'000);
  const double alpha = 100'000 / (1 / std::sqrt(0.1) - 0.1);
  EXPECT_NEAR(unit.target_ns(4), 20'000 + alpha * (0.5 - 0.1), 1e-6);
}

TEST(Swift, BelowTheTargetAWindowOfAcknowledgementsAddsAi) {
  Swift unit = after_first(100 * kUs);  // far above the target: down from 100 packets
  double cwnd = unit.cwnd();
  ASSERT_NEAR(cwnd, 50, 1e-9) << "by max_mdf";
  unit.on_ack(1 * kMs, 0, 15 * kUs);  // below any target; the line carries 15 packets in it
  unit.on_ack(2 * kMs, 0, 10 * kMs);
  ASSERT_NEAR(unit.cwnd(), 15, 1e-9) << "the last cut is less than this round trip ago";
  unit.on_ack(20 * kMs, 0, 10 * kMs);
  cwnd = unit.cwnd();
  ASSERT_NEAR(cwnd, 7.5, 1e-9);
  unit.on_ack(30 * kMs, 0, 15 * kUs);
  for (int i = 0; i < 50 && cwnd < 14; ++i) {
    unit.on_ack(30 * kMs, 2 * kMtu, 0);
    cwnd += 2 / cwnd;
    EXPECT_NEAR(unit.cwnd(), cwnd, 1e-9);
  }
  EXPECT_GT(unit.increases(), 20u);
  for (int i = 0; i < 50; ++i) unit.on_ack(30 * kMs, 2 * kMtu, 0);
  EXPECT_NEAR(unit.cwnd(), 15, 1e-9) << "no more than the line carries";
  EXPECT_NEAR(unit.rate_bps(0), 1e10, 1);
}

TEST(Swift, WindowsBelowAPacketGrowByAiPerPacketAndArePaced) {
  SwiftParameters p;
  p.reset_after = 1;
  Swift unit = after_first(100 * kUs, p);
  unit.on_timeout(1);
  EXPECT_EQ(unit.cwnd(), p.min_cwnd);
  EXPECT_NEAR(unit.rate_bps(0), 0.01 * kWire * 8 / 100e-6, 1) << "a packet per hundred round trips";
  unit.on_ack(2, kMtu / 10, 0);
  EXPECT_NEAR(unit.cwnd(), 0.01 + 0.1, 1e-12);
}

TEST(Swift, AboveTheTargetTheWindowShrinksByTheExcessOncePerRoundTrip) {
  SwiftParameters p;
  p.fs_range_ns = 0;                      // the target is 20 us
  Swift unit = after_first(20 * kUs, p);  // not below the target: the window of 20 packets is kept as it is
  EXPECT_NEAR(unit.cwnd(), 20, 1e-9);
  EXPECT_EQ(unit.cuts(), 1u) << "an excess of nothing";
  unit.on_ack(30 * kUs, kMtu, 25 * kUs);
  const double cwnd = 20 * (1 - 0.8 * 5 / 25);
  EXPECT_NEAR(unit.cwnd(), cwnd, 1e-9);
  unit.on_ack(54 * kUs, kMtu, 25 * kUs);
  EXPECT_NEAR(unit.cwnd(), cwnd, 1e-9) << "24 us later";
  unit.on_ack(55 * kUs, kMtu, 25 * kUs);
  EXPECT_NEAR(unit.cwnd(), cwnd * (1 - 0.8 * 5 / 25), 1e-9);
  const double before = unit.cwnd();
  unit.on_ack(1 * kMs, kMtu, 500 * kUs);
  EXPECT_NEAR(unit.cwnd(), before / 2, 1e-9) << "no more than max_mdf";
}

TEST(Swift, LossesTakeMaxMdfAndTimeoutsInARowTheWholeWindow) {
  SwiftParameters p;
  p.fs_range_ns = 0;
  Swift unit = after_first(20 * kUs, p);
  unit.on_nack(1 * kMs);
  EXPECT_NEAR(unit.cwnd(), 10, 1e-9);
  unit.on_nack(1 * kMs + 19 * kUs);
  EXPECT_NEAR(unit.cwnd(), 10, 1e-9) << "once per round trip";
  unit.on_timeout(2 * kMs);
  EXPECT_NEAR(unit.cwnd(), 5, 1e-9);
  unit.on_ack(3 * kMs, kMtu, 0);
  for (int i = 0; i < 4; ++i) unit.on_timeout((4 + i) * kMs);
  EXPECT_NEAR(unit.cwnd(), 5.0 / 16, 1e-9) << "an acknowledgement begins a new row";
  unit.on_timeout(8 * kMs);
  EXPECT_EQ(unit.cwnd(), p.min_cwnd);
}

TEST(RateControl, SwiftSeesAcknowledgementsNacksAndTimeouts) {
  QpConfig c;
  c.line_bps = kLine;
  c.path_mtu = kMtu;
  c.congestion_control = CongestionControl::swift;
  RateControl rate(c);
  rate.on_sent(0, kWire);
  rate.on_cnp(0);
  rate.on_response(0, {.acked_bytes = kMtu, .rtt_ns = 1 * kMs});
  EXPECT_NEAR(rate.rate_bps(0), 5e9, 1);
  rate.on_response(1 * kMs, {.nack = true});
  EXPECT_NEAR(rate.rate_bps(0), 2.5e9, 1);
  rate.on_timeout(2 * kMs);
  EXPECT_NEAR(rate.rate_bps(0), 1.25e9, 1);
  EXPECT_EQ(rate.changes()->cuts, 3u);
}

// The way up to a switch near the source tells early, and the whole way as late as ever: the lower rate counts.
TEST(Swift, RoundTripsToASwitchSetAWindowOfTheirOwn) {
  QpConfig c;
  c.line_bps = kLine;
  c.path_mtu = kMtu;
  c.congestion_control = CongestionControl::swift;
  c.swift.base_target_ns = 2000 * kUs;  // for the whole way
  for (const bool listens : {true, false}) {
    c.swift.near_target_ns = listens ? 20 * kUs : 0;
    RateControl rate(c);
    Time now = 0;
    // Queues on the way to the switch: each echo takes five times the target.
    for (std::uint32_t psn = 0; psn < 20; ++psn, now += 200 * kUs) {
      EXPECT_EQ(rate.asks_echo(now, wire::Psn(psn)), listens);
      rate.on_sent(now, kWire);
      rate.on_response(now, {.acked_bytes = kMtu, .rtt_ns = 1000 * kUs});
      rate.on_echo(now + 100 * kUs, wire::Psn(psn));
    }
    EXPECT_EQ(rate.swift()->cuts(), 0u);
    ASSERT_EQ(rate.near_swift() != nullptr, listens);
    if (!listens) {
      EXPECT_EQ(rate.rate_bps(now), rate.swift()->rate_bps(now));
      continue;
    }
    EXPECT_GT(rate.near_swift()->cuts(), 10u);
    const double low = rate.rate_bps(now);
    EXPECT_LT(low, 0.1 * rate.swift()->rate_bps(now));
    // They are gone: so many packets as a round trip takes make the window a packet larger.
    const double window = rate.near_swift()->cwnd();
    for (std::uint32_t psn = 20; psn < 40; ++psn, now += 100 * kUs) {
      EXPECT_TRUE(rate.asks_echo(now, wire::Psn(psn)));
      rate.on_sent(now, kWire);
      rate.on_echo(now + 15 * kUs, wire::Psn(psn));
    }
    EXPECT_GT(rate.near_swift()->cwnd(), window + 1);
    EXPECT_GT(rate.rate_bps(now), 5 * low);
  }
}

}  // namespace
}  // namespace weft::nic
