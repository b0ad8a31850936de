// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "tools/sim/event_queue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "switch/base/rng.h"

namespace weft::sim {
namespace {

class Recorder : public Event {
 public:
  Recorder(int id, std::vector<std::pair<TimeNs, int>>& log)
      : Event(EventOrder(EventOrder::Phase::traffic, static_cast<std::uint32_t>(id), EventOrder::Kind::port)),
        id_(id),
        log_(log) {}
  void fire(TimeNs now) override { log_.emplace_back(now, id_); }

 private:
  int id_;
  std::vector<std::pair<TimeNs, int>>& log_;
};

using Log = std::vector<std::pair<TimeNs, int>>;

TEST(EventQueue, FiresByTimeThenByTheOrderOfTheEventsWhoeverCameFirst) {
  std::vector<int> calls{1, 2, 3, 4, 5, 6};
  do {
    Log log;
    EventQueue queue;
    Recorder a(1, log), b(2, log), c(3, log), d(4, log), far(5, log), farther(6, log);
    for (const int call : calls) {
      if (call == 1) queue.schedule(a, 20);
      if (call == 2) queue.schedule(b, 10);
      if (call == 3) queue.schedule(c, 20);
      if (call == 4) queue.schedule(d, 20);
      if (call == 5) queue.schedule(far, 10'000'000);
      if (call == 6) queue.schedule(farther, 10'000'000);
    }
    while (queue.step()) continue;
    ASSERT_EQ(log, (Log{{10, 2}, {20, 1}, {20, 3}, {20, 4}, {10'000'000, 5}, {10'000'000, 6}}));
    ASSERT_EQ(queue.fired(), 6u);
  } while (std::next_permutation(calls.begin(), calls.end()));
}

TEST(EventQueue, RunsUpToATimeAndGoesOnFromThere) {
  EventQueue queue;
  Log log;
  Recorder a(1, log), b(2, log), far(3, log);
  queue.schedule(a, 5);
  queue.schedule(b, 10);
  queue.schedule(far, 1'000'000);
  queue.run_before(10);
  EXPECT_EQ(log, (Log{{5, 1}}));
  EXPECT_EQ(queue.now(), 5u);
  // From outside, for a time between.
  queue.schedule(a, 7);
  queue.run_before(11);
  queue.run_before(1'000'000);
  EXPECT_EQ(log, (Log{{5, 1}, {7, 1}, {10, 2}}));
  queue.run_before(kNever);
  EXPECT_EQ(log.back(), std::pair(TimeNs{1'000'000}, 3));
}

// What happens to the whole network comes before the events of its time, and may add some.
TEST(EventQueue, ATimeBeginsWithoutItsEventsAndTakesMore) {
  EventQueue queue;
  Log log;
  Recorder a(1, log), b(2, log), c(3, log);
  queue.schedule(b, 20);
  queue.begin(20);
  EXPECT_EQ(queue.now(), 20u);
  EXPECT_TRUE(log.empty());
  queue.schedule(c, 20);
  queue.schedule(a, 3);  // in the past: now
  EXPECT_EQ(queue.next_time(), 20u);
  queue.run_before(21);
  EXPECT_EQ(log, (Log{{20, 1}, {20, 2}, {20, 3}}));
}

// Fires another event now, as the last thing that it does.
class Caller : public Recorder {
 public:
  Caller(int id, EventQueue& queue, Event& other, std::vector<std::pair<TimeNs, int>>& log)
      : Recorder(id, log), queue_(queue), other_(other) {}
  void fire(TimeNs now) override {
    Recorder::fire(now);
    queue_.fire_now(other_);
  }

