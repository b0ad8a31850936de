// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/runtime/ring_news.h"

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <thread>
#include <vector>

#include "switch/base/spsc_ring.h"
#include "switch/runtime/doorbell.h"

namespace weft {
namespace {

TEST(RingNews, SaysOnceWhoHasTold) {
  RingNews news;
  EXPECT_FALSE(news.any());
  EXPECT_TRUE(news.take().empty());
  news.tell(3);
  news.tell(63);
  news.tell(3);
  EXPECT_TRUE(news.any());
  const WorkerSet told = news.take();
  EXPECT_TRUE(told.has(3));
  EXPECT_TRUE(told.has(63));
  EXPECT_FALSE(told.has(0));
  EXPECT_TRUE(news.take().empty());
}

// Three senders put numbers into a ring each, and tell of some of them together. The receiver looks only at rings of
// which it was told, and sleeps when there are none: it gets all numbers, in order.
TEST(RingNews, NothingIsForgottenThatWasToldAfterItWasPut) {
  constexpr std::uint16_t kSenders = 3;
  constexpr std::uint32_t kItems = 20'000;
  constexpr std::uint32_t kBatch = 8;
  std::array<SpscRing<std::uint32_t, 64>, kSenders> rings;
  RingNews news;
  Doorbell bell;
  std::vector<std::thread> senders;
  for (std::uint16_t from = 0; from < kSenders; ++from) {
    senders.emplace_back([&, from] {
      for (std::uint32_t sent = 0; sent < kItems;) {
        for (std::uint32_t i = 0; i <= sent % 5 && sent < kItems; ++i) {
          if (!rings[from].push(sent)) {
            std::this_thread::yield();
            break;
          }
          ++sent;
        }
        news.tell(from);
        bell.ring();
      }
    });
  }
  std::array<std::uint32_t, kSenders> got{};
  WorkerSet told;
  std::uint32_t all = 0;
  const auto begin = std::chrono::steady_clock::now();
  while (all < kSenders * kItems) {
    told.add(news.take());
    WorkerSet more;
    told.for_each([&](std::uint16_t from) {
      std::uint32_t items[kBatch];
      const std::uint32_t count = rings[from].pop(items, kBatch);
      for (std::uint32_t i = 0; i < count; ++i) EXPECT_EQ(items[i], got[from]++);
      all += count;
      if (count == kBatch) more.add(from);
    });
    told = more;
    if (told.empty() && all < kSenders * kItems) bell.sleep(900'000'000, [&] { return !news.any(); });
  }
  for (std::thread& sender : senders) sender.join();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(45)) << "some news were slept over";
}

}  // namespace
}  // namespace weft
