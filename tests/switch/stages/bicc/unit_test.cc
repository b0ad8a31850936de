// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/stages/bicc/unit.h"

#include <gmock/gmock.h>

#include <vector>

namespace weft::stages {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using enum BiccVerdict;

struct BiccUnitTest : ::testing::Test, BiccSink {
  BiccUnit unit{{.limit_bytes = 3000, .stale_ns = 100, .max_packets = 8, .destinations = 4, .flows = 4}};
  std::vector<BiccPacket> gone;
  BiccPacket last = 0;

  BiccPacket refused = 0;

  void release(BiccPacket packet) noexcept override { gone.push_back(packet); }
  bool reserve(BiccPacket packet) noexcept override { return packet != refused; }
  static wire::FlowName flow(std::uint32_t qp) { return {0x0a020001'0a010001, qp, false}; }
  BiccVerdict send(TimeNs now, std::uint32_t qp, std::uint32_t psn, std::uint32_t bytes = 1000,
                   std::uint64_t destination = 1, bool acknowledged = true) {
    return unit.on_request(now,
                           {.destination = destination,
                            .name = flow(qp),
                            .acknowledged = acknowledged,
                            .psn = wire::Psn(psn),
                            .bytes = bytes,
                            .packet = ++last},
                           *this);
  }
  void ack(TimeNs now, std::uint32_t qp, std::uint32_t psn) { unit.on_ack(now, flow(qp), wire::Psn(psn), *this); }
  [[nodiscard]] std::uint64_t in_flight(std::uint64_t destination = 1) const {
    for (const BiccQueue& queue : unit.queues()) {
      if (queue.destination == destination) return queue.in_flight;
    }
    return 0;
  }
};

TEST_F(BiccUnitTest, WhatIsBeyondTheLimitWaitsForAcknowledgements) {
  for (std::uint32_t psn = 0; psn < 3; ++psn) EXPECT_EQ(send(0, 7, psn), pass);
  EXPECT_EQ(send(0, 7, 3), held);
  EXPECT_EQ(send(0, 8, 0), held) << "another flow to the same destination";
  EXPECT_EQ(send(0, 9, 0, 1000, 2), pass) << "another destination";
  ack(10, 7, 0);
  EXPECT_THAT(gone, ElementsAre(4));
  ack(20, 7, 3);
  EXPECT_THAT(gone, ElementsAre(4, 5));
  EXPECT_EQ(in_flight(), 1000u);
  EXPECT_EQ(unit.held(), 0u);
  EXPECT_EQ(unit.counters().longest_hold_ns, 20u);
  EXPECT_EQ(unit.next_deadline(), kNever);
}

TEST_F(BiccUnitTest, OnePacketMayAlwaysBeUnderWay) {
  EXPECT_EQ(send(0, 7, 0, 5000), pass);
  EXPECT_EQ(send(0, 7, 1, 5000), held);
  ack(1, 7, 0);
  EXPECT_THAT(gone, ElementsAre(2));
}

TEST_F(BiccUnitTest, AnAcknowledgementTakesItsShareAndTheLastOneAll) {
  EXPECT_EQ(send(0, 7, 0xfffffe, 1500), pass);
  EXPECT_EQ(send(0, 7, 0xffffff, 500), pass);
  EXPECT_EQ(send(0, 7, 0, 1000), pass);
  ack(1, 7, 0xfffffe);
  EXPECT_EQ(in_flight(), 2000u) << "a third of the packets";
  ack(2, 7, 0xfffffe);
  EXPECT_EQ(in_flight(), 2000u) << "once";
  ack(3, 7, 0);
  EXPECT_EQ(in_flight(), 0u);
  ack(4, 8, 0);
  EXPECT_EQ(in_flight(), 0u) << "of a flow that has nothing under way";
}

TEST_F(BiccUnitTest, PsnsOfReadsAreNoPackets) {
  EXPECT_EQ(send(0, 7, 0), pass);
  EXPECT_EQ(send(0, 7, 9), pass);
  EXPECT_EQ(send(0, 7, 10), pass);
  ack(1, 7, 0);
  EXPECT_EQ(in_flight(), 3000u) << "not before what is behind the READ";
  ack(2, 7, 9);
  EXPECT_EQ(in_flight(), 1000u);
  ack(3, 7, 10);
  EXPECT_EQ(in_flight(), 0u);
}

TEST_F(BiccUnitTest, WhatIsSentAgainReplacesWhatWasUnderWay) {
  for (std::uint32_t psn = 0; psn < 3; ++psn) EXPECT_EQ(send(0, 7, psn), pass);
  unit.on_nak(1, flow(7), *this);
  EXPECT_EQ(in_flight(), 0u);
  EXPECT_EQ(send(2, 7, 0), pass);
  EXPECT_EQ(send(2, 7, 1), pass);
  // The NAK got lost.
  EXPECT_EQ(send(3, 7, 0), pass);
  EXPECT_EQ(in_flight(), 1000u);
  ack(4, 7, 0);
  EXPECT_EQ(in_flight(), 0u);
}

TEST_F(BiccUnitTest, ASilentDestinationMovesOn) {
  for (std::uint32_t psn = 0; psn < 7; ++psn) static_cast<void>(send(0, 7, psn));
  EXPECT_EQ(unit.held(), 4u);
  ack(50, 7, 0);
  EXPECT_EQ(unit.next_deadline(), 150u);
  gone.clear();
  unit.on_timer(150, *this);
  EXPECT_THAT(gone, ElementsAre(5, 6, 7)) << "so many as may be under way";
  EXPECT_EQ(unit.counters().written_off, 1u);
  ack(160, 7, 3);
  EXPECT_EQ(in_flight(), 3000u) << "late, of what was written off";
  ack(170, 7, 4);
  EXPECT_EQ(in_flight(), 2000u);
}

TEST_F(BiccUnitTest, WithoutRoomADestinationGetsAllThatWaitsInOrder) {
  for (std::uint32_t psn = 0; psn < 11; ++psn) EXPECT_EQ(send(0, 7, psn), psn < 3 ? pass : held);
  EXPECT_EQ(send(0, 7, 11), flushed);
  EXPECT_THAT(gone, ElementsAre(4, 5, 6, 7, 8, 9, 10, 11));
  EXPECT_EQ(in_flight(), 12'000u) << "all of it counts";
  EXPECT_EQ(unit.counters().flushed, 9u);
  EXPECT_EQ(send(0, 7, 12), held);
}

TEST_F(BiccUnitTest, WhenTheSwitchHasNoRoomADestinationGetsAllThatWaits) {
  refused = 6;
  for (std::uint32_t psn = 0; psn < 5; ++psn) EXPECT_EQ(send(0, 7, psn), psn < 3 ? pass : held);
  EXPECT_EQ(send(0, 7, 5), flushed);
  EXPECT_THAT(gone, ElementsAre(4, 5)) << "in front of it";
  EXPECT_EQ(unit.counters().flushed, 3u);
}

TEST_F(BiccUnitTest, AFlowWhoseAnswersNobodyCanTellWaitsOnlyForOthers) {
  for (std::uint32_t psn = 0; psn < 9; ++psn) EXPECT_EQ(send(0, 9, psn, 1000, 1, false), pass);
  for (std::uint32_t psn = 0; psn < 4; ++psn) static_cast<void>(send(0, 7, psn));
  EXPECT_EQ(send(0, 9, 9, 1000, 1, false), held);
  ack(1, 7, 0);
  EXPECT_THAT(gone, ElementsAre(13, 14));
  EXPECT_EQ(in_flight(), 3000u);
}

TEST_F(BiccUnitTest, AFlowThatLeavesTheTableGivesBackWhatItHadUnderWay) {
  for (std::uint32_t qp = 1; qp <= 3; ++qp) EXPECT_EQ(send(qp, qp, 0, 700), pass);
  EXPECT_EQ(send(4, 4, 0, 700), pass);
  EXPECT_EQ(send(5, 5, 0, 700), pass) << "the first flow has left";
  EXPECT_EQ(in_flight(), 2800u);
}

TEST_F(BiccUnitTest, WhatFindsNoPlaceInATablePasses) {
  for (std::uint64_t destination = 1; destination <= 4; ++destination) {
    EXPECT_EQ(send(0, static_cast<std::uint32_t>(destination), 0, 3000, destination), pass);
    EXPECT_EQ(send(0, static_cast<std::uint32_t>(destination), 1, 3000, destination), held);
  }
  EXPECT_EQ(send(0, 9, 0, 3000, 5), pass);
  EXPECT_EQ(send(0, 9, 1, 3000, 5), pass);
  EXPECT_EQ(unit.counters().untracked, 2u);
}

TEST_F(BiccUnitTest, RoomAndTimeChangeWhileItWorks) {
  for (std::uint32_t psn = 0; psn < 5; ++psn) static_cast<void>(send(0, 7, psn));
  unit.set_limits(4000, 30);
  EXPECT_EQ(unit.next_deadline(), 30u);
  ack(1, 7, 0);
  EXPECT_THAT(gone, ElementsAre(4, 5));
}

TEST_F(BiccUnitTest, AllIsReleasedOrTakenOutInOrder) {
  for (std::uint32_t psn = 0; psn < 7; ++psn) static_cast<void>(send(0, 7, psn));
  std::vector<BiccPacket> taken;
  unit.remove_if([](BiccPacket packet) { return packet % 2 == 0; },
                 [&](BiccPacket packet) { taken.push_back(packet); });
  EXPECT_THAT(taken, ElementsAre(4, 6));
  EXPECT_THAT(gone, IsEmpty());
  unit.release_all(*this);
  EXPECT_THAT(gone, ElementsAre(5, 7));
  EXPECT_EQ(unit.held(), 0u);
  EXPECT_EQ(unit.held_bytes(), 0u);
  EXPECT_EQ(in_flight(), 0u);
}

}  // namespace
}  // namespace weft::stages