 private:
  EventQueue& queue_;
  Event& other_;
};

TEST(EventQueue, FiresAtOnceOnlyWhatWouldBeNext) {
  EventQueue queue;
  Log log;
  Recorder between(5, log), called(7, log);
  Caller first(2, queue, called, log);
  queue.schedule(first, 10);
  queue.schedule(between, 10);
  queue.run_before(kNever);
  EXPECT_EQ(log, (Log{{10, 2}, {10, 5}, {10, 7}}));
  log.clear();
  Recorder later(9, log);
  queue.schedule(first, 20);
  queue.schedule(later, 20);
  queue.run_before(kNever);
  EXPECT_EQ(log, (Log{{20, 2}, {20, 7}, {20, 9}}));
  EXPECT_EQ(queue.fired(), 6u);
  EXPECT_EQ(called.at(), kNever);
}

TEST(EventOrder, GoesByPhaseThenDeviceThenKindThenLink) {
  using Phase = EventOrder::Phase;
  using Kind = EventOrder::Kind;
  const std::vector<EventOrder> rising{{Phase::change, 9, Kind::start},        {Phase::traffic, 0, Kind::port, 7},
                                       {Phase::traffic, 1, Kind::port, 0},     {Phase::traffic, 1, Kind::port, 1},
                                       {Phase::traffic, 1, Kind::timers},      {Phase::traffic, 1, Kind::inbox},
                                       {Phase::traffic, 0xffffff, Kind::port}, {Phase::look, 0, Kind::sample, 5}};
  for (std::size_t i = 1; i < rising.size(); ++i) EXPECT_LT(rising[i - 1].key(), rising[i].key()) << i;
}

TEST(EventQueue, AnEventThatIsMovedFiresOnceAtItsLastTime) {
  Log log;
  EventQueue queue;
  Recorder a(1, log), b(2, log);
  queue.schedule(a, 5);
  queue.schedule(a, 1'000'000);
  queue.schedule(a, 50);
  queue.schedule(b, 7);
  queue.cancel(b);
  while (queue.step()) continue;
  EXPECT_EQ(log, (Log{{50, 1}}));
  EXPECT_EQ(queue.next_time(), kNever);
}

TEST(EventQueue, ATimeThatHasPassedMeansNow) {
  Log log;
  EventQueue queue;
  Recorder a(1, log), b(2, log);
  queue.schedule(a, 100);
  ASSERT_TRUE(queue.step());
  queue.schedule(b, 3);
  ASSERT_TRUE(queue.step());
  EXPECT_EQ(log.back(), (std::pair<TimeNs, int>{100, 2}));
}

// The order of a plain sorted list, over times near and far.
TEST(EventQueue, KeepsTheOrderOfASortedListUnderRandomSchedules) {
  constexpr std::uint64_t kSeed = 20260801;
  SCOPED_TRACE("seed " + std::to_string(kSeed));
  Rng rng(kSeed);
  Log log;
  EventQueue queue;
  constexpr int kEvents = 200;
  std::vector<std::unique_ptr<Recorder>> events;
  for (int i = 0; i < kEvents; ++i) events.push_back(std::make_unique<Recorder>(i, log));
  std::map<std::pair<TimeNs, std::uint64_t>, int> model;
  std::vector<std::pair<TimeNs, std::uint64_t>> place(kEvents, {kNever, 0});
  Log expected;
  for (int round = 0; round < 50'000; ++round) {
    const auto i = static_cast<std::size_t>(rng.below(kEvents));
    const std::uint64_t span = rng.below(3) == 0 ? 3'000'000 : 200;
    const TimeNs at = queue.now() + rng.below(span);
    if (place[i].first != at) {
      model.erase(place[i]);
      place[i] = {at, i};
      model[place[i]] = static_cast<int>(i);
    }
    queue.schedule(*events[i], at);
    if (rng.below(3) != 0) continue;
    const auto first = model.begin();
    expected.emplace_back(first->first.first, first->second);
    place[static_cast<std::size_t>(first->second)] = {kNever, 0};
    model.erase(first);
    ASSERT_TRUE(queue.step());
    ASSERT_EQ(log.back(), expected.back());
  }
}

}  // namespace
}  // namespace weft::sim
