// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "nic/rnic/hpcc.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "nic/rnic/rate_control.h"

namespace weft::nic {
namespace {

constexpr std::uint64_t kLine = 100'000'000'000;
constexpr Time kBase = 10'240;                    // a thousand slots of a line of 100 Gbit/s
constexpr double kFull = 128'000;                 // bytes that the line carries meanwhile
constexpr double kStep = 0.05e9 * 10'240e-9 / 8;  // W_AI

HpccParameters parameters() {
  HpccParameters p;
  p.base_rtt_ns = kBase;
  return p;
}

/// A port of 100 Gbit/s on the way, and ACKs that tell of it.
struct Way {
  explicit Way(const HpccParameters& p = parameters()) : unit(p, kLine) {
    unit.on_sent(0, 1024);
    tell(0, 0);
  }
  /// An ACK a time later, in which the port was so busy. `update`: of a packet that was sent after the last update.
  void tell(double slots, double used, std::uint16_t queue = 0, bool update = true) {
    time += slots;
    sent += slots * used;
    now += static_cast<Time>(slots * 10.24);
    path.hops = 1;
    path.hop[0] = {wire::int_speed_code(100'000), static_cast<std::uint16_t>(static_cast<std::uint64_t>(time)),
                   static_cast<std::uint16_t>(static_cast<std::uint64_t>(sent)), queue};
    // Each update is at the packets sent by then, so that the next one needs one acknowledged beyond.
    if (update) ++packets;
    unit.on_telemetry(now, path, packets, packets);
  }

  Hpcc unit;
  wire::IntPath path{};
  double time = 65'000, sent = 12'345;  // the first differences wrap
  Time now = 0;
  std::uint64_t packets = 0;
};

TEST(Hpcc, BeginsWithTheLineAndTheFirstRecordChangesNothing) {
  Way way;
  EXPECT_EQ(way.unit.window_bytes(), kFull);
  EXPECT_EQ(way.unit.rate_bps(0), 1e11);
  EXPECT_EQ(way.unit.cuts() + way.unit.increases(), 0u);
}

TEST(Hpcc, AFullPortBringsTheWindowDownByEta) {
  Way way;
  way.tell(1000, 1);
  EXPECT_DOUBLE_EQ(way.unit.utilisation(), 1);
  EXPECT_NEAR(way.unit.window_bytes(), kFull * 0.95 + kStep, 1e-6);
  EXPECT_NEAR(way.unit.rate_bps(0), (kFull * 0.95 + kStep) * 8e9 / kBase, 1);
  EXPECT_EQ(way.unit.cuts(), 1u);
}

TEST(Hpcc, WithoutAWindowTheRateIsTheSame) {
  HpccParameters p = parameters();
  Way with(p);
  p.windowless = true;
  Way without(p);
  for (Way* way : {&with, &without}) {
    for (int i = 0; i < 3; ++i) way->tell(1000, 1);
  }
  EXPECT_LT(with.unit.window_packets(), 128u);
  EXPECT_EQ(without.unit.window_packets(), std::numeric_limits<std::uint64_t>::max());
  EXPECT_EQ(without.unit.rate_bps(0), with.unit.rate_bps(0));
}

TEST(Hpcc, WhatWaitsCountsAsUtilisation) {
  Way way;
  way.tell(0.5, 0, 100, false);  // the same slot: no sample
  way.tell(1000, 1, 100);
  EXPECT_DOUBLE_EQ(way.unit.utilisation(), 1) << "the shorter of the two queues counts";
  way.tell(1000, 1, 125);
  EXPECT_NEAR(way.unit.utilisation(), 1 + 100 * 512 / kFull, 1e-9);
}

TEST(Hpcc, SamplesOfLessThanARoundTripAreAveraged) {
  Way way;
  way.tell(250, 0.6);
  EXPECT_NEAR(way.unit.utilisation(), 0.75 * 1 + 0.25 * 0.6, 1e-9);
  way.tell(250, 0.6);
  EXPECT_NEAR(way.unit.utilisation(), 0.75 * 0.9 + 0.25 * 0.6, 1e-9);
}

TEST(Hpcc, TheBusiestPortCounts) {
  Way way;
  wire::IntPath path;
  path.hops = 3;
  for (std::uint8_t i = 0; i < 3; ++i) path.hop[i] = {wire::int_speed_code(100'000), 0, 0, 0};
  way.unit.on_telemetry(100, path, 5, 5);  // another path: begins anew
  for (std::uint8_t i = 0; i < 3; ++i) path.hop[i].time = 1000;
  path.hop[0].sent = 300;
  path.hop[1].sent = 970;
  path.hop[2].sent = 500;
  way.unit.on_telemetry(100 + kBase, path, 6, 6);
  EXPECT_NEAR(way.unit.utilisation(), 0.97, 1e-9);
}

TEST(Hpcc, AnIdlePortGivesStepsAndThenWhatIsFree) {
  Way way;
  for (int i = 0; i < 40; ++i) way.tell(1000, 2);  // down
  const double low = way.unit.window_bytes();
  ASSERT_LT(low, 0.02 * kFull);
  for (int i = 1; i <= 5; ++i) {
    way.tell(1000, 0.5);
    EXPECT_NEAR(way.unit.window_bytes(), low + i * kStep, 1e-6);
  }
  way.tell(1000, 0.5);
  EXPECT_NEAR(way.unit.window_bytes(), (low + 5 * kStep) / (0.5 / 0.95) + kStep, 1e-6);
  way.tell(1000, 0.5);
  EXPECT_NEAR(way.unit.window_bytes(), (low + 5 * kStep) / (0.5 / 0.95) + 2 * kStep, 1e-6) << "steps again";
}

TEST(Hpcc, WithinARoundTripAllGoesByTheSameReference) {
  Way way;
  way.tell(1000, 1.9);
  const double reference = way.unit.window_bytes();
  for (int i = 0; i < 5; ++i) way.tell(1000, 1.9, 0, false);
  EXPECT_NEAR(way.unit.window_bytes(), reference * 0.95 / 1.9 + kStep, 1e-6) << "one cut, however many ACKs";
  EXPECT_EQ(way.unit.cuts(), 1u);
}

TEST(Hpcc, StaysBetweenItsLeastRateAndTheLine) {
  Way way;
  for (int i = 0; i < 100; ++i) way.tell(1000, 3);
  EXPECT_NEAR(way.unit.rate_bps(0), 1e8, 1);
  EXPECT_EQ(way.unit.window_packets(), 1u) << "one packet may always be under way";
  for (int i = 0; i < 100; ++i) way.tell(1000, 0);
  EXPECT_EQ(way.unit.rate_bps(0), 1e11);
  EXPECT_EQ(way.unit.window_packets(), 125u);
}

TEST(Hpcc, CountersThatMayHaveWrappedTellOfTheQueueAlone) {
  Way way;
  for (int i = 0; i < 40; ++i) way.tell(1000, 2);
  const double low = way.unit.window_bytes();
  way.tell(40'000, 0.1);  // 0.4 ms: more than half of the range
  EXPECT_DOUBLE_EQ(way.unit.utilisation(), 0.95);
  EXPECT_NEAR(way.unit.window_bytes(), low + kStep, 1e-6) << "it grows, but not to what an idle port would allow";
  way.tell(40'000, 0.1, 100);
  way.tell(40'000, 0.1, 100);
  EXPECT_NEAR(way.unit.utilisation(), 0.95 + 100 * 512 / kFull, 1e-9);
  way.tell(1000, 0.9);
  way.tell(1000, 0.9);
  EXPECT_NEAR(way.unit.utilisation(), 0.9, 1e-9);
}

TEST(Hpcc, WhereNobodyTellsAnythingTheWindowGrowsByItsStep) {
  wire::IntPath slow;
  slow.hops = 1;
  slow.hop[0] = {0, 5, 5, 4000};
  for (const wire::IntPath& path : {wire::IntPath{}, slow}) {
    Way way;
    for (int i = 0; i < 40; ++i) way.tell(1000, 2);
    const double low = way.unit.window_bytes();
    for (int i = 0; i < 10; ++i) {  // the first of them is another path
      EXPECT_NEAR(way.unit.window_bytes(), low + std::max(0, i - 1) * kStep, 1e-6);
      ++way.packets;
      way.unit.on_telemetry(way.now, path, way.packets, way.packets);
    }
    way.path = {};
    way.tell(1000, 2);
    way.tell(1000, 2);
    EXPECT_DOUBLE_EQ(way.unit.utilisation(), 2) << "and there is one again that does";
  }
}

TEST(Hpcc, AnswersThatWereOvertakenSayNothing) {
  Way way;
  way.tell(1000, 0.5);
  const double before = way.unit.window_bytes();
  way.now -= 20;
  way.tell(-10, 1);
  EXPECT_EQ(way.unit.window_bytes(), before);
}

TEST(Hpcc, AnotherPathBeginsAnew) {
  Way way;
  way.tell(1000, 0.5);
  const double before = way.unit.utilisation();
  way.path.path = 7;
  way.tell(1000, 3);
  EXPECT_EQ(way.unit.utilisation(), before);
  way.tell(1000, 3);
  EXPECT_NEAR(way.unit.utilisation(), 3, 1e-9);
}

TEST(Hpcc, PortsOfOtherSpeedsCountByTheirOwn) {
  Way way;
  wire::IntPath path;
  path.hops = 2;
  path.hop[0] = {0, 0, 0, 4000};  // a switch that does not know its speed
  path.hop[1] = {wire::int_speed_code(25'000), 0, 0, 50};
  way.unit.on_telemetry(0, path, 5, 5);
  path.hop[0].time = path.hop[0].sent = 60'000;
  path.hop[1].time = 250;  // as long as a thousand at 100 Gbit/s
  path.hop[1].sent = 200;
  way.unit.on_telemetry(kBase, path, 6, 6);
  EXPECT_NEAR(way.unit.utilisation(), 0.8 + 50 * 512 / (kFull / 4), 1e-9);
}

TEST(Hpcc, WithoutABaseTheShortestRoundTripIsIt) {
  Hpcc unit(HpccParameters{}, kLine);
  wire::IntPath path;
  path.hops = 1;
  path.hop[0] = {wire::int_speed_code(100'000), 0, 0, 0};
  unit.on_telemetry(0, path, 1, 1);
  EXPECT_EQ(unit.rate_bps(0), 1e11);
  EXPECT_EQ(unit.window_packets(), std::numeric_limits<std::uint64_t>::max());
  unit.on_rtt(2 * kBase);
  EXPECT_EQ(unit.window_bytes(), 2 * kFull);
  unit.on_rtt(kBase);
  EXPECT_EQ(unit.window_bytes(), kFull);
  unit.on_rtt(5 * kBase);
  EXPECT_EQ(unit.window_bytes(), kFull);
}

TEST(Hpcc, IsAnAlternativeOfTheRateOfAQueuePair) {
  QpConfig c;
  c.line_bps = kLine;
  c.congestion_control = CongestionControl::hpcc;
  c.hpcc = parameters();
  RateControl rate(c);
  ASSERT_NE(rate.hpcc(), nullptr);
  rate.on_sent(0, 1000);
  EXPECT_EQ(rate.next_send(), 80);
  EXPECT_EQ(rate.window_packets(), 128u);
  rate.on_cnp(0);
  EXPECT_EQ(rate.rate_bps(0), 1e11) << "it heeds no CNPs";
  wire::IntPath path;
  path.hops = 1;
  path.hop[0] = {wire::int_speed_code(100'000), 0, 0, 0};
  rate.on_telemetry(0, path, 0, 1);
  path.hop[0].time = path.hop[0].sent = 1000;
  rate.on_telemetry(kBase, path, 1, 2);
  EXPECT_NEAR(rate.rate_bps(0), 1e11 * 0.95 + 5e7, 1);
  EXPECT_EQ(rate.changes()->cuts, 1u);
  EXPECT_EQ(rate.window_packets(), 122u) << "121.7: one leaves while less than the window is under way";
}

// Ports near the source tell early, and those behind them as late as ever: the lower rate counts.
TEST(Hpcc, RecordsThatComeBackEarlySetARateOfTheirOwn) {
  QpConfig c;
  c.line_bps = kLine;
  c.congestion_control = CongestionControl::hpcc;
  c.hpcc = parameters();
  c.hpcc.base_rtt_ns = 100 * kBase;
  wire::IntPath path;
  path.hops = 1;
  for (const bool listens : {true, false}) {
    c.hpcc.near_rtt_ns = listens ? kBase : 0;
    RateControl rate(c);
    rate.on_sent(0, 1000);
    for (unsigned i = 0; i < 10; ++i) {
      const auto slots = static_cast<std::uint16_t>(i * 1000);
      path.hop[0] = {wire::int_speed_code(100'000), slots, static_cast<std::uint16_t>(2 * slots), 0};
      rate.on_mirrored(i * (kBase + 1), path);
      path.hop[0].sent = slots / 2;
      rate.on_telemetry(i * (kBase + 1), path, 0, 1);
    }
    const double far = rate.hpcc()->rate_bps(0);
    EXPECT_GT(far, 0.9 * kLine);
    EXPECT_EQ(rate.near_hpcc() != nullptr, listens);
    if (listens) {
      // Nine samples, each more than a round trip after the one before: halved again and again.
      EXPECT_NEAR(rate.near_hpcc()->utilisation(), 2, 1e-9);
      EXPECT_LT(rate.rate_bps(0), 3e8);
      EXPECT_EQ(rate.near_hpcc()->cuts(), 9u);
    } else {
      EXPECT_EQ(rate.rate_bps(0), far);
    }
  }
}

}  // namespace
}  // namespace weft::nic
