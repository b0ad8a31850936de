// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/stages/lb/reorder.h"

#include <gmock/gmock.h>

#include <map>
#include <vector>

#include "switch/base/rng.h"

namespace weft::stages {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using wire::Psn;

class Reorder : public ::testing::Test, public ReorderSink {
 protected:
  [[nodiscard]] bool reserve(std::uint64_t packet) noexcept override {
    reserved.push_back(packet);
    return has_room;
  }
  void deliver(std::uint64_t packet) noexcept override { out.push_back(packet); }
  // Its number is its PSN.
  std::vector<std::uint64_t> comes(std::uint32_t psn, std::uint32_t flow = 0, std::uint32_t bytes = 100,
                                   bool starts = true) {
    out.clear();
    buffer.on_packet(now, flow, Psn(psn), starts, bytes, Psn(psn).value(), *this);
    return out;
  }
  std::vector<std::uint64_t> passes(std::uint32_t psn, std::uint32_t psns) {
    out.clear();
    buffer.on_passed(now, 0, Psn(psn), psns, *this);
    return out;
  }
  std::vector<std::uint64_t> time_is(TimeNs time) {
    now = time;
    out.clear();
    buffer.on_timer(now, *this);
    return out;
  }

  TimeNs now = 1000;
  std::vector<std::uint64_t> out;
  std::vector<std::uint64_t> reserved;
  bool has_room = true;
  ReorderBuffer buffer{{.bound_ns = 100, .flows = 4, .max_packets = 8, .max_flow_packets = 6, .max_bytes = 1000}};
};

TEST_F(Reorder, PacketsThatOvertookWaitForWhatTheyOvertook) {
  EXPECT_THAT(comes(10), ElementsAre(10));
  EXPECT_THAT(comes(13), IsEmpty());
  EXPECT_THAT(comes(12), IsEmpty());
  EXPECT_EQ(buffer.held(), 2u);
  EXPECT_EQ(buffer.held_bytes(), 200u);
  EXPECT_EQ(buffer.next_deadline(), 1100u);
  EXPECT_THAT(comes(11), ElementsAre(11, 12, 13));
  EXPECT_EQ(buffer.next_deadline(), kNever);
  EXPECT_EQ(buffer.counts().held, 2u);
  EXPECT_EQ(buffer.counts().peak_packets, 2u);
  EXPECT_EQ(buffer.counts().expired + buffer.counts().late + buffer.counts().overflowed, 0u);
}

TEST_F(Reorder, AFlowBeginsWithTheStartOfAMessage) {
  const auto inner = [this](std::uint32_t psn) { return comes(psn, 0, 100, false); };
  EXPECT_THAT(inner(11), IsEmpty());
  EXPECT_THAT(inner(13), IsEmpty());
  EXPECT_THAT(comes(15), IsEmpty()) << "the start of the next message: what is earlier waits for its own";
  EXPECT_FALSE(buffer.is_known(0));
  EXPECT_THAT(comes(10), ElementsAre(10, 11));
  EXPECT_THAT(inner(12), ElementsAre(12, 13));
  EXPECT_THAT(inner(14), ElementsAre(14, 15));
}

TEST_F(Reorder, AStartThatDoesNotComeIsWaitedForUntilTheBound) {
  const auto inner = [this](std::uint32_t psn) { return comes(psn, 0, 100, false); };
  inner(0xffffff);
  now = 1020;
  inner(1);
  EXPECT_THAT(time_is(1100), ElementsAre(0xffffff));
  EXPECT_THAT(inner(0), ElementsAre(0, 1));
  EXPECT_EQ(buffer.counts().expired, 1u);
}

TEST_F(Reorder, AGapIsGivenUpWhenTheFirstThatWaitsHasWaitedForTheBound) {
  comes(10);
  comes(14);
  now = 1050;
  comes(12);
  EXPECT_THAT(time_is(1099), IsEmpty());
  EXPECT_THAT(time_is(1100), ElementsAre(12, 14)) << "what waits in front of it goes on too, in order";
  EXPECT_EQ(buffer.counts().expired, 2u);
  EXPECT_THAT(comes(15), ElementsAre(15));
  EXPECT_THAT(comes(13), ElementsAre(13)) << "late, and not delayed further";
  EXPECT_EQ(buffer.counts().late, 1u);
}

TEST_F(Reorder, WhatIsNotInFrontOfAnExpiredPacketGoesOnWaiting) {
  comes(10);
  comes(12);
  now = 1050;
  comes(14);
  EXPECT_THAT(time_is(1100), ElementsAre(12));
  EXPECT_EQ(buffer.next_deadline(), 1150u);
  EXPECT_THAT(comes(13), ElementsAre(13, 14));
}

TEST_F(Reorder, AReadRequestTakesItsPsnsAndDoesNotWait) {
  comes(10);
  EXPECT_THAT(passes(11, 4), IsEmpty());
  EXPECT_THAT(comes(15), ElementsAre(15)) << "11 to 14 are those of its responses";
  EXPECT_THAT(passes(18, 3), IsEmpty()) << "it has overtaken 16 and 17";
  EXPECT_EQ(buffer.held(), 0u);
  EXPECT_THAT(comes(21), IsEmpty());
  EXPECT_THAT(comes(17), IsEmpty());
  EXPECT_THAT(comes(16), ElementsAre(16, 17, 21));
}

TEST_F(Reorder, ACopyOfWhatWaitsGoesOnAtOnce) {
  comes(10);
  comes(12);
  EXPECT_THAT(comes(12), ElementsAre(12));
  EXPECT_EQ(buffer.held(), 1u);
  EXPECT_THAT(comes(11), ElementsAre(11, 12));
}

TEST_F(Reorder, ALeapBeginsANewSequence) {
  for (const std::uint32_t far : {0x300000u, 0xd00000u, 5u}) {
    const std::uint32_t next = buffer.is_known(0) ? buffer.expected(0).value() : 0;
    comes(next);
    comes(next + 2);
    EXPECT_THAT(comes(next + far + ReorderBuffer::kLeap),
                ElementsAre(Psn(next + 2).value(), Psn(next + far + ReorderBuffer::kLeap).value()));
    EXPECT_EQ(buffer.expected(0), Psn(next + far + ReorderBuffer::kLeap + 1));
  }
  EXPECT_EQ(buffer.counts().leaps, 3u);
}

TEST_F(Reorder, WhereThereIsNoRoomTheGapInFrontIsGivenUp) {
  comes(10);
  for (std::uint32_t psn = 12; psn < 18; ++psn) EXPECT_THAT(comes(psn), IsEmpty());
  EXPECT_THAT(comes(19), ElementsAre(12, 13, 14, 15, 16, 17, 19)) << "six of one flow";
  EXPECT_EQ(buffer.counts().overflowed, 1u);
  comes(0, 1);
  for (std::uint32_t psn = 21; psn < 27; ++psn) comes(psn);
  comes(2, 1);
  EXPECT_THAT(comes(4, 1, 400), ElementsAre(2, 4)) << "1000 bytes of all flows";
  comes(6, 1, 200);
  comes(7, 1, 200);
  EXPECT_EQ(buffer.held(), 8u);
  EXPECT_THAT(comes(8, 1, 0), ElementsAre(6, 7, 8)) << "eight packets of all flows";
  EXPECT_EQ(buffer.held(), 6u) << "other flows keep what is theirs";
}

TEST_F(Reorder, RoomIsTakenForWhatWaitsAlone) {
  comes(10);
  comes(12);
  comes(12);
  comes(14);
  comes(11);
  EXPECT_THAT(reserved, ElementsAre(12, 14)) << "neither for a copy nor for what goes on at once";
  std::vector<std::uint64_t> waiting;
  buffer.for_each([&](std::uint64_t packet) { waiting.push_back(packet); });
  EXPECT_THAT(waiting, ElementsAre(14));
}

TEST_F(Reorder, WhereTheSwitchHasNoRoomTheGapInFrontIsGivenUp) {
  comes(10);
  comes(12);
  comes(16);
  has_room = false;
  EXPECT_THAT(comes(14), ElementsAre(12, 14));
  EXPECT_EQ(buffer.held(), 1u);
  EXPECT_EQ(buffer.counts().overflowed, 1u);
  EXPECT_THAT(comes(15), ElementsAre(15, 16));
}

TEST_F(Reorder, TailLetsAllGoOn) {
  comes(10);
  comes(12);
  comes(15);
  out.clear();
  buffer.release(0, *this);
  EXPECT_THAT(out, ElementsAre(12, 15));
  EXPECT_EQ(buffer.next_deadline(), kNever);
  EXPECT_THAT(comes(16), ElementsAre(16));
}

TEST_F(Reorder, ASenderThatGoesBackBeginsANewOrder) {
  comes(10);
  for (const std::uint32_t psn : {12u, 13u, 14u}) comes(psn);
  EXPECT_THAT(time_is(1100), ElementsAre(12, 13, 14));
  buffer.on_nak(0, Psn(11));
  EXPECT_THAT(comes(15), ElementsAre(15)) << "sent before the sender heard of it";
  EXPECT_THAT(comes(11), ElementsAre(11)) << "any sender sends this again";
  EXPECT_EQ(buffer.counts().went_back, 0u);
  EXPECT_THAT(comes(14), IsEmpty()) << "this had gone on: the receiver wants 12";
  EXPECT_THAT(comes(14), IsEmpty()) << "a copy ahead of the gap would be one more gap";
  EXPECT_THAT(comes(13), IsEmpty());
  EXPECT_THAT(comes(12), ElementsAre(12, 13, 14, 14));
  EXPECT_EQ(buffer.expected(0), Psn(15));
  EXPECT_EQ(buffer.counts().went_back, 1u);
}

TEST_F(Reorder, ForASenderThatGoesBackAGapThatIsGivenUpStaysAGap) {
  comes(10);
  comes(12);
  EXPECT_THAT(time_is(1100), ElementsAre(12));
  buffer.on_nak(0, Psn(11));
  EXPECT_THAT(comes(12), IsEmpty());
  EXPECT_THAT(time_is(1200), ElementsAre(12));
  EXPECT_EQ(buffer.expected(0), Psn(11)) << "the receiver has thrown it away again";
  EXPECT_THAT(comes(12), IsEmpty());
  EXPECT_THAT(comes(11), ElementsAre(11, 12));
  buffer.on_nak(0, Psn(11));
  EXPECT_EQ(buffer.expected(0), Psn(11)) << "11 was lost between the switch and the receiver";
  EXPECT_THAT(comes(12), IsEmpty());
  out.clear();
  buffer.on_ack(0, Psn(11), *this);
  EXPECT_THAT(out, ElementsAre(12)) << "it was not, or has come another way";
  buffer.on_ack(0, Psn(5), *this);
  buffer.on_nak(0, Psn(40));
  buffer.on_ack(0, Psn(0x600000), *this);
  buffer.on_nak(0, Psn(0x600000));
  EXPECT_EQ(buffer.expected(0), Psn(13)) << "old, or of another connection";
}

TEST_F(Reorder, NaksChangeNothingForASenderThatRepeatsOnlyWhatIsMissing) {
  comes(10);
  for (const std::uint32_t psn : {13u, 14u, 16u}) comes(psn);
  EXPECT_THAT(time_is(1100), ElementsAre(13, 14, 16));
  buffer.on_nak(0, Psn(11));
  for (const std::uint32_t psn : {12u, 11u, 15u}) EXPECT_THAT(comes(psn), ElementsAre(psn));
  buffer.on_nak(0, Psn(20));
  EXPECT_THAT(comes(17), ElementsAre(17));
  EXPECT_EQ(buffer.counts().went_back, 0u);
}

TEST_F(Reorder, WhatHasBeenAcknowledgedIsNotWaitedFor) {
  comes(10);
  comes(13);
  time_is(1100);
  buffer.on_nak(0, Psn(11));
  out.clear();
  buffer.on_ack(0, Psn(12), *this);
  EXPECT_THAT(out, IsEmpty()) << "11 and 12 have come another way";
  EXPECT_THAT(comes(11), ElementsAre(11));
  EXPECT_THAT(comes(13), ElementsAre(13)) << "what the receiver wants";
  EXPECT_EQ(buffer.counts().went_back, 1u);
  EXPECT_THAT(comes(14), ElementsAre(14));
}

TEST_F(Reorder, AReceiverThatKeepsWhatOvertookIsTakenForOneAgain) {
  comes(10);
  comes(12);
  time_is(1100);
  buffer.on_nak(0, Psn(11));
  comes(12);  // the sender's timeout, for example
  EXPECT_EQ(buffer.counts().went_back, 1u);
  EXPECT_THAT(comes(11), ElementsAre(11, 12));
  comes(14);
  EXPECT_THAT(time_is(1200), ElementsAre(14));
  EXPECT_EQ(buffer.expected(0), Psn(13));
  buffer.on_ack(0, Psn(14), *this);
  EXPECT_EQ(buffer.expected(0), Psn(15)) << "13 has come another way, and 14 was kept";
  comes(16);
  EXPECT_THAT(time_is(1300), ElementsAre(16));
  EXPECT_EQ(buffer.expected(0), Psn(17)) << "gaps that are given up are over again";
}

TEST_F(Reorder, FlowsDoNotTouchEachOther) {
  comes(10, 0);
  comes(50, 1);
  comes(12, 0);
  comes(52, 1);
  EXPECT_THAT(comes(51, 1), ElementsAre(51, 52));
  EXPECT_EQ(buffer.held(0), 1u);
  out.clear();
  buffer.flush(*this);
  EXPECT_THAT(out, ElementsAre(12));
  EXPECT_THAT(comes(90, 0), ElementsAre(90)) << "forgotten: whatever comes is the first";
}

// Many flows with random delays and losses, against what the unit promises.
TEST(ReorderProperty, KeepsItsPromises) {
  struct Sink : ReorderSink {
    void deliver(std::uint64_t packet) noexcept override { out.push_back(packet); }
    std::vector<std::uint64_t> out;
  } sink;
  constexpr TimeNs kBound = 50;
  ReorderBuffer buffer({.bound_ns = kBound, .flows = 8, .max_packets = 64, .max_flow_packets = 32, .max_bytes = 6000});
  Rng rng(3);
  std::multimap<TimeNs, std::uint64_t> wire;  // by arrival; flow << 32 | psn
  std::map<std::uint64_t, TimeNs> waits;
  std::uint64_t sent = 0, delivered = 0;
  const auto take = [&](TimeNs now) {
    for (const std::uint64_t packet : sink.out) {
      const auto at = waits.find(packet);
      ASSERT_NE(at, waits.end());
      ASSERT_LE(now - at->second, kBound);
      waits.erase(at);
      ++delivered;
    }
    sink.out.clear();
    ASSERT_EQ(waits.size(), buffer.held());
    ASSERT_LE(buffer.held(), 64u);
    ASSERT_LE(buffer.held_bytes(), 6000u);
  };
  for (TimeNs now = 0; now < 200'000; ++now) {
    if (now < 199'000 && rng.below(3) != 0) {
      const std::uint64_t flow = rng.below(8);
      if (rng.below(100) != 0) wire.emplace(now + rng.below(flow * 10 + 1), flow << 32 | (sent & 0xffffff));
      ++sent;
    }
    while (!wire.empty() && wire.begin()->first <= now) {
      const std::uint64_t packet = wire.begin()->second;
      wire.erase(wire.begin());
      waits.emplace(packet, now);
      buffer.on_packet(now, static_cast<std::uint32_t>(packet >> 32), Psn(static_cast<std::uint32_t>(packet)), true,
                       100, packet, sink);
      take(now);
    }
    if (buffer.next_deadline() <= now) buffer.on_timer(now, sink);
    take(now);
  }
  EXPECT_EQ(buffer.held(), 0u);
  EXPECT_GT(delivered, 100'000u);
  EXPECT_GT(buffer.counts().expired, 0u);
}

}  // namespace
}  // namespace weft::stages
