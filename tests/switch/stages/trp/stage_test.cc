// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "tests/switch/stages/trp/rig.h"

namespace weft::stages::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST_P(TrpStageTest, ACnpSlowsItsFlowDownAndGoesOn) {
  h.inject("wan", data(1, GetParam()).build());
  EXPECT_THAT(psns(), ElementsAre(1));
  h.inject("in", cnp(GetParam()).build());
  EXPECT_THAT(h.take("wan"), SizeIs(1));
  h.inject("wan", data(2, GetParam()).build());
  EXPECT_THAT(psns(), IsEmpty());
  EXPECT_EQ(h.held(), 1u);
  h.advance_ns(2 * kUs);
  EXPECT_THAT(psns(), ElementsAre(2));
  EXPECT_EQ(h.held(), 0u);
  EXPECT_EQ(counter("cnps_seen"), 1u);
  EXPECT_EQ(counter("packets_held"), 1u);
  EXPECT_EQ(counter("loops"), 1u);
}

// ConnectX RNICs leave it clear.
TEST_P(TrpStageTest, ACnpCountsWithTheMigrationBitToo) {
  h.inject("in", cnp(GetParam()).migrated(true).build());
  h.inject("wan", data(1, GetParam()).build());
  EXPECT_EQ(h.held(), 1u);
  EXPECT_EQ(counter("cnps_seen"), 1u);
}
INSTANTIATE_TEST_SUITE_P(Ip, TrpStageTest, ::testing::Bool());

struct TrpOneTest : TrpStageTest {};

TEST_P(TrpOneTest, FlowsOfOthersAreNotTouched) {
  h.inject("in", cnp().build());
  h.inject("wan", data(1).bth(Opcode::RC_SEND_MIDDLE, Qpn(35), Psn(1)).build());
  h.inject("wan", data(2).ipv4("10.2.0.9", "10.1.0.1").build());
  h.inject("wan", cnp().eth(beyond_mac(1), port_mac(1)).ipv4("10.2.0.1", "10.1.0.1").cnp(kDestination).build());
  EXPECT_THAT(h.take("in"), SizeIs(3));
  EXPECT_EQ(counter("cnps_seen"), 1u) << "one from another data centre is about a flow from here";
}

TEST_P(TrpOneTest, ACnpWhoseFlowIsNotKnownSlowsNothingDown) {
  h.inject("in", cnp(false, Qpn(18)).build());
  h.inject("wan", data(1).build());
  EXPECT_THAT(psns(), ElementsAre(1));
  EXPECT_EQ(counter("cnps_unpaired"), 1u);
}

TEST_P(TrpOneTest, ABurstKeepsItsOrder) {
  h.inject("in", cnp().build());
  std::vector<Bytes> burst;
  for (std::uint32_t psn = 1; psn <= 40; ++psn) burst.push_back(data(psn).build());
  h.inject("wan", burst);
  EXPECT_EQ(h.held(), 40u);
  h.advance_ns(100 * kUs);
  const auto gone = psns();
  ASSERT_THAT(gone, SizeIs(40));
  for (std::uint32_t i = 0; i < 40; ++i) EXPECT_EQ(gone[i], i + 1);
}

TEST_P(TrpOneTest, WithoutRoomTheFlowGoesOnInOrder) {
  EXPECT_EQ(set({"max_packets=4"}), "");
  h.inject("in", cnp().build());
  std::vector<Bytes> burst;
  for (std::uint32_t psn = 1; psn <= 10; ++psn) burst.push_back(data(psn).build());
  h.inject("wan", burst);
  const auto gone = psns();
  ASSERT_THAT(gone, SizeIs(10));
  for (std::uint32_t i = 0; i < 10; ++i) EXPECT_EQ(gone[i], i + 1);
  EXPECT_GT(counter("flushed"), 0u);
}

TEST_P(TrpOneTest, OtherOptionsLetWhatIsHeldGoOnBeforeAllOthers) {
  h.inject("in", cnp().build());
  h.inject("wan", {data(1).build(), data(2).build()});
  EXPECT_EQ(h.held(), 2u);
  EXPECT_NE(set({"alpha=0"}), "");
  EXPECT_EQ(set({"alpha=3"}), "");
  h.inject("wan", data(3).build());
  EXPECT_THAT(psns(), ElementsAre(1, 2, 3));
  EXPECT_EQ(h.held(), 0u);
}

