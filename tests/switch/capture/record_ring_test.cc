// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/capture/record_ring.h"

#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <random>
#include <thread>

namespace weft::capture {
namespace {

constexpr std::size_t kBytes = 65536;

// A packet of `size` bytes that all hold the low byte of `number`. False when there was no room.
bool put(RecordRing& ring, std::uint32_t number, std::uint32_t size) {
  Record* record = ring.reserve(size);
  if (record == nullptr) return false;
  record->kind = RecordKind::rx;
  record->length = number;
  std::memset(record + 1, static_cast<int>(number & 0xff), size);
  return true;
}

void expect(const Record* record, std::uint32_t number, std::uint32_t size) {
  ASSERT_NE(record, nullptr);
  ASSERT_EQ(record->length, number);
  ASSERT_EQ(record->captured, size);
  for (std::uint32_t i = 0; i < size; ++i) ASSERT_EQ(packet_of(*record)[i], number & 0xff);
}

TEST(RecordRing, WhatIsNotPublishedIsNotSeenAndCanBeTakenBack) {
  RecordRing ring(kBytes);
  EXPECT_EQ(ring.front(), nullptr);
  ASSERT_TRUE(put(ring, 1, 100));
  const std::uint64_t first = ring.written();
  ASSERT_TRUE(put(ring, 2, 100));
  EXPECT_EQ(ring.front(), nullptr);
  ring.publish(first);
  expect(ring.front(), 1, 100);
  ring.pop();
  EXPECT_EQ(ring.front(), nullptr);
  ASSERT_TRUE(put(ring, 3, 10));
  ring.take_back();
  ASSERT_TRUE(put(ring, 4, 10));
  ring.publish(ring.written());
  expect(ring.front(), 4, 10);
}

TEST(RecordRing, WhatFindsNoRoomIsLostAndCounted) {
  RecordRing ring(kBytes);
  std::uint32_t put_in = 0;
  while (put(ring, put_in, 1000)) ++put_in;
  EXPECT_EQ(put_in, kBytes / 1032);
  EXPECT_EQ(ring.lost(), 1U);
  EXPECT_FALSE(put(ring, 0, kBytes));
  EXPECT_EQ(ring.lost(), 2U);
  ring.publish(ring.written());
  for (std::uint32_t i = 0; i < put_in; ++i) {
    expect(ring.front(), i, 1000);
    ring.pop();
  }
  EXPECT_EQ(ring.front(), nullptr);
  EXPECT_TRUE(put(ring, 1, 1000));
}

TEST(RecordRing, KeepsContentAndOrderForAnySizes) {
  const std::uint32_t seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  RecordRing ring(kBytes);
  struct Expected {
    std::uint32_t number, size;
  };
  std::deque<Expected> inside;
  for (std::uint32_t n = 0; n < 20'000; ++n) {
    const std::uint32_t size = random() % 3 == 0 ? random() % 9000 : random() % 100;
    if (put(ring, n, size)) inside.push_back({n, size});
    ring.publish(ring.written());
    while (!inside.empty() && random() % 2 == 0) {
      ASSERT_NO_FATAL_FAILURE(expect(ring.front(), inside.front().number, inside.front().size));
      ring.pop();
      inside.pop_front();
    }
    if (inside.empty()) {
      ASSERT_EQ(ring.front(), nullptr);
    }
  }
}

TEST(RecordRing, TwoThreadsNeverSeeAHalfWrittenPacket) {
  RecordRing ring(kBytes);
  constexpr std::uint32_t kCount = 100'000;
  std::uint32_t kept = 0;
  std::atomic<bool> done{false};
  std::thread writer([&] {
    for (std::uint32_t n = 0; n < kCount; ++n) {
      if (put(ring, n, n % 300)) ++kept;
      ring.publish(ring.written());
    }
    done.store(true);
  });
  std::uint32_t seen = 0;
  std::int64_t last = -1;
  while (true) {
    const bool ended = done.load();
    const Record* record = ring.front();
    if (record == nullptr) {
      if (ended) break;
      std::this_thread::yield();
      continue;
    }
    const std::uint32_t number = record->length;
    EXPECT_GT(std::int64_t{number}, last);
    last = number;
    ASSERT_NO_FATAL_FAILURE(expect(record, number, number % 300));
    ring.pop();
    ++seen;
  }
  writer.join();
  EXPECT_EQ(seen, kept);
  EXPECT_EQ(ring.lost(), kCount - kept);
}

}  // namespace
}  // namespace weft::capture
