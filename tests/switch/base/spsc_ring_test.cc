// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/base/spsc_ring.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <memory>
#include <thread>

#include "switch/base/rng.h"

namespace weft {
namespace {

// The ring moves pointers and looks at nothing behind them.
rte_mbuf* pointer(std::uint64_t n) {
  return reinterpret_cast<rte_mbuf*>(n);
}
std::uint64_t number(rte_mbuf* m) {
  return reinterpret_cast<std::uint64_t>(m);
}

std::uint16_t push(SpscRing& ring, std::uint64_t& next, std::uint16_t count) {
  std::array<rte_mbuf*, 2048> packets;
  for (std::uint16_t i = 0; i < count; ++i) packets[i] = pointer(next + i);
  const std::uint16_t taken = ring.push(packets.data(), count);
  next += taken;
  return taken;
}

TEST(SpscRing, TakesExactlyItsCapacity) {
  const auto ring = std::make_unique<SpscRing>();
  std::uint64_t next = 1;
  EXPECT_EQ(push(*ring, next, 1000), 1000);
  EXPECT_EQ(push(*ring, next, 1000), SpscRing::kCapacity - 1000);
  EXPECT_EQ(push(*ring, next, 1), 0);
  EXPECT_EQ(ring->size(), SpscRing::kCapacity);
}

TEST(SpscRing, AnEmptyRingGivesNothing) {
  const auto ring = std::make_unique<SpscRing>();
  rte_mbuf* packets[4];
  EXPECT_EQ(ring->pop(packets, 4), 0);
  EXPECT_EQ(ring->size(), 0u);
}

TEST(SpscRing, KeepsOrderOverManyRoundsOfAnySize) {
  const auto ring = std::make_unique<SpscRing>();
  Rng rng(7);
  std::uint64_t in = 1;
  std::uint64_t out = 1;
  std::array<rte_mbuf*, 2048> packets;
  for (int round = 0; round < 20'000; ++round) {
    push(*ring, in, static_cast<std::uint16_t>(rng.below(200)));
    const std::uint16_t count = ring->pop(packets.data(), static_cast<std::uint16_t>(rng.below(200)));
    for (std::uint16_t i = 0; i < count; ++i) ASSERT_EQ(number(packets[i]), out++);
    ASSERT_EQ(ring->size(), in - out);
  }
  EXPECT_GT(out, SpscRing::kCapacity * 100u);
}

TEST(SpscRing, TwoThreadsSeeEveryPacketOnceAndInOrder) {
  constexpr std::uint64_t kPackets = 2'000'000;
  const auto ring = std::make_unique<SpscRing>();
  std::thread sender([&] {
    std::uint64_t next = 1;
    while (next <= kPackets) {
      const auto left = kPackets + 1 - next;
      if (push(*ring, next, static_cast<std::uint16_t>(left < 32 ? left : 32)) == 0) std::this_thread::yield();
    }
  });
  std::uint64_t expected = 1;
  bool in_order = true;
  while (expected <= kPackets) {
    rte_mbuf* packets[64];
    const std::uint16_t count = ring->pop(packets, 64);
    if (count == 0) std::this_thread::yield();
    for (std::uint16_t i = 0; i < count; ++i) in_order &= number(packets[i]) == expected++;
  }
  sender.join();
  EXPECT_TRUE(in_order);
  EXPECT_EQ(ring->size(), 0u);
}

}  // namespace
}  // namespace weft