TEST_P(TrpOneTest, OffMeansOff) {
  h.inject("in", cnp().build());
  h.inject("wan", data(1).build());
  EXPECT_EQ(set({"off"}), "");
  h.inject("wan", data(2).build());
  EXPECT_THAT(psns(), ElementsAre(1, 2));
}

TEST_P(TrpOneTest, AReloadKeepsWhatIsHeld) {
  const std::string options = kRemote + ", loop_mbps: 100000, loop_delay_ns: 1000";
  h.inject("in", cnp().build());
  h.inject("wan", {data(1).build(), data(2).build()});
  h.reload(yaml(options));
  EXPECT_EQ(h.held(), 2u);
  h.inject("wan", data(3).build());
  EXPECT_EQ(h.held(), 3u) << "its flow is slow still";
  h.advance_ns(10 * kUs);
  EXPECT_THAT(psns(), ElementsAre(1, 2, 3));
}

TEST_P(TrpOneTest, AReloadWithOtherOptionsLetsItGoOn) {
  h.inject("in", cnp().build());
  h.inject("wan", {data(1).build(), data(2).build()});
  h.reload(yaml(kRemote));
  EXPECT_THAT(psns(), ElementsAre(1, 2));
}

INSTANTIATE_TEST_SUITE_P(One, TrpOneTest, ::testing::Values(false));

struct TrpPaceTest : TrpStageTest {
  TrpPaceTest() : TrpStageTest(kRemote + ", mode: pace") {}
};

TEST_P(TrpPaceTest, AFlowGoesOnAtHalfItsRateInOrder) {
  h.inject("in", cnp().build());
  for (std::uint32_t psn = 1; psn <= 60; ++psn) {
    h.inject("wan", data(psn).build());
    h.advance_ns(kUs);
  }
  EXPECT_GT(h.held(), 20u);
  h.advance_ns(2000 * kUs);
  const auto gone = psns();
  ASSERT_THAT(gone, SizeIs(60));
  for (std::uint32_t i = 0; i < 60; ++i) EXPECT_EQ(gone[i], i + 1);
}
INSTANTIATE_TEST_SUITE_P(One, TrpPaceTest, ::testing::Values(false));

struct TrpLoopEcnTest : TrpStageTest {
  TrpLoopEcnTest() : TrpStageTest(kRemote + ", loop_mbps: 1000, loop_ecn: { kmin_kb: 3, kmax_kb: 3 }") {}
  /// Of the packets that have gone on.
  std::vector<wire::Ecn> marks() {
    std::vector<wire::Ecn> result;
    for (const auto& frame : h.take("in")) {
      const wire::Parsed parsed = parsed_of(frame.bytes);
      EXPECT_TRUE(wire::icrc_ok(frame.bytes.data(), parsed));
      result.push_back(static_cast<wire::Ecn>(parsed.tos & 3));
    }
    return result;
  }
  void burst() {
    h.inject("in", cnp(GetParam()).build());
    h.take("wan");
    std::vector<Bytes> packets;
    for (std::uint32_t psn = 1; psn <= 5; ++psn) packets.push_back(data(psn, GetParam()).ecn(wire::Ecn::ect0).build());
    packets.push_back(data(6, GetParam()).ecn(wire::Ecn::not_ect).build());
    h.inject("wan", packets);
    h.advance_ns(1000 * kUs);
  }
};

TEST_P(TrpLoopEcnTest, TheLoopPortMarksByWhatWaitsForIt) {
  using enum wire::Ecn;
  burst();
  EXPECT_THAT(marks(), ElementsAre(ce, ce, ce, ect0, ect0, not_ect))
      << "1,100 bytes each; three wait when the last marked one comes back";
  EXPECT_EQ(counter("loop_marked"), 3u);
  EXPECT_EQ(counter("loop_cnps_sent"), 0u);
}

