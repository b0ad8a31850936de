// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "tests/switch/stages/bicc/rig.h"

namespace weft::stages::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// Two packets of some 1100 bytes may be under way.
TEST_P(BiccStageTest, RequestsWaitForAcknowledgementsOfTheirReceiver) {
  for (std::uint32_t psn = 1; psn <= 5; ++psn) h.inject("wan", data(psn, GetParam()).build());
  EXPECT_THAT(psns(), ElementsAre(1, 2));
  EXPECT_EQ(h.held(), 3u);
  h.inject("in", ack(1, GetParam()).build());
  EXPECT_THAT(psns(), ElementsAre(3));
  EXPECT_THAT(h.take("wan"), SizeIs(1)) << "the acknowledgement goes on";
  h.inject("in", ack(3, GetParam()).build());
  EXPECT_THAT(psns(), ElementsAre(4, 5));
  EXPECT_EQ(h.held(), 0u);
  EXPECT_EQ(counter("requests"), 5u);
  EXPECT_EQ(counter("packets_held"), 3u);
}
INSTANTIATE_TEST_SUITE_P(Ip, BiccStageTest, ::testing::Bool());

struct BiccOneTest : BiccStageTest {};

TEST_P(BiccOneTest, ABurstAndAnAcknowledgementInItKeepTheOrder) {
  h.inject("wan", {data(1).build(), data(2).build(), data(3).build()});
  h.inject("wan", data(4).build());
  h.inject("in", ack(2).build());
  h.inject("wan", {data(5).build(), data(6).build()});
  EXPECT_THAT(psns(), ElementsAre(1, 2, 3, 4));
  h.inject("in", ack(4).build());
  EXPECT_THAT(psns(), ElementsAre(5, 6));
}

TEST_P(BiccOneTest, WhatNobodyAcknowledgesPasses) {
  for (std::uint32_t psn = 1; psn <= 4; ++psn) {
    h.inject("wan", data(psn).bth(Opcode::UC_SEND_MIDDLE, kDestination, Psn(psn)).build());
    h.inject("wan", data(psn).bth(Opcode::RC_RDMA_READ_RESPONSE_MIDDLE, kDestination, Psn(psn)).build());
  }
  EXPECT_THAT(h.take("in"), SizeIs(8));
  EXPECT_EQ(counter("requests"), 0u);
  for (std::uint32_t psn = 1; psn <= 4; ++psn) {
    h.inject("wan", data(psn).bth(Opcode::RC_SEND_MIDDLE, Qpn(35), Psn(psn)).build());
  }
  EXPECT_THAT(h.take("in"), SizeIs(4)) << "of a queue pair that is not known";
  EXPECT_EQ(counter("unknown_qp"), 4u);
}

TEST_P(BiccOneTest, WhatStaysInsideOrLeavesPasses) {
  for (std::uint32_t psn = 1; psn <= 4; ++psn) {
    h.inject("in", data(psn).eth(beyond_mac(0), port_mac(0)).ipv4("10.1.0.1", "10.2.0.1").build());
    h.inject("in", data(psn).eth(beyond_mac(0), port_mac(0)).ipv4("10.1.0.1", "10.1.0.2").build());
  }
  EXPECT_THAT(h.take("wan"), SizeIs(4));
  EXPECT_THAT(h.take("in"), SizeIs(4));
}

TEST_P(BiccOneTest, ANakFreesWhatWillBeSentAgain) {
  for (std::uint32_t psn = 1; psn <= 4; ++psn) h.inject("wan", data(psn).build());
  EXPECT_THAT(psns(), ElementsAre(1, 2));
  h.inject("in", ack(1).aeth(wire::Syndrome::nak(wire::NakCode::psn_sequence_error), 0).build());
  EXPECT_THAT(psns(), ElementsAre(3, 4));
}

