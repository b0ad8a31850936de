// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/observe/depth_ring.h"

#include <gtest/gtest.h>

#include <thread>

namespace weft {
namespace {

// Writes a sample of three values; false when there is no room.
bool push(DepthRing& ring, std::uint64_t value) {
  const auto sample = ring.back();
  if (sample.empty()) return false;
  for (std::uint64_t& v : sample) v = value++;
  ring.push();
  return true;
}

TEST(DepthRing, WhatFindsNoRoomIsLostAndCountedAndTheRestStaysInOrder) {
  DepthRing ring(3, 3 * 8 * 4 + 5);  // four samples, and a bit
  for (std::uint64_t i = 0; i < 7; ++i) EXPECT_EQ(push(ring, 10 * i), i < 4);
  EXPECT_EQ(ring.lost(), 3U);
  for (std::uint64_t i = 0; i < 4; ++i) {
    const auto sample = ring.front();
    ASSERT_EQ(sample.size(), 3U);
    EXPECT_EQ(sample[0], 10 * i);
    EXPECT_EQ(sample[2], 10 * i + 2);
    ring.pop();
  }
  EXPECT_TRUE(ring.front().empty());
  EXPECT_TRUE(push(ring, 1));
  EXPECT_EQ(ring.lost(), 3U);
}

TEST(DepthRing, ThereIsRoomForASampleHoweverLittleMemory) {
  DepthRing ring(1000, 1);
  EXPECT_FALSE(ring.back().empty());
}

TEST(DepthRing, AReaderOnAnotherThreadSeesWholeSamplesInOrder) {
  constexpr std::uint64_t kSamples = 200'000;
  DepthRing ring(3, 3 * 8 * 16);
  std::thread writer([&] {
    for (std::uint64_t i = 1; i <= kSamples; ++i) push(ring, i);
    while (!push(ring, kSamples + 1)) std::this_thread::yield();
  });
  std::uint64_t last = 0;
  std::uint64_t read = 0;
  while (last != kSamples + 1) {
    const auto sample = ring.front();
    if (sample.empty()) {
      std::this_thread::yield();
      continue;
    }
    ASSERT_GT(sample[0], last);
    ASSERT_EQ(sample[2], sample[0] + 2);
    last = sample[0];
    ++read;
    ring.pop();
  }
  writer.join();
  EXPECT_GE(read + ring.lost(), kSamples + 1);
}

}  // namespace
}  // namespace weft