TEST_P(TrpLoopEcnTest, WithNotifyTheSourceIsToldAtOnceInstead) {
  using enum wire::Ecn;
  EXPECT_EQ(set({"loop_ecn.notify=true", "loop_ecn.cnp_interval_us=12"}), "");
  burst();
  EXPECT_THAT(marks(), ElementsAre(ect0, ect0, ect0, ect0, ect0, not_ect));
  EXPECT_EQ(counter("loop_marked"), 3u);
  const auto told = h.take("wan");
  ASSERT_THAT(told, SizeIs(2)) << "9 us from one packet to the next";
  for (const auto& frame : told) {
    const wire::Parsed parsed = parsed_of(frame.bytes);
    EXPECT_EQ(parsed.opcode, static_cast<std::uint8_t>(Opcode::CNP));
    EXPECT_EQ(parsed.dest_qp, kSource);
    EXPECT_EQ(parsed.tos >> 2, 48);
    EXPECT_TRUE(wire::icrc_ok(frame.bytes.data(), parsed));
  }
  EXPECT_EQ(counter("loop_cnps_sent"), 2u);
}

TEST_P(TrpLoopEcnTest, ASourceThatIsNotKnownHearsOfItFromItsReceiver) {
  using enum wire::Ecn;
  EXPECT_EQ(set({"loop_ecn.notify=true", "state_per=pair"}), "");
  h.inject("in", cnp(GetParam(), Qpn(99)).build());
  h.take("wan");
  std::vector<Bytes> packets;
  for (std::uint32_t psn = 1; psn <= 4; ++psn) {
    packets.push_back(data(psn, GetParam()).ecn(ect0).bth(Opcode::RC_SEND_MIDDLE, Qpn(35), Psn(psn)).build());
  }
  h.inject("wan", packets);
  h.advance_ns(1000 * kUs);
  EXPECT_THAT(marks(), ElementsAre(ce, ect0, ect0, ect0));
  EXPECT_THAT(h.take("wan"), IsEmpty());
}
INSTANTIATE_TEST_SUITE_P(Ip, TrpLoopEcnTest, ::testing::Bool());

struct TrpPairTest : TrpStageTest {
  TrpPairTest() : TrpStageTest(kRemote + ", state_per: pair") {}
};

TEST_P(TrpPairTest, AllFlowsOfTwoHostsShareTheirState) {
  h.inject("in", cnp(GetParam(), Qpn(99)).build());
  h.inject("wan", data(1, GetParam()).build());
  h.inject("wan", data(2, GetParam()).bth(Opcode::RC_SEND_MIDDLE, Qpn(35), Psn(2)).build());
  EXPECT_EQ(h.held(), 2u);
  h.advance_ns(10 * kUs);
  EXPECT_THAT(psns(), ElementsAre(1, 2));
}
INSTANTIATE_TEST_SUITE_P(Ip, TrpPairTest, ::testing::Bool());

// What acknowledges data of the receiver to the source goes the same way as the data that is slowed down.
Bytes ack_to_receiver(std::uint32_t psn, bool ipv6) {
  return data(psn, ipv6).bth(Opcode::RC_ACKNOWLEDGE, Qpn(36), Psn(psn)).aeth(wire::Syndrome(0), psn).payload(0).build();
}

TEST_P(TrpPairTest, AnAckWaitsWithTheDataThatGoesTheSameWay) {
  h.inject("in", cnp(GetParam(), Qpn(99)).build());
  h.inject("wan", data(1, GetParam()).build());
  h.inject("wan", ack_to_receiver(7, GetParam()));
  EXPECT_EQ(h.held(), 2u);
  h.advance_ns(10 * kUs);
  EXPECT_THAT(psns(), ElementsAre(1, 7));
}

struct TrpPairWithoutAcksTest : TrpStageTest {
  TrpPairWithoutAcksTest() : TrpStageTest(kRemote + ", state_per: pair, hold_acks: false") {}
};

TEST_P(TrpPairWithoutAcksTest, AnAckDoesNotWait) {
  h.inject("in", cnp(GetParam(), Qpn(99)).build());
  h.inject("wan", data(1, GetParam()).build());
  h.inject("wan", ack_to_receiver(7, GetParam()));
  EXPECT_EQ(h.held(), 1u);
  EXPECT_THAT(psns(), ElementsAre(7));
  h.advance_ns(10 * kUs);
  EXPECT_THAT(psns(), ElementsAre(1));
}
INSTANTIATE_TEST_SUITE_P(Ip, TrpPairWithoutAcksTest, ::testing::Bool());

}  // namespace
}  // namespace weft::stages::testing