TEST_P(BiccOneTest, AReadWaitsForItsTurnButDoesNotCount) {
  const auto read = [](std::uint32_t psn) {
    return data(psn).bth(Opcode::RC_RDMA_READ_REQUEST, kDestination, Psn(psn)).reth(0, 1, 3000).payload(0).build();
  };
  h.inject("wan", read(1));
  for (std::uint32_t psn = 4; psn <= 6; ++psn) h.inject("wan", data(psn).build());
  h.inject("wan", read(7));
  EXPECT_THAT(psns(), ElementsAre(1, 4, 5));
  EXPECT_EQ(h.held(), 2u);
  // The response to the first READ says nothing of what was sent behind that.
  h.inject("in", ack(3).bth(Opcode::RC_RDMA_READ_RESPONSE_LAST, kSource, Psn(3)).payload(64).build());
  EXPECT_EQ(h.held(), 2u);
  h.inject("in", ack(4).build());
  EXPECT_THAT(psns(), ElementsAre(6, 7));
  h.inject("wan", data(10).build());
  EXPECT_EQ(h.held(), 1u);
  // That to the second one acknowledges all before it.
  h.inject("in", ack(7).bth(Opcode::RC_RDMA_READ_RESPONSE_LAST, kSource, Psn(7)).payload(64).build());
  EXPECT_THAT(psns(), ElementsAre(10));
  EXPECT_THAT(h.take("wan"), SizeIs(3)) << "answers go on";
}

TEST_P(BiccOneTest, ASilentReceiverGetsTheRestAfterAWhile) {
  for (std::uint32_t psn = 1; psn <= 5; ++psn) h.inject("wan", data(psn).build());
  EXPECT_THAT(psns(), ElementsAre(1, 2));
  h.advance_ns(999 * kUs);
  EXPECT_THAT(psns(), IsEmpty());
  h.advance_ns(2 * kUs);
  EXPECT_THAT(psns(), ElementsAre(3, 4));
  h.advance_ns(1000 * kUs);
  EXPECT_THAT(psns(), ElementsAre(5));
  EXPECT_EQ(counter("written_off"), 2u);
}

TEST_P(BiccOneTest, LimitsChangeAndOffMeansOff) {
  for (std::uint32_t psn = 1; psn <= 4; ++psn) h.inject("wan", data(psn).build());
  EXPECT_EQ(h.held(), 2u);
  EXPECT_NE(set({"in_flight_kb=0"}), "");
  EXPECT_NE(set({"max_packets=4"}), "");
  EXPECT_EQ(set({"in_flight_kb=10"}), "");
  h.inject("in", ack(1).build());
  EXPECT_EQ(h.held(), 0u);
  for (std::uint32_t psn = 5; psn <= 20; ++psn) h.inject("wan", data(psn).build());
  EXPECT_GT(h.held(), 0u);
  EXPECT_EQ(set({"off"}), "");
  h.inject("wan", data(21).build());
  const auto gone = psns();
  ASSERT_THAT(gone, SizeIs(21));
  for (std::uint32_t i = 0; i < 21; ++i) EXPECT_EQ(gone[i], i + 1);
}

TEST_P(BiccOneTest, AReloadKeepsWhatIsHeld) {
  for (std::uint32_t psn = 1; psn <= 4; ++psn) h.inject("wan", data(psn).build());
  h.reload(yaml(kRemote + ", in_flight_kb: 3"));
  EXPECT_EQ(h.held(), 2u);
  h.inject("in", ack(2).build());
  EXPECT_THAT(psns(), ElementsAre(1, 2, 3, 4));
}

TEST_P(BiccOneTest, AReloadWithOtherOptionsLetsItGoOn) {
  for (std::uint32_t psn = 1; psn <= 4; ++psn) h.inject("wan", data(psn).build());
  h.reload(yaml(kRemote));
  EXPECT_THAT(psns(), ElementsAre(1, 2, 3, 4));
}
INSTANTIATE_TEST_SUITE_P(One, BiccOneTest, ::testing::Values(false));

}  // namespace
}  // namespace weft::stages::testing
