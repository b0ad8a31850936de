// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Things that are done at their times, on a thread that sleeps until the next one.
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "switch/base/time.h"

namespace weft {

/// Something of one of several lists, each in the order of its times.
struct Due {
  TimeNs at = 0;          ///< ns, on the clock of the lists
  std::size_t list = 0;   ///< which of them
  std::size_t place = 0;  ///< in that list
  bool operator==(const Due&) const = default;
};

/// What is due in [from, until) of all lists, in the order of its times; of the same time, in the order of the lists.
/// @param times_of  times_of(list, place) is a time in nanoseconds, kNever behind the end of a list
/// @param next      becomes the first time that is not before `until`, kNever when there is none
template <typename F>
[[nodiscard]] std::vector<Due> due_in_order(std::size_t lists, TimeNs from, TimeNs until, F&& times_of, TimeNs& next) {
  std::vector<Due> due;
  next = kNever;
  for (std::size_t list = 0; list < lists; ++list) {
    std::size_t place = 0;
    while (times_of(list, place) < from) ++place;
    for (; times_of(list, place) < until; ++place) due.push_back({times_of(list, place), list, place});
    next = std::min(next, times_of(list, place));
  }
  std::stable_sort(due.begin(), due.end(), [](const Due& a, const Due& b) { return a.at < b.at; });
  return due;
}

/// Calls act(now()), which says when it wants to be called next, and waits until then, again and again.
/// @param wait  wait(time) returns at that time or earlier; false: it is over
template <typename Now, typename Wait, typename Act>
void run_alarm(Now&& now, Wait&& wait, Act&& act) {
  while (wait(act(now()))) {
  }
}

/// run_alarm() on a thread of its own, as long as the object lives. A call comes as late as the kernel wakes a sleeper.
class Alarm {
 public:
  Alarm(std::function<TimeNs()> now, std::function<TimeNs(TimeNs)> act)
      : now_(std::move(now)), thread_([this, act = std::move(act)] {
          run_alarm(
              now_, [this](TimeNs until) { return wait(until); }, act);
        }) {}
  ~Alarm() {
    {
      const std::lock_guard lock(mutex_);
      over_ = true;
    }
    changed_.notify_one();
    thread_.join();
  }
  Alarm(const Alarm&) = delete;
  Alarm& operator=(const Alarm&) = delete;

  /// What it waits for may have changed: calls at once. Any thread; waits for nothing.
  void call_now() {
    {
      const std::lock_guard lock(mutex_);
      called_ = true;
    }
    changed_.notify_one();
  }

 private:
  bool wait(TimeNs until) {
    // No system clock has so many nanoseconds left to wait for.
    constexpr TimeNs kLongest = 3'600'000'000'000;
    std::unique_lock lock(mutex_);
    const TimeNs here = now_();
    if (until > here) {
      const auto duration = std::chrono::nanoseconds(std::min<TimeNs>(until - here, kLongest));
      changed_.wait_for(lock, duration, [this] { return over_ || called_; });
    }
    called_ = false;
    return !over_;
  }

  std::function<TimeNs()> now_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool over_ = false;
  bool called_ = false;
  std::thread thread_;  ///< last: it uses the others
};

}  // namespace weft
