// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/pipeline/egress_queue.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "switch/base/rng.h"
#include "tests/support/effort.h"

namespace weft::pipeline {
namespace {

using ::testing::ElementsAre;

__extension__ using Wide = unsigned __int128;

constexpr TimeNs kStart = 1'000'000'000;

// Buffers that only have a length: an EgressQueue looks at nothing else.
class EgressQueueTest : public ::testing::Test {
 protected:
  rte_mbuf* packet(std::uint32_t bytes) {
    buffers_.push_back(std::make_unique<rte_mbuf>());
    buffers_.back()->pkt_len = bytes;
    return buffers_.back().get();
  }
  std::vector<std::unique_ptr<rte_mbuf>> buffers_;
};

// What a frame takes on the wire, in bits: at least 60 bytes, FCS 4, preamble 8, gap 12.
std::uint64_t wire_bits(std::uint32_t bytes) {
  return (std::max(bytes, 60u) + 24) * std::uint64_t{8};
}

TEST_F(EgressQueueTest, AnyRateIsExactOverAMillionPackets) {
  for (const std::uint64_t rate_mbps : {1u, 7u, 333u, 999u, 10'000u, 99'999u, 100'000u, 400'000u}) {
    EgressQueue queue(4, rate_mbps, 0);
    Rng rng(rate_mbps);
    rte_mbuf* m = packet(0);
    std::uint64_t bits = 0;
    for (std::uint64_t i = 0; i < weft::testing::rounds(1'000'000); ++i) {
      m->pkt_len = static_cast<std::uint32_t>(14 + rng.below(9000));
      bits += wire_bits(m->pkt_len);
      ASSERT_TRUE(queue.push(kStart, m));
      TimeNs sent_at = 0;
      // The wire is asked at the nanosecond at which it becomes free: neither earlier nor later.
      const TimeNs free_at = std::max(queue.next_deadline(), kStart);
      ASSERT_EQ(queue.pop(free_at, sent_at), m);
      ASSERT_EQ(sent_at, kStart + static_cast<TimeNs>(Wide{bits} * 1000 / rate_mbps)) << rate_mbps << " Mbit/s";
    }
  }
}

// tc-cake's overhead and mpu: what a frame takes can be more than on Ethernet, or less.
TEST_F(EgressQueueTest, AFrameTakesWhatItsFramingSays) {
  const auto takes = [&](WireFraming framing, std::uint32_t bytes) {
    EgressQueue queue(4, 8000, 0, framing);  // a byte a nanosecond
    rte_mbuf* m = packet(0);
    m->pkt_len = bytes;
    EXPECT_TRUE(queue.push(kStart, m));
    TimeNs sent_at = 0;
    EXPECT_EQ(queue.pop(kStart, sent_at), m);
    return sent_at - kStart;
  };
  EXPECT_EQ(takes({}, 1058), 1082u);
  EXPECT_EQ(takes({}, 20), 84u);
  EXPECT_EQ(takes({.overhead_bytes = -10, .mpu_bytes = 48}, 1058), 1048u);
  EXPECT_EQ(takes({.overhead_bytes = -10, .mpu_bytes = 48}, 50), 48u);
  EXPECT_EQ(takes({.overhead_bytes = -64, .mpu_bytes = 1}, 14), 1u) << "never nothing";
  EXPECT_EQ(takes({.overhead_bytes = 50, .mpu_bytes = 84}, 1000), 1050u);
}

TEST_F(EgressQueueTest, TheWireTakesNoPacketBeforeItIsFree) {
  EgressQueue queue(4, 1000, 0);
  TimeNs sent_at = 0;
  ASSERT_TRUE(queue.push(kStart, packet(101)));
  ASSERT_TRUE(queue.push(kStart, packet(101)));
  ASSERT_NE(queue.pop(kStart, sent_at), nullptr);
  EXPECT_EQ(sent_at, kStart + 1000);  // 125 bytes at 1 bit/ns
  EXPECT_EQ(queue.next_deadline(), kStart + 1000);
  EXPECT_EQ(queue.pop(kStart + 999, sent_at), nullptr);
  EXPECT_NE(queue.pop(kStart + 1000, sent_at), nullptr);
  EXPECT_EQ(sent_at, kStart + 2000);
}

TEST_F(EgressQueueTest, AServerThatComesLateDoesNotSlowTheWire) {
  EgressQueue queue(4, 1000, 0);
  TimeNs sent_at = 0;
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(queue.push(kStart, packet(101)));
  std::vector<TimeNs> sent;
  while (queue.pop(kStart + 50'000, sent_at) != nullptr) sent.push_back(sent_at);
  EXPECT_THAT(sent, ElementsAre(kStart + 1000, kStart + 2000, kStart + 3000));
}

TEST_F(EgressQueueTest, AnIdleWireStartsAtOnceAndDoesNotMakeUpForIdleTime) {
  EgressQueue queue(8, 1000, 0);
  TimeNs sent_at = 0;
  ASSERT_TRUE(queue.push(kStart, packet(101)));
  ASSERT_NE(queue.pop(kStart, sent_at), nullptr);
  const TimeNs later = kStart + 1'000'000;
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(queue.push(later, packet(101)));
  std::vector<TimeNs> sent;
  while (queue.pop(later, sent_at) != nullptr) sent.push_back(sent_at);
  EXPECT_THAT(sent, ElementsAre(later + 1000));
}

TEST_F(EgressQueueTest, APacketThatComesWhileTheWireIsBusyWaitsForIt) {
  EgressQueue queue(8, 1000, 0);
  TimeNs sent_at = 0;
  ASSERT_TRUE(queue.push(kStart, packet(101)));
  ASSERT_NE(queue.pop(kStart, sent_at), nullptr);
  ASSERT_TRUE(queue.push(kStart + 600, packet(101)));
  EXPECT_EQ(queue.pop(kStart + 600, sent_at), nullptr);
  EXPECT_EQ(queue.next_deadline(), kStart + 1000);
}

TEST_F(EgressQueueTest, FramesBelowTheEthernetMinimumTakeTheTimeOfTheMinimum) {
  EgressQueue queue(4, 1000, 0);
  TimeNs sent_at = 0;
  ASSERT_TRUE(queue.push(kStart, packet(42)));
  ASSERT_NE(queue.pop(kStart, sent_at), nullptr);
  EXPECT_EQ(sent_at, kStart + (60 + 24) * 8);
}

TEST_F(EgressQueueTest, TheCapacityIsExact) {
  for (const std::uint32_t capacity : {1u, 2u, 3u, 63u, 64u, 65u, 1000u}) {
    EgressQueue queue(capacity, 0, 0);
    TimeNs sent_at = 0;
    for (int round = 0; round < 3; ++round) {  // again behind the ring's end
      std::uint32_t taken = 0;
      while (queue.push(kStart, packet(60))) ++taken;
      EXPECT_EQ(taken, capacity);
      EXPECT_EQ(queue.depth(), capacity);
      while (queue.pop(kStart, sent_at) != nullptr) {
      }
      EXPECT_EQ(queue.depth(), 0u);
    }
  }
}

TEST_F(EgressQueueTest, PacketsLeaveInTheOrderInWhichTheyCame) {
  EgressQueue queue(5, 0, 0);
  TimeNs sent_at = 0;
  std::vector<rte_mbuf*> in;
  std::vector<rte_mbuf*> out;
  for (int round = 0; round < 10; ++round) {
    for (int i = 0; i < 3; ++i) {
      in.push_back(packet(60));
      ASSERT_TRUE(queue.push(kStart, in.back()));
    }
    for (int i = 0; i < 3; ++i) out.push_back(queue.pop(kStart, sent_at));
  }
  EXPECT_EQ(out, in);
}

TEST_F(EgressQueueTest, APacketArrivesExactlyTheDelayAfterItsLastBitHasLeft) {
  EgressQueue queue(4, 1000, 7);
  TimeNs sent_at = 0;
  rte_mbuf* m = packet(101);
  ASSERT_TRUE(queue.push(kStart, m));
  ASSERT_EQ(queue.pop(kStart, sent_at), m);
  queue.line_push(m, sent_at);
  rte_mbuf* due[EgressQueue::kBurst];
  EXPECT_EQ(queue.next_deadline(), kStart + 1007);
  EXPECT_EQ(queue.line_due(kStart + 1006, due, EgressQueue::kBurst), 0);
  ASSERT_EQ(queue.line_due(kStart + 1007, due, EgressQueue::kBurst), 1);
  EXPECT_EQ(due[0], m);
  queue.line_pop(1, nullptr, 0);
  EXPECT_EQ(queue.next_deadline(), kNever);
  EXPECT_EQ(queue.held(), 0u);
}

TEST_F(EgressQueueTest, WhatTheDeviceDidNotTakeStaysInTheLineInOrder) {
  EgressQueue queue(8, 0, 0);
  std::vector<rte_mbuf*> in;
  for (int i = 0; i < 4; ++i) {
    in.push_back(packet(60));
    queue.line_push(in.back(), kStart);
  }
  rte_mbuf* due[EgressQueue::kBurst];
  ASSERT_EQ(queue.line_due(kStart, due, EgressQueue::kBurst), 4);
  rte_mbuf* replacement = packet(60);
  due[1] = replacement;
  queue.line_pop(1, due + 1, 3);
  ASSERT_EQ(queue.line_due(kStart, due, EgressQueue::kBurst), 3);
  EXPECT_THAT(std::vector(due, due + 3), ElementsAre(replacement, in[2], in[3]));
}

TEST_F(EgressQueueTest, TheDeadlineIsNeverWhenEmptyAndThePastWhenUnlimited) {
  EgressQueue queue(4, 0, 0);
  EXPECT_EQ(queue.next_deadline(), kNever);
  ASSERT_TRUE(queue.push(kStart, packet(60)));
  EXPECT_LE(queue.next_deadline(), kStart);
}

TEST_F(EgressQueueTest, AFullLineStopsTheWireAndTheWireDoesNotMakeUpForIt) {
  EgressQueue queue(1000, 1000, 0);
  for (int i = 0; i < 1000; ++i) ASSERT_TRUE(queue.push(kStart, packet(101)));
  TimeNs sent_at = 0;
  TimeNs now = kStart;
  std::uint32_t in_line = 0;
  // The device takes nothing: packets pile up in the line, a nanosecond at a time.
  for (; now < kStart + 200'000; now += 100) {
    while (rte_mbuf* m = queue.pop(now, sent_at)) {
      queue.line_push(m, sent_at);
      ++in_line;
    }
  }
  EXPECT_LT(in_line, 100u);
  EXPECT_EQ(queue.depth(), 1000 - in_line);
  // With the line full, only the far end can make progress: the FIFO has no deadline of its own.
  rte_mbuf* due[EgressQueue::kBurst];
  ASSERT_EQ(queue.line_due(now, due, EgressQueue::kBurst), EgressQueue::kBurst);
  EXPECT_EQ(queue.next_deadline(), kStart + 1000);
  queue.line_pop(EgressQueue::kBurst, nullptr, 0);
  ASSERT_NE(queue.pop(now, sent_at), nullptr);
  EXPECT_EQ(sent_at, now + 1000);
  EXPECT_EQ(queue.pop(now, sent_at), nullptr);
}

TEST_F(EgressQueueTest, TheLineHoldsWhatTheRateCanPutOnIt) {
  // 100 Gbit/s and 100 us: 14880 packets of the minimum size are on the way at once.
  constexpr TimeNs kDelay = 100'000;
  EgressQueue queue(1 << 16, 100'000, kDelay);
  for (int i = 0; i < (1 << 16); ++i) ASSERT_TRUE(queue.push(kStart, packet(60)));
  TimeNs sent_at = 0;
  TimeNs now = kStart;
  rte_mbuf* due[EgressQueue::kBurst];
  std::uint32_t arrived = 0;
  while (arrived < 1 << 15) {
    now = std::max(now, queue.next_deadline());
    while (rte_mbuf* m = queue.pop(now, sent_at)) queue.line_push(m, sent_at);
    const std::uint16_t count = queue.line_due(now, due, EgressQueue::kBurst);
    queue.line_pop(count, nullptr, 0);
    arrived += count;
  }
  // The wire never had to wait: 6.72 ns a packet.
  EXPECT_EQ(now, kStart + kDelay + static_cast<TimeNs>(std::uint64_t{84 * 8} * arrived * 1000 / 100'000));
}

TEST_F(EgressQueueTest, TakeAnyEmptiesTheLineFirstThenTheFifo) {
  EgressQueue queue(8, 1, 1'000'000);
  std::vector<rte_mbuf*> in;
  for (int i = 0; i < 3; ++i) in.push_back(packet(60));
  queue.line_push(in[0], kStart);
  ASSERT_TRUE(queue.push(kStart, in[1]));
  ASSERT_TRUE(queue.push(kStart, in[2]));
  EXPECT_EQ(queue.held(), 3u);
  EXPECT_EQ(queue.take_any(), in[0]);
  EXPECT_EQ(queue.take_any(), in[1]);
  EXPECT_EQ(queue.take_any(), in[2]);
  EXPECT_EQ(queue.take_any(), nullptr);
  EXPECT_EQ(queue.held(), 0u);
}

TEST_F(EgressQueueTest, AQueueWithOtherSettingsTakesOverInOrderAndLeavesWhatItHasNoRoomFor) {
  EgressQueue old(100, 0, 5000);
  std::vector<rte_mbuf*> line;
  for (int i = 0; i < 70; ++i) line.push_back(packet(100));
  for (rte_mbuf* m : line) {
    ASSERT_TRUE(old.push(kStart, m));
    TimeNs sent_at = 0;
    if (rte_mbuf* sent = old.pop(kStart, sent_at)) old.line_push(sent, sent_at);
  }
  const std::uint32_t waiting = old.depth();
  const std::uint32_t travelling = old.held() - waiting;
  ASSERT_GT(travelling, EgressQueue::kBurst);
  for (int i = 0; i < 5; ++i) {
    line.push_back(packet(100));
    ASSERT_TRUE(old.push(kStart, line.back()));
  }
  EgressQueue next(waiting + 2, 1000, 0);
  next.adopt(old);
  EXPECT_EQ(next.held(), travelling + waiting + 2);
  EXPECT_EQ(old.held(), 3u);
  EXPECT_EQ(old.take_any(), line[line.size() - 3]);
  // What travels arrives when it would have.
  rte_mbuf* due[EgressQueue::kBurst];
  EXPECT_EQ(next.line_due(kStart + 4999, due, EgressQueue::kBurst), 0);
  EXPECT_EQ(next.line_due(kStart + 5000, due, EgressQueue::kBurst), EgressQueue::kBurst);
  for (std::uint32_t i = 0; i < travelling + waiting + 2; ++i) ASSERT_EQ(next.take_any(), line[i]);
}

}  // namespace
}  // namespace weft::pipeline
