// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/stages/lb/conweave_destination.h"

#include <gmock/gmock.h>

#include <vector>

namespace weft::stages {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Kind = ConweaveReply::Kind;

constexpr TimeNs kTick = ConweaveTime::kTickNs;
constexpr FlowKey kFlow{1, 2};

class ConweaveDestinationTest : public ::testing::Test, protected ConweaveSink {
 protected:
  using Numbers = std::vector<std::uint64_t>;

  void deliver(std::uint64_t packet) noexcept override { delivered.push_back(packet); }
  void reply(const ConweaveReply& reply) noexcept override { replies.push_back(reply); }

  // Times of the sender's ToR are in ticks, ours are not those of its clock.
  static ConweaveTag old_path(std::uint8_t epoch, std::uint32_t sent) {
    return {.epoch = epoch, .sent = ConweaveTime::from_ticks(sent)};
  }
  static ConweaveTag tail(std::uint8_t epoch, std::uint32_t sent) {
    return {.epoch = epoch, .tail = true, .sent = ConweaveTime::from_ticks(sent)};
  }
  static ConweaveTag rerouted(std::uint8_t epoch, std::uint32_t tail_sent) {
    return {.epoch = epoch, .rerouted = true, .tail_sent = ConweaveTime::from_ticks(tail_sent)};
  }
  Numbers come(TimeNs at, std::uint64_t packet, const ConweaveTag& tag, const FlowKey& key = kFlow,
               bool may_wait = true, std::uint32_t bytes = 100) {
    delivered.clear();
    far.on_packet(at, key, tag, may_wait, bytes, packet, *this);
    return delivered;
  }
  Numbers fire(TimeNs at) {
    delivered.clear();
    far.on_timer(at, *this);
    return delivered;
  }

