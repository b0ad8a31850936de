// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/runtime/alarm.h"

#include <gmock/gmock.h>

#include <atomic>
#include <chrono>
#include <vector>

namespace weft {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

using Lists = std::vector<std::vector<TimeNs>>;
std::vector<Due> due(const Lists& lists, TimeNs from, TimeNs until, TimeNs& next) {
  const auto time = [&](std::size_t list, std::size_t place) {
    return place < lists[list].size() ? lists[list][place] : kNever;
  };
  return due_in_order(lists.size(), from, until, time, next);
}

TEST(DueInOrder, TimesOfAllListsComeInOneOrder) {
  const Lists lists{{10, 30, 50}, {}, {20, 30, 70}};
  TimeNs next = 0;
  EXPECT_THAT(due(lists, 0, 60, next),
              ElementsAre(Due{10, 0, 0}, Due{20, 2, 0}, Due{30, 0, 1}, Due{30, 2, 1}, Due{50, 0, 2}));
  EXPECT_EQ(next, 70u);
  EXPECT_THAT(due(lists, 60, 71, next), ElementsAre(Due{70, 2, 2}));
  EXPECT_EQ(next, kNever);
}

TEST(DueInOrder, WhatIsDueAtTheEndComesNextTimeAndNothingComesTwice) {
  const Lists lists{{10, 20}};
  TimeNs next = 0;
  EXPECT_THAT(due(lists, 0, 20, next), ElementsAre(Due{10, 0, 0}));
  EXPECT_EQ(next, 20u);
  EXPECT_THAT(due(lists, 20, 21, next), ElementsAre(Due{20, 0, 1}));
  EXPECT_THAT(due(lists, 21, 100, next), IsEmpty());
}

// The clock goes exactly where the alarm asks to be woken: each thing happens at its nanosecond, and nothing else does.
TEST(RunAlarm, EverythingHappensAtItsTime) {
  const Lists lists{{1'000, 1'500'000, 1'500'001}, {1'200, 40'000'000}};
  TimeNs clock = 0;
  TimeNs done = 0;
  std::vector<TimeNs> acted, late;
  int calls = 0;
  run_alarm([&] { return clock; },
            [&](TimeNs until) {
              clock = until;
              return until != kNever;
            },
            [&](TimeNs now) {
              ++calls;
              TimeNs next = 0;
              for (const Due& d : due(lists, done, now + 1, next)) {
                acted.push_back(d.at);
                late.push_back(now - d.at);
              }
              done = now + 1;
              return next;
            });
  EXPECT_THAT(acted, ElementsAre(1'000, 1'200, 1'500'000, 1'500'001, 40'000'000));
  EXPECT_THAT(late, testing::Each(0u));
  EXPECT_EQ(calls, 6);
}

TEST(Alarm, ItIsCalledWhenItsTimesChangeAndEndsWhileItWaits) {
  std::atomic<int> calls{0};
  const auto begin = std::chrono::steady_clock::now();
  {
    Alarm alarm([] { return TimeNs{0}; },
                [&](TimeNs) {
                  ++calls;
                  return kNever;
                });
    while (calls < 1) std::this_thread::yield();
    alarm.call_now();
    while (calls < 2) std::this_thread::yield();
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::minutes(1));
  EXPECT_EQ(calls, 2);
}

}  // namespace
}  // namespace weft
