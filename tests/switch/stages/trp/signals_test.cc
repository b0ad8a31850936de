// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/stages/trp/signals.h"

#include <gtest/gtest.h>

#include <initializer_list>

namespace weft::stages {
namespace {

constexpr TrpSignalSettings kSettings{.flows = 64, .queue_bytes = 100'000, .rtt_ns = 50'000, .interval_ns = 5'000};
constexpr std::uint16_t kShort = 100, kLong = 400;  // queues of 51 and 205 kB

wire::FlowName way_of(std::uint32_t qp) {
  return {0x0a020001'0a010001, qp, false};
}

wire::IntPath path_of(std::initializer_list<std::uint16_t> queues) {
  wire::IntPath path;
  for (const std::uint16_t queue : queues) path.hop[path.hops++] = {10, 1, 1, queue};
  return path;
}

TEST(TrpSignals, ALongQueueBehindTheSwitchCountsAndOneInFrontDoesNot) {
  TrpSignals unit(kSettings);
  EXPECT_FALSE(unit.on_echo(0, way_of(1), path_of({kLong, kLong}))) << "nobody knows which ports lie in front";
  unit.on_records(0, way_of(1), 1);
  EXPECT_FALSE(unit.on_echo(0, way_of(1), path_of({kLong, kShort, kShort})));
  EXPECT_FALSE(unit.on_echo(0, way_of(1), path_of({kLong})));
  EXPECT_FALSE(unit.on_echo(0, way_of(1), {}));
  EXPECT_TRUE(unit.on_echo(0, way_of(1), path_of({kShort, kShort, kLong})));
  EXPECT_FALSE(unit.on_echo(0, way_of(2), path_of({kShort, kShort, kLong}))) << "another flow's";
  // Records of the source's data centre stay with their packets from now on: they lie in front as well.
  unit.on_records(10'000, way_of(1), 3);
  EXPECT_FALSE(unit.on_echo(10'000, way_of(1), path_of({kShort, kShort, kLong})));
}

TEST(TrpSignals, TheThresholdItselfCounts) {
  TrpSignals unit({.flows = 4, .queue_bytes = kShort * wire::kIntQueueBytes});
  unit.on_records(0, way_of(1), 0);
  EXPECT_FALSE(unit.on_echo(0, way_of(1), path_of({kShort - 1})));
  EXPECT_TRUE(unit.on_echo(0, way_of(1), path_of({kShort})));
}

TEST(TrpSignals, OneSignalPerIntervalAndFlow) {
  TrpSignals unit(kSettings);
  for (const std::uint32_t qp : {1u, 2u}) unit.on_records(0, way_of(qp), 0);
  int first = 0;
  for (TimeNs now = 0; now < 50'000; now += 1'000) first += unit.on_echo(now, way_of(1), path_of({kLong})) ? 1 : 0;
  EXPECT_EQ(first, 10);
  EXPECT_TRUE(unit.on_echo(49'999, way_of(2), path_of({kLong})));
}

TEST(TrpSignals, ALongRoundTripCounts) {
  TrpSignals unit(kSettings);
  unit.on_left(1'000, way_of(1), wire::Psn(7), true);
  EXPECT_FALSE(unit.on_answer(50'999, way_of(1), wire::Psn(7), true));
  EXPECT_EQ(unit.last_rtt_ns(), 49'999u);
  unit.on_left(100'000, way_of(1), wire::Psn(8), true);
  EXPECT_FALSE(unit.on_answer(150'000, way_of(2), wire::Psn(8), true)) << "another flow's";
  EXPECT_TRUE(unit.on_answer(150'000, way_of(1), wire::Psn(8), true));
  EXPECT_FALSE(unit.on_answer(900'000, way_of(1), wire::Psn(8), true)) << "it was answered already";
  EXPECT_EQ(unit.round_trips(), 2u);
}

// The ACK of a later packet acknowledges those before it; an older one says nothing.
TEST(TrpSignals, OneRequestIsTimedAtATimeAndOnlyOneThatAsks) {
  TrpSignals unit(kSettings);
  unit.on_left(0, way_of(1), wire::Psn(0xfffffe), false);
  unit.on_left(10, way_of(1), wire::Psn(0xffffff), true);
  unit.on_left(1'000, way_of(1), wire::Psn(0), true);
  EXPECT_FALSE(unit.on_answer(90'000, way_of(1), wire::Psn(0xfffffe), true));
  EXPECT_EQ(unit.round_trips(), 0u);
  EXPECT_TRUE(unit.on_answer(90'000, way_of(1), wire::Psn(0), true));
  EXPECT_EQ(unit.last_rtt_ns(), 89'990u);
}

TEST(TrpSignals, WhatIsSentAgainIsNotTimed) {
  for (const std::uint32_t again : {7u, 5u}) {
    TrpSignals unit(kSettings);
    unit.on_left(0, way_of(1), wire::Psn(7), true);
    unit.on_left(60'000, way_of(1), wire::Psn(again), true);
    EXPECT_FALSE(unit.on_answer(70'000, way_of(1), wire::Psn(7), true));
    EXPECT_EQ(unit.round_trips(), 0u);
  }
}

TEST(TrpSignals, ANakEndsTheTiming) {
  TrpSignals unit(kSettings);
  unit.on_left(0, way_of(1), wire::Psn(7), true);
  EXPECT_FALSE(unit.on_answer(60'000, way_of(1), wire::Psn(7), false));
  EXPECT_FALSE(unit.on_answer(70'000, way_of(1), wire::Psn(7), true));
  EXPECT_EQ(unit.round_trips(), 0u);
}

TEST(TrpSignals, AnAckThatIsLostDoesNotEndTheTimingForEver) {
  TrpSignals unit(kSettings);
  unit.on_left(0, way_of(1), wire::Psn(7), true);
  unit.on_left(TrpSignals::kLostAfter, way_of(1), wire::Psn(8), true);
  EXPECT_FALSE(unit.on_answer(TrpSignals::kLostAfter + 10, way_of(1), wire::Psn(8), true));
  EXPECT_EQ(unit.last_rtt_ns(), 10u);
}

// A table with room for four: the fifth flow takes the place of the one that was seen longest ago.
TEST(TrpSignals, WhoWasSeenLongestAgoLeaves) {
  TrpSignals unit({.flows = 4, .queue_bytes = 1});
  for (std::uint32_t qp = 1; qp <= 4; ++qp) unit.on_records(qp, way_of(qp), 0);
  unit.on_records(10, way_of(1), 0);
  unit.on_records(11, way_of(5), 0);
  EXPECT_FALSE(unit.on_echo(12, way_of(2), path_of({kLong})));
  for (const std::uint32_t qp : {1u, 3u, 4u, 5u}) EXPECT_TRUE(unit.on_echo(12, way_of(qp), path_of({kLong}))) << qp;
}

}  // namespace
}  // namespace weft::stages