  ConweaveDestination far{{.wait_ns = 200 * kUs,
                           .extra_ns = 16 * kUs,
                           .bound_ns = 400 * kUs,
                           .age_ns = 1200 * kUs,
                           .flows = 4,
                           .queues = 2,
                           .queue_packets = 2,
                           .max_packets = 3,
                           .max_bytes = 1000}};
  Numbers delivered;
  std::vector<ConweaveReply> replies;
};

TEST_F(ConweaveDestinationTest, ReroutedPacketsWaitForTheTail) {
  EXPECT_THAT(come(0, 1, old_path(1, 100)), ElementsAre(1));
  EXPECT_THAT(come(1 * kUs, 3, rerouted(1, 200)), IsEmpty());
  EXPECT_THAT(come(2 * kUs, 4, rerouted(1, 200)), IsEmpty());
  EXPECT_THAT(come(3 * kUs, 2, tail(1, 200)), ElementsAre(2, 3, 4));
  EXPECT_THAT(replies, ElementsAre(ConweaveReply{Kind::clear, 1}));
  EXPECT_THAT(come(4 * kUs, 5, rerouted(1, 200)), ElementsAre(5));
  EXPECT_EQ(far.held(), 0u);
  EXPECT_EQ(far.queues_used(), 0u);
  EXPECT_EQ(far.next_deadline(), kNever);
  EXPECT_EQ(far.counts().resumed, 2u);
}

TEST_F(ConweaveDestinationTest, OnlyPacketsThatNobodyWaitsForPass) {
  EXPECT_FALSE(far.passes(0, kFlow, old_path(1, 100))) << "of a flow that is not known";
  come(0, 1, old_path(1, 100));
  EXPECT_TRUE(far.passes(1 * kUs, kFlow, old_path(1, 130)));
  ConweaveTag request = old_path(1, 140);
  request.request = true;
  EXPECT_FALSE(far.passes(1 * kUs, kFlow, request)) << "it is to be answered";
  EXPECT_FALSE(far.passes(1 * kUs, kFlow, tail(1, 140)));
  EXPECT_FALSE(far.passes(1 * kUs, kFlow, rerouted(1, 140)));
  EXPECT_FALSE(far.passes(1 * kUs, kFlow, old_path(2, 140))) << "of another epoch";
  EXPECT_FALSE(far.passes(1202 * kUs, kFlow, old_path(1, 140))) << "its flow has aged";
  EXPECT_THAT(come(2 * kUs, 3, rerouted(1, 200)), IsEmpty());
  // 70 ticks after the one that has passed, and not 100 after the first.
  EXPECT_EQ(far.next_deadline(), 1 * kUs + 70 * kTick + 16 * kUs);
  EXPECT_FALSE(far.passes(2 * kUs, kFlow, old_path(1, 150))) << "what waits may wait longer";
}

TEST_F(ConweaveDestinationTest, EveryRequestIsAnswered) {
  ConweaveTag request = old_path(1, 0);
  request.request = true;
  come(0, 1, request);
  request.epoch = 0;
  come(1, 2, request);
  EXPECT_THAT(replies, ElementsAre(ConweaveReply{Kind::rtt, 1}, ConweaveReply{Kind::rtt, 0})) << "a late one too";
  EXPECT_EQ(far.counts().stale, 1u);
}

TEST_F(ConweaveDestinationTest, TheTimeOfTheTailIsToldFromTheLastPacketOfTheOldPath) {
  come(1000 * kUs, 1, old_path(1, 100));
  come(1001 * kUs, 3, rerouted(1, 300));
  EXPECT_EQ(far.next_deadline(), 1000 * kUs + 200 * kTick + 16 * kUs);
  come(1010 * kUs, 2, old_path(1, 250));
  EXPECT_EQ(far.next_deadline(), 1010 * kUs + 50 * kTick + 16 * kUs) << "the path has become slower";
  EXPECT_THAT(fire(far.next_deadline()), ElementsAre(3));
  EXPECT_EQ(far.counts().flushes, 1u);
  EXPECT_EQ(far.counts().flushed, 1u);
  EXPECT_THAT(come(1030 * kUs, 5, rerouted(1, 300)), ElementsAre(5)) << "it is no use to wait again";
  EXPECT_THAT(come(1031 * kUs, 4, tail(1, 300)), ElementsAre(4));
  EXPECT_THAT(replies, ElementsAre(ConweaveReply{Kind::clear, 1})) << "late, but all the same";
}

// 100 ms, forwards, between the last packet of the old path and the TAIL.
TEST_F(ConweaveDestinationTest, AStepOfTheSendersClockForwardsEndsWithTheBound) {
  come(0, 1, old_path(1, 100));
  EXPECT_THAT(come(1 * kUs, 3, rerouted(1, 100 + 3'125'000)), IsEmpty());
  EXPECT_EQ(far.next_deadline(), 401 * kUs);
  EXPECT_THAT(come(2 * kUs, 4, rerouted(1, 100 + 3'125'000)), IsEmpty());
  EXPECT_THAT(fire(401 * kUs), ElementsAre(3, 4));
  EXPECT_EQ(far.queues_used(), 0u);
}

// By 100 ms, and by more than the times of tags can tell, which is then a step backwards.
TEST_F(ConweaveDestinationTest, AStepOfTheSendersClockBackwardsCountsAsNoTime) {
  constexpr std::uint32_t kHalf = ConweaveTime::kMask / 2;
  come(0, 1, old_path(1, 4'000'000));
  EXPECT_THAT(come(1 * kUs, 3, rerouted(1, 4'000'000 - 3'125'000)), IsEmpty());
  EXPECT_EQ(far.next_deadline(), 16 * kUs) << "the extra alone";
  EXPECT_THAT(fire(16 * kUs), ElementsAre(3));
  come(0, 1, old_path(1, 100), {2, 0});
  EXPECT_THAT(come(20 * kUs, 3, rerouted(1, 100 + kHalf + 1), {2, 0}), ElementsAre(3));
  EXPECT_EQ(far.held(), 0u);
  EXPECT_EQ(far.queues_used(), 0u);
}

TEST_F(ConweaveDestinationTest, AReplayedTailLetsNothingOfALaterEpochGoOn) {
  come(0, 1, tail(1, 100));
  EXPECT_THAT(come(1 * kUs, 3, rerouted(2, 200)), IsEmpty());
  EXPECT_THAT(come(2 * kUs, 1, tail(1, 100)), ElementsAre(1));
  EXPECT_EQ(far.counts().stale, 1u);
  EXPECT_EQ(far.held(), 1u);
  EXPECT_THAT(come(3 * kUs, 2, tail(2, 200)), ElementsAre(2, 3));
  // The same epoch's: what follows it goes on, as after the first one.
  EXPECT_THAT(come(4 * kUs, 2, tail(2, 200)), ElementsAre(2));
  EXPECT_THAT(come(5 * kUs, 4, rerouted(2, 200)), ElementsAre(4));
  EXPECT_EQ(far.counts().resumed, 1u);
}

TEST_F(ConweaveDestinationTest, ReplayedReroutedDataIsHeldNoLongerThanOthers) {
  come(0, 1, old_path(1, 0));
  EXPECT_THAT(come(1 * kUs, 3, rerouted(1, 10)), IsEmpty());
  EXPECT_THAT(come(2 * kUs, 3, rerouted(1, 10)), IsEmpty()) << "a copy waits behind the first one";
  EXPECT_THAT(come(3 * kUs, 2, tail(1, 10)), ElementsAre(2, 3, 3));
  EXPECT_THAT(come(4 * kUs, 3, rerouted(1, 10)), ElementsAre(3)) << "the TAIL has come";
  come(5 * kUs, 4, old_path(2, 300));
  EXPECT_THAT(come(6 * kUs, 3, rerouted(1, 10)), ElementsAre(3));
  EXPECT_EQ(far.counts().stale, 1u);
  EXPECT_EQ(far.next_deadline(), kNever);
}

// Epochs wrap, so that an old one may look new. What is sent meanwhile is taken for late, and never held.
TEST_F(ConweaveDestinationTest, AReplayedTagThatLooksNewerCostsOrderForAWhile) {
  come(0, 1, old_path(9, 0));
  EXPECT_THAT(come(1 * kUs, 7, rerouted(136, 0)), IsEmpty());
  EXPECT_THAT(come(2 * kUs, 3, rerouted(9, 10)), ElementsAre(3));
  EXPECT_EQ(far.counts().stale, 1u);
  EXPECT_THAT(fire(far.next_deadline()), ElementsAre(7));
  const TimeNs later = 500 * kUs;
  come(later, 4, old_path(9, 20));
  EXPECT_THAT(come(later + 1 * kUs, 6, rerouted(9, 40)), IsEmpty()) << "the true epoch counts again";
  EXPECT_THAT(come(later + 2 * kUs, 5, tail(9, 40)), ElementsAre(5, 6));
}

TEST_F(ConweaveDestinationTest, WhereNothingIsKnownOfTheOldPathAFixedTimeIsWaited) {
  come(50 * kUs, 1, rerouted(9, 300));
  EXPECT_EQ(far.next_deadline(), 266 * kUs);
}

TEST_F(ConweaveDestinationTest, NoPacketWaitsBeyondTheBound) {
  come(0, 1, old_path(1, 0));
  come(1 * kUs, 9, rerouted(1, 10));
  for (TimeNs at = 10 * kUs; at < 400 * kUs; at += 10 * kUs) come(at, 2, old_path(1, 0));
  EXPECT_EQ(far.next_deadline(), 401 * kUs);
  EXPECT_THAT(fire(401 * kUs), ElementsAre(9));
}

TEST_F(ConweaveDestinationTest, ATailThatMustHaveComeIsNotWaitedFor) {
  come(0, 1, old_path(1, 0));
  EXPECT_THAT(come(300 * kUs, 3, rerouted(1, 10)), ElementsAre(3));
  EXPECT_EQ(far.held(), 0u);
}

TEST_F(ConweaveDestinationTest, WithoutAQueueAFlowIsNotHeldForTheRestOfTheEpoch) {
  come(0, 1, rerouted(1, 0), {1, 0});
  come(0, 2, rerouted(1, 0), {2, 0});
  EXPECT_EQ(far.queues_used(), 2u);
  EXPECT_THAT(come(0, 3, rerouted(1, 0), {3, 0}), ElementsAre(3));
  EXPECT_EQ(far.counts().no_queue, 1u);
  EXPECT_THAT(come(1, 4, tail(1, 0), {1, 0}), ElementsAre(4, 1));
  EXPECT_THAT(come(2, 5, rerouted(1, 0), {3, 0}), ElementsAre(5)) << "behind the one that was not held";
  EXPECT_EQ(far.counts().peak_queues, 2u);
}

TEST_F(ConweaveDestinationTest, WhatHasNoRoomGoesOnBehindWhatWaits) {
  come(0, 1, rerouted(1, 0));
  come(0, 2, rerouted(1, 0));
  EXPECT_THAT(come(0, 3, rerouted(1, 0)), ElementsAre(1, 2, 3)) << "a queue has room for two";
  EXPECT_EQ(far.counts().overflowed, 1u);
  EXPECT_EQ(far.counts().given_up, 2u);
  EXPECT_THAT(come(0, 4, rerouted(1, 0)), ElementsAre(4));
  EXPECT_THAT(come(0, 5, rerouted(1, 0), {2, 0}, true, 2000), ElementsAre(5)) << "more bytes than there may be";
  EXPECT_EQ(far.queues_used(), 0u);
  EXPECT_EQ(far.counts().held, 2u);
}

TEST_F(ConweaveDestinationTest, WhatMayNotWaitTakesWhatWaitsAlong) {
  come(0, 1, rerouted(1, 0));
  EXPECT_THAT(come(0, 2, rerouted(1, 0), kFlow, false), ElementsAre(1, 2));
  EXPECT_THAT(come(0, 3, rerouted(1, 0)), ElementsAre(3));
}

TEST_F(ConweaveDestinationTest, ANewEpochLetsWhatWaitsGoOnFirst) {
  come(0, 1, rerouted(255, 0));
  EXPECT_THAT(come(1, 2, old_path(0, 0)), ElementsAre(1, 2)) << "epochs wrap";
  EXPECT_THAT(come(2, 3, rerouted(255, 0)), ElementsAre(3)) << "late";
  EXPECT_EQ(far.counts().stale, 1u);
  EXPECT_THAT(come(3, 4, rerouted(0, 0)), IsEmpty()) << "the TAIL of this one has not come";
}

TEST_F(ConweaveDestinationTest, AnEarlierEpochIsBelievedWhenNothingElseComes) {
  come(0, 1, old_path(9, 0));
  come(200 * kUs, 2, old_path(3, 0));
  EXPECT_EQ(far.counts().stale, 1u);
  come(201 * kUs, 3, old_path(3, 0));
  EXPECT_EQ(far.counts().stale, 1u) << "the sender's ToR has begun anew";
  EXPECT_THAT(come(202 * kUs, 4, rerouted(3, 0)), IsEmpty());
}

TEST_F(ConweaveDestinationTest, AnEarlierEpochIsNotBelievedWhileALaterOneWaits) {
  come(0, 5, rerouted(9, 0));
  EXPECT_THAT(come(210 * kUs, 3, rerouted(8, 0)), ElementsAre(3));
  EXPECT_EQ(far.held(), 1u);
  EXPECT_THAT(come(211 * kUs, 4, tail(9, 0)), ElementsAre(4, 5));
}

TEST_F(ConweaveDestinationTest, AFlowThatWasSilentForLongIsNew) {
  come(0, 1, tail(1, 0));
  EXPECT_THAT(come(1201 * kUs, 2, rerouted(1, 0)), IsEmpty());
}

TEST_F(ConweaveDestinationTest, FlowsWhosePacketsWaitKeepTheirEntries) {
  ConweaveDestination small({.flows = 4, .queues = 4});
  for (std::uint64_t flow = 0; flow < 4; ++flow) small.on_packet(flow, {flow, 0}, rerouted(1, 0), true, 1, flow, *this);
  EXPECT_EQ(small.held(), 4u);
  delivered.clear();
  small.on_packet(9, {9, 0}, rerouted(1, 0), true, 1, 9, *this);
  EXPECT_THAT(delivered, ElementsAre(9));
  EXPECT_EQ(small.counts().flows_full, 1u);
  small.on_packet(10, {2, 0}, tail(1, 0), true, 1, 10, *this);
  small.on_packet(11, {9, 0}, rerouted(1, 0), true, 1, 11, *this);
  EXPECT_EQ(small.counts().evicted, 1u);
  EXPECT_EQ(small.held(), 4u);
}

TEST_F(ConweaveDestinationTest, AFlushKeepsNothing) {
  come(0, 1, rerouted(1, 0));
  come(0, 2, rerouted(1, 0), {2, 0});
  delivered.clear();
  far.flush(*this);
  EXPECT_THAT(delivered, ::testing::UnorderedElementsAre(1, 2));
  EXPECT_EQ(far.held(), 0u);
  EXPECT_EQ(far.queues_used(), 0u);
  EXPECT_EQ(far.next_deadline(), kNever);
  EXPECT_THAT(come(1, 3, rerouted(1, 0)), IsEmpty()) << "nothing is known any more";
}

}  // namespace
}  // namespace weft::stages
