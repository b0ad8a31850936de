// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/qos/scheduler.h"

#include <gtest/gtest.h>

#include <array>

#include "switch/base/rng.h"

namespace weft::qos {
namespace {

using Type = SchedulerSettings::Type;

PortSettings dwrr(const std::array<std::uint32_t, kClasses>& weights) {
  PortSettings s;
  for (unsigned i = 0; i < kClasses; ++i) s.scheduler[i] = {.type = Type::dwrr, .weight = weights[i]};
  return s;
}

// Backlogged queues send packets of random lengths; returns bytes by queue.
std::array<std::uint64_t, kClasses> run(Scheduler& s, std::uint8_t ready, std::uint64_t total, std::uint32_t longest,
                                        std::uint64_t seed) {
  Rng rng(seed);
  std::array<std::uint64_t, kClasses> bytes{};
  std::uint64_t sum = 0;
  while (sum < total) {
    const auto turn = s.next(ready);
    std::int64_t left = turn.bytes;
    std::uint64_t sent = 0;
    // As the engine does, in bursts of at most 32 packets.
    for (int i = 0; i < 32 && left > 0; ++i) {
      const std::uint64_t length = 64 + rng.below(longest - 63);
      left -= static_cast<std::int64_t>(length);
      sent += length;
    }
    s.sent(0, turn.queue, sent, false);
    bytes[turn.queue] += sent;
    sum += sent;
  }
  return bytes;
}

TEST(Scheduler, SharesOfBackloggedQueuesAreTheirWeightsWithinOnePercent) {
  for (const std::array<std::uint32_t, kClasses>& weights :
       {std::array<std::uint32_t, kClasses>{1, 1, 1, 1, 1, 1, 1, 1},
        {1, 2, 3, 4, 5, 6, 7, 8},
        {100, 1, 1, 50, 1, 1, 1, 1}}) {
    for (const std::uint32_t longest : {64u, 1518u, 9234u}) {
      Scheduler s(dwrr(weights), 9234);
      const auto bytes = run(s, 0xff, 400'000'000, longest, 11);
      double all = 0;
      double sum = 0;
      for (unsigned i = 0; i < kClasses; ++i) {
        all += weights[i];
        sum += static_cast<double>(bytes[i]);
      }
      for (unsigned i = 0; i < kClasses; ++i) {
        EXPECT_NEAR(static_cast<double>(bytes[i]) / sum, weights[i] / all, 0.01 * weights[i] / all)
            << "queue " << i << " longest " << longest;
      }
    }
  }
}

TEST(Scheduler, WhatIdleQueuesLeaveIsSharedByTheWeightsOfTheOthers) {
  Scheduler s(dwrr({10, 20, 30, 40, 50, 60, 70, 80}), 1518);
  const auto bytes = run(s, 0b00001010, 100'000'000, 1518, 3);
  EXPECT_NEAR(static_cast<double>(bytes[3]) / static_cast<double>(bytes[1]), 2.0, 0.02);
}

TEST(Scheduler, AQueueThatWasIdleHasNoCreditForIt) {
  Scheduler s(dwrr({1, 1, 1, 1, 1, 1, 1, 1}), 1518);
  (void)run(s, 0b01, 10'000'000, 1518, 5);
  const auto bytes = run(s, 0b11, 1'000'000, 1518, 5);
  EXPECT_NEAR(static_cast<double>(bytes[0]), static_cast<double>(bytes[1]), 20'000);
}

TEST(Scheduler, AReadyStrictQueueIsAlwaysChosenBeforeLowerOnesAndBeforeDwrr) {
  PortSettings settings = dwrr({1, 1, 1, 1, 1, 1, 1, 1});
  for (const unsigned q : {2u, 5u, 7u}) settings.scheduler[q].type = Type::strict;
  Scheduler s(settings, 1518);
  Rng rng(23);
  for (int i = 0; i < 200'000; ++i) {
    const auto ready = static_cast<std::uint8_t>(1 + rng.below(255));
    const auto turn = s.next(ready);
    ASSERT_TRUE(ready >> turn.queue & 1);
    unsigned want = 8;
    for (const unsigned q : {2u, 5u, 7u}) {
      if (ready >> q & 1) want = q;
    }
    if (want < 8) {
      ASSERT_EQ(turn.queue, want);
    } else {
      ASSERT_TRUE(turn.queue != 2 && turn.queue != 5 && turn.queue != 7);
    }
    s.sent(0, turn.queue, 64 + rng.below(1455), rng.below(2) == 0);
  }
}

// Sends whenever the scheduler lets it until `end`; returns bytes of `queue`.
std::uint64_t send_until(Scheduler& s, std::uint8_t ready, unsigned queue, TimeNs end, std::uint32_t length) {
  std::uint64_t bytes = 0;
  TimeNs now = 0;
  while (now < end) {
    const std::uint8_t may = s.may_send(now, ready);
    if (may == 0) {
      const TimeNs next = s.opens_at(ready);
      EXPECT_GT(next, now);
      now = next;
      continue;
    }
    const auto turn = s.next(may);
    s.sent(now, turn.queue, length, false);
    if (turn.queue == queue) bytes += length;
  }
  return bytes;
}

TEST(Scheduler, AShapedQueueSendsAtItsPeakRate) {
  PortSettings settings = dwrr({1, 1, 1, 1, 1, 1, 1, 1});
  settings.scheduler[3].pir_bytes_s = 123'456'789;
  settings.scheduler[3].pbs_bytes = 10'000;
  Scheduler s(settings, 1518);
  const std::uint64_t bytes = send_until(s, 0b1000, 3, 1'000'000'000, 1000);
  EXPECT_NEAR(static_cast<double>(bytes), 123'456'789 + 10'000, 2'000);
}

TEST(Scheduler, AShapedPortSendsAtItsPeakRateWhateverTheQueue) {
  PortSettings settings = dwrr({1, 1, 1, 1, 1, 1, 1, 1});
  settings.pir_bytes_s = 1'250'000'000;
  Scheduler s(settings, 1518);
  std::uint64_t all = 0;
  const std::uint64_t of_three = send_until(s, 0b1001, 3, 100'000'000, 1000);
  all = of_three * 2;
  EXPECT_NEAR(static_cast<double>(all), 125'000'000, 1'250'000);
}

TEST(Scheduler, AShapedQueueDoesNotHoldTheOthersBack) {
  PortSettings settings = dwrr({1, 1, 1, 1, 1, 1, 1, 1});
  settings.scheduler[7].type = Type::strict;
  settings.scheduler[7].pir_bytes_s = 1000;
  Scheduler s(settings, 1518);
  s.sent(0, 7, 5000, false);
  EXPECT_EQ(s.may_send(1, 0b10000001), 0b00000001);
  EXPECT_EQ(s.next(s.may_send(1, 0b10000001)).queue, 0);
}

}  // namespace
}  // namespace weft::qos
