// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/runtime/doorbell.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

namespace weft {
namespace {

using Clock = std::chrono::steady_clock;
constexpr TimeNs kLong = 900'000'000;

TEST(Doorbell, WakesASleeper) {
  Doorbell bell;
  std::atomic<bool> asleep{false};
  const auto begin = Clock::now();
  int naps = 0;
  std::atomic<bool> woken{false};
  std::thread sleeper([&] {
    // Woken early or not at all: a hundred naps of 0.9 s would take a minute and a half.
    for (; naps < 100; ++naps) {
      bell.sleep(kLong, [&] {
        asleep = true;
        return true;
      });
      asleep = false;
    }
    woken = true;
  });
  while (!woken) {
    if (asleep) bell.ring();
    std::this_thread::yield();
  }
  sleeper.join();
  EXPECT_LT(Clock::now() - begin, std::chrono::seconds(45));
}

TEST(Doorbell, DoesNotSleepWhenSomethingCameBefore) {
  Doorbell bell;
  const auto begin = Clock::now();
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(bell.sleep(kLong, [] { return false; }));
  EXPECT_LT(Clock::now() - begin, std::chrono::seconds(45));
}

// What was done before ring() is seen by the sleeper before it sleeps, or wakes it.
TEST(Doorbell, NeverSleepsOverARing) {
  Doorbell bell;
  std::atomic<int> sent{0};
  std::atomic<int> seen{0};
  constexpr int kRounds = 2000;
  const auto begin = Clock::now();
  std::thread sleeper([&] {
    while (seen < kRounds) {
      bell.sleep(kLong, [&] { return sent.load(std::memory_order_relaxed) == seen.load(std::memory_order_relaxed); });
      seen = sent.load();
    }
  });
  for (int i = 1; i <= kRounds; ++i) {
    sent.store(i, std::memory_order_relaxed);
    bell.ring();
    while (seen < i) std::this_thread::yield();
  }
  sleeper.join();
  EXPECT_LT(Clock::now() - begin, std::chrono::seconds(45)) << "some rings were slept over";
}

TEST(Doorbell, ANapEndsByItself) {
  Doorbell bell;
  EXPECT_TRUE(bell.sleep(1'000'000, [] { return true; }));
}

}  // namespace
}  // namespace weft
