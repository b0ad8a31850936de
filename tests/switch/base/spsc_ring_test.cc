// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/base/spsc_ring.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <array>
#include <cstdint>
#include <memory>
#include <new>
#include <thread>
#include <vector>

#include "switch/base/rng.h"

namespace weft {
namespace {

constexpr std::uint32_t kSize = 1024;
using Ring = SpscRing<std::uint64_t, kSize>;

std::uint32_t push(Ring& ring, std::uint64_t& next, std::uint32_t count) {
  std::array<std::uint64_t, 2048> items;
  for (std::uint32_t i = 0; i < count; ++i) items[i] = next + i;
  const std::uint32_t taken = ring.push(items.data(), count);
  next += taken;
  return taken;
}

TEST(SpscRing, TakesExactlyItsCapacity) {
  const auto ring = std::make_unique<Ring>();
  std::uint64_t next = 1;
  EXPECT_EQ(push(*ring, next, 1000), 1000u);
  EXPECT_EQ(push(*ring, next, 1000), kSize - 1000);
  EXPECT_EQ(push(*ring, next, 1), 0u);
  EXPECT_EQ(ring->size(), kSize);
  EXPECT_EQ(ring->lost(), 0u) << "what stays the caller's is not lost";
}

TEST(SpscRing, AnEmptyRingGivesNothing) {
  const auto ring = std::make_unique<Ring>();
  std::uint64_t items[4];
  EXPECT_EQ(ring->pop(items, 4), 0u);
  EXPECT_TRUE(ring->empty());
}

TEST(SpscRing, KeepsOrderOverManyRoundsOfAnySize) {
  const auto ring = std::make_unique<Ring>();
  Rng rng(7);
  std::uint64_t in = 1;
  std::uint64_t out = 1;
  std::array<std::uint64_t, 2048> items;
  for (int round = 0; round < 20'000; ++round) {
    push(*ring, in, static_cast<std::uint32_t>(rng.below(200)));
    const std::uint32_t count = ring->pop(items.data(), static_cast<std::uint32_t>(rng.below(200)));
    for (std::uint32_t i = 0; i < count; ++i) ASSERT_EQ(items[i], out++);
    ASSERT_EQ(ring->size(), in - out);
  }
  EXPECT_GT(out, kSize * 100u);
}

TEST(SpscRing, CountsWhatIsForgottenForLackOfRoom) {
  SpscRing<std::uint32_t, 4> ring;
  for (std::uint32_t i = 0; i < 4; ++i) EXPECT_TRUE(ring.push_or_lose(i));
  EXPECT_FALSE(ring.push_or_lose(4));
  EXPECT_FALSE(ring.push_or_lose(5));
  EXPECT_EQ(ring.lost(), 2u);
  std::uint32_t item = 9;
  EXPECT_TRUE(ring.pop(item));
  EXPECT_EQ(item, 0u);
  EXPECT_TRUE(ring.push_or_lose(6));
  EXPECT_EQ(ring.lost(), 2u);
}

// A poll that stores anything, and be it the value that is there, takes a cache line away from the sender. Memory that
// cannot be written to shows it.
TEST(SpscRing, PollingAnEmptyRingWritesNothing) {
  void* memory = mmap(nullptr, sizeof(Ring), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  auto* ring = new (memory) Ring;
  std::uint64_t next = 1;
  push(*ring, next, 10);
  std::uint64_t items[32];
  ASSERT_EQ(ring->pop(items, 32), 10u);
  ASSERT_EQ(mprotect(memory, sizeof(Ring), PROT_READ), 0);
  EXPECT_EQ(ring->pop(items, 32), 0u);
  EXPECT_EQ(ring->push(items, 0), 0u);
  EXPECT_TRUE(ring->empty());
  munmap(memory, sizeof(Ring));
}

TEST(SpscRing, AReloadTakesOverWhatIsThereAndWhatWasLost) {
  SpscRing<std::uint32_t, 8> old;
  for (std::uint32_t i = 0; i < 9; ++i) static_cast<void>(old.push_or_lose(i));
  SpscRing<std::uint32_t, 4> now;
  EXPECT_TRUE(now.push(100));
  now.adopt(old, [](std::uint32_t& item) {
    item += 10;
    return item % 2 == 0;
  });
  EXPECT_TRUE(old.empty());
  std::vector<std::uint32_t> items;
  now.drain([&](std::uint32_t item) { items.push_back(item); });
  // Four are kept of eight, and there is room for three.
  EXPECT_EQ(items, (std::vector<std::uint32_t>{100, 10, 12, 14}));
  EXPECT_EQ(now.lost(), 2u);
}

TEST(SpscRing, TwoThreadsSeeEveryItemOnceAndInOrder) {
  constexpr std::uint64_t kItems = 2'000'000;
  const auto ring = std::make_unique<Ring>();
  std::thread sender([&] {
    std::uint64_t next = 1;
    while (next <= kItems) {
      const auto left = kItems + 1 - next;
      if (push(*ring, next, static_cast<std::uint32_t>(left < 32 ? left : 32)) == 0) std::this_thread::yield();
    }
  });
  std::uint64_t expected = 1;
  bool in_order = true;
  while (expected <= kItems) {
    std::uint64_t items[64];
    const std::uint32_t count = ring->pop(items, 64);
    if (count == 0) std::this_thread::yield();
    for (std::uint32_t i = 0; i < count; ++i) in_order &= items[i] == expected++;
  }
  sender.join();
  EXPECT_TRUE(in_order);
  EXPECT_TRUE(ring->empty());
}

}  // namespace
}  // namespace weft
