// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/stages/nack_filter/stage.h"

#include <cstring>
#include <vector>

#include "switch/stages/nack_filter/drops.h"
#include "tests/switch/stages/nack_filter/rig.h"

namespace weft::stages::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(NackFilter, BlocksANackWhosePacketIsStillOnItsWay) {
  ReceiverLeaf leaf;
  leaf.arrive({0, 1, 3});
  leaf.say(nack(2));
  EXPECT_THAT(leaf.nacks(), IsEmpty());
  EXPECT_EQ(leaf.counter("nacks_blocked"), 1u);
  EXPECT_EQ(leaf.h.dropped(NackDrop::nack_blocked), 1u);
  leaf.arrive({2, 4, 5});
  leaf.say(ack(5));
  leaf.h.advance_ns(10'000 * kUs);
  EXPECT_EQ(leaf.upwards().size(), 1u) << "the ACK alone";
  EXPECT_EQ(leaf.counter("compensated_packet") + leaf.counter("compensated_guard"), 0u);
}

TEST(NackFilter, LetsANackPassWhosePacketItsOwnPathHasSkipped) {
  ReceiverLeaf leaf;
  leaf.arrive({0, 1, 3, 4});
  leaf.say(nack(2));
  EXPECT_THAT(leaf.nacks(), ElementsAre(2));
  EXPECT_EQ(leaf.counter("nacks_valid"), 1u);
}

TEST(NackFilter, ALaterPacketOfThePathCompensatesABlockedNackWithTheSameNack) {
  ReceiverLeaf leaf;
  leaf.arrive({0, 1, 3});
  leaf.say(nack(2, 77));
  EXPECT_THAT(leaf.upwards(), IsEmpty());
  leaf.arrive({4});
  const auto sent = leaf.upwards();
  ASSERT_EQ(sent.size(), 1u);
  // As the NACK itself would have left: routed, all else as it came from the receiver.
  const Bytes expected = nack(2, 77).eth(leaf_mac(2), other_mac(0x11)).ttl(63).build();
  const Bytes other = nack(2, 77).eth(leaf_mac(3), other_mac(0x12)).ttl(63).build();
  EXPECT_TRUE(sent[0] == expected || sent[0] == other);
  EXPECT_EQ(leaf.counter("compensated_packet"), 1u);
  leaf.arrive({6, 8});
  EXPECT_THAT(leaf.upwards(), IsEmpty()) << "one NACK per PSN";
}

TEST(NackFilter, ANackThatCrossedItsPacketIsBlockedWhereThePaperWouldCompensate) {
  for (const bool exact : {true, false}) {
    ReceiverLeaf leaf({.filter = exact ? "" : ", check: ring_first"});
    leaf.arrive({1, 0});
    leaf.say(nack(0));
    leaf.arrive({2});
    EXPECT_EQ(leaf.nacks().size(), exact ? 0u : 1u);
  }
}

TEST(NackFilter, TheGuardSendsWhatNoPacketCanProve) {
  ReceiverLeaf leaf({.filter = ", guard_us: 200"});
  leaf.arrive({0, 1, 3});
  leaf.say(nack(2));
  leaf.h.advance_ns(199 * kUs);
  EXPECT_THAT(leaf.upwards(), IsEmpty());
  leaf.h.advance_ns(1 * kUs);
  EXPECT_THAT(leaf.nacks(), ElementsAre(2));
  EXPECT_EQ(leaf.counter("compensated_guard"), 1u);
  leaf.h.advance_ns(1000 * kUs);
  EXPECT_THAT(leaf.upwards(), IsEmpty());
}

TEST(NackFilter, ACompensationThatFoundNoBufferIsTriedAgainLongBeforeTheGuardExpires) {
  ReceiverLeaf leaf({.filter = ", guard_us: 1000"});
  leaf.arrive({0, 1, 3});
  leaf.say(nack(2));
  leaf.h.advance_ns(100 * kUs);
  rte_mbuf* proof = rte_pktmbuf_alloc(leaf.h.pool());
  std::vector<rte_mbuf*> taken;
  while (rte_mbuf* m = rte_pktmbuf_alloc(leaf.h.pool())) taken.push_back(m);
  const Bytes frame = data(4, 1).build();
  std::memcpy(rte_pktmbuf_append(proof, static_cast<std::uint16_t>(frame.size())), frame.data(), frame.size());
  leaf.h.inject("s1", proof);
  EXPECT_EQ(leaf.counter("no_buffer"), 1u);
  for (rte_mbuf* m : taken) rte_pktmbuf_free(m);
  leaf.h.advance_ns(99 * kUs);
  EXPECT_THAT(leaf.upwards(), IsEmpty());
  leaf.h.advance_ns(1 * kUs);
  EXPECT_THAT(leaf.nacks(), ElementsAre(2));
  leaf.h.advance_ns(2000 * kUs);
  EXPECT_THAT(leaf.upwards(), IsEmpty());
}

TEST(NackFilter, ProofOfReceiptStopsTheGuard) {
  for (const FrameBuilder& proof :
       {ack(2), ack(5), answer(wire::Syndrome::rnr_nak(5), 2), answer(wire::Syndrome::rnr_nak(5), 3)}) {
    ReceiverLeaf leaf({.filter = ", guard_us: 200"});
    leaf.arrive({0, 1, 3});
    leaf.say(nack(2));
    leaf.arrive({2});
    leaf.say(proof);
    EXPECT_EQ(leaf.upwards().size(), 1u) << "the proof itself passes";
    leaf.h.advance_ns(1000 * kUs);
    EXPECT_THAT(leaf.upwards(), IsEmpty());
  }
}

TEST(NackFilter, AnAckOfWhatCameBeforeStopsNothing) {
  ReceiverLeaf leaf({.filter = ", guard_us: 200"});
  leaf.arrive({0, 1, 3});
  leaf.say(nack(2));
  leaf.say(ack(1));
  leaf.h.advance_ns(1000 * kUs);
  EXPECT_THAT(leaf.nacks(), ElementsAre(2));
}

// The receiver has asked for 6 since: a copy of its NACK for 2, which comes late, must not be what the sender gets.
TEST(NackFilter, ALateCopyOfAnOlderNackDoesNotReplaceTheBlockedOne) {
  ReceiverLeaf leaf;
  leaf.arrive({0, 1, 3});
  leaf.say(nack(2));
  leaf.arrive({2, 4, 5});
  leaf.say(ack(5));
  EXPECT_EQ(leaf.upwards().size(), 1u);
  leaf.arrive({7});
  leaf.say(nack(6, 77));
  leaf.say(nack(2));
  EXPECT_EQ(leaf.counter("nacks_blocked"), 3u);
  leaf.arrive({8});
  const auto sent = leaf.upwards();
  ASSERT_EQ(sent.size(), 1u) << "8 skips 6 on its path";
  const Bytes expected = nack(6, 77).eth(leaf_mac(2), other_mac(0x11)).ttl(63).build();
  const Bytes other = nack(6, 77).eth(leaf_mac(3), other_mac(0x12)).ttl(63).build();
  EXPECT_TRUE(sent[0] == expected || sent[0] == other);
  EXPECT_EQ(leaf.counter("compensated_packet"), 1u);
}

TEST(NackFilter, TheGuardSendsTheBlockedNackAlsoAfterALateCopyOfAnOlderOne) {
  ReceiverLeaf leaf({.filter = ", guard_us: 200"});
  leaf.arrive({0, 1, 3});
  leaf.say(nack(2));
  leaf.arrive({2, 4, 5});
  leaf.say(ack(5));
  EXPECT_EQ(leaf.upwards().size(), 1u);
  leaf.arrive({7});
  leaf.say(nack(6));
  leaf.say(nack(2));
  leaf.h.advance_ns(300 * kUs);
  EXPECT_THAT(leaf.nacks(), ElementsAre(6));
  EXPECT_EQ(leaf.counter("compensated_guard"), 1u);
}

// Of two paths the second one is faster, and the receiver drops what comes early: it asks for every second packet.
void arrive_at_a_receiver_that_keeps_nothing(ReceiverLeaf& leaf, std::uint32_t until) {
  leaf.arrive({0, 1, 3});
  leaf.say(nack(2));
  leaf.arrive({2});
  for (std::uint32_t psn = 5; psn < until; psn += 2) {
    leaf.arrive({psn, psn - 1});
    leaf.say(nack(psn));
  }
}

TEST(NackFilter, TheNacksOfAReceiverThatKeepsNoEarlyPacketsPassMarked) {
  ReceiverLeaf leaf({.filter = ", guard_us: 1000000"});
  arrive_at_a_receiver_that_keeps_nothing(leaf, 9);
  EXPECT_THAT(leaf.upwards(), IsEmpty());
  EXPECT_EQ(leaf.h.rows("nack_filter_qps")[0]["receiver"], "unknown");
  leaf.arrive({9, 8});
  leaf.say(nack(9));
  leaf.say(ack(9));
  const auto sent = leaf.upwards();
  ASSERT_EQ(sent.size(), 2u);
  for (const Bytes& frame : sent) {
    const wire::Parsed parsed = parsed_of(frame);
    EXPECT_TRUE(has_in_order_mark(frame.data(), parsed));
    EXPECT_TRUE(wire::icrc_ok(frame.data(), parsed));
  }
  EXPECT_EQ(leaf.counter("receivers_in_order"), 1u);
  EXPECT_EQ(leaf.counter("nacks_in_order"), 1u);
  EXPECT_EQ(leaf.h.rows("nack_filter_qps")[0]["receiver"], "in_order");
  EXPECT_EQ(leaf.h.rows("nack_filter")[0]["in_order"], 1);
  leaf.h.reload(leaf_yaml(3, {.filter = ", guard_us: 1000000"}));
  leaf.say(nack(11));
  EXPECT_THAT(leaf.nacks(), ElementsAre(11)) << "a reload forgets nothing";
}

TEST(NackFilter, ReceiversThatKeepNoEarlyPacketsAreNotLookedForWhenThatIsOff) {
  ReceiverLeaf leaf({.filter = ", guard_us: 1000000, detect_gbn: false"});
  arrive_at_a_receiver_that_keeps_nothing(leaf, 41);
  EXPECT_THAT(leaf.upwards(), IsEmpty());
  EXPECT_EQ(leaf.counter("receivers_in_order"), 0u);
}

TEST(NackFilter, RetransmissionsThatKeepFollowingBlockedNacksRaiseAWarning) {
  ReceiverLeaf leaf({.filter = ", detect_gbn: false"});
  leaf.arrive({0, 1, 3});
  leaf.say(nack(2));
  leaf.arrive({2});
  for (int i = 0; i < 63; ++i) leaf.arrive({3});
  EXPECT_EQ(leaf.h.rows("nack_filter")[0]["warning"], "");
  leaf.arrive({3});
  EXPECT_EQ(leaf.counter("retransmitted_after_block"), 64u);
  EXPECT_EQ(leaf.h.rows("nack_filter")[0]["retransmitting"], 1);
  EXPECT_THAT(leaf.h.rows("nack_filter")[0]["warning"].get<std::string>(), HasSubstr("keeps no early packets"));
}

TEST(NackFilter, RnrNaksAndNaksThatEndAConnectionPass) {
  ReceiverLeaf leaf;
  leaf.arrive({0, 1, 3});
  leaf.say(answer(wire::Syndrome::rnr_nak(5), 2));
  leaf.say(answer(wire::Syndrome::nak(wire::NakCode::remote_access_error), 2));
  EXPECT_EQ(leaf.upwards().size(), 2u);
  EXPECT_EQ(leaf.counter("nacks_seen"), 0u);
}

TEST(NackFilter, ABlockedNackMayGoOnAsAnAckOfWhatCameBefore) {
  ReceiverLeaf leaf({.filter = ", on_block: ack"});
  leaf.arrive({0, 1, 3});
  leaf.say(nack(2, 77));
  const auto sent = leaf.upwards();
  ASSERT_EQ(sent.size(), 1u);
  const Bytes expected = ack(1, 77).eth(leaf_mac(2), other_mac(0x11)).ttl(63).build();
  const Bytes other = ack(1, 77).eth(leaf_mac(3), other_mac(0x12)).ttl(63).build();
  EXPECT_TRUE(sent[0] == expected || sent[0] == other);
  leaf.arrive({4});
  EXPECT_THAT(leaf.nacks(), ElementsAre(2));
}

TEST(NackFilter, UnknownQueuePairsPassUntouched) {
  ReceiverLeaf leaf({.qps = ""});
  leaf.arrive({0, 1, 3});
  leaf.say(nack(2));
  EXPECT_THAT(leaf.nacks(), ElementsAre(2));
  EXPECT_EQ(leaf.counter("nacks_unknown"), 1u);
  EXPECT_EQ(leaf.counter("qps_active"), 0u);
}

TEST(NackFilter, TheFirstPsnOfAConfiguredPairLetsItJudgeFromTheStart) {
  for (const bool told : {true, false}) {
    const std::string first = told ? ", first_psn: 10" : "";
    ReceiverLeaf leaf({.filter = ", guard_us: 0",
                       .qps = "{ a: { address: 10.0.1.2, qpn: 17" + first + " }, b: { address: 10.0.3.2, qpn: 34 } }"});
    leaf.arrive({11});
    leaf.say(nack(10));
    EXPECT_EQ(leaf.nacks().size(), told ? 0u : 1u) << "without it, 10 may have left before";
    leaf.arrive({13, 12});
    EXPECT_EQ(leaf.nacks().size(), told ? 1u : 0u) << "12 proves that 10 is lost";
  }
}

TEST(NackFilter, ANackWithAWrongIcrcIsNotBelieved) {
  ReceiverLeaf leaf;
  leaf.arrive({0, 1, 3});
  leaf.h.inject("h1", nack(2).icrc(0x12345678).build());
  EXPECT_EQ(leaf.upwards().size(), 1u);
  EXPECT_EQ(leaf.counter("nacks_unknown"), 1u);
}

TEST(NackFilter, PacketsBetweenHostsOfOneLeafTakeNoState) {
  ReceiverLeaf leaf({.qps = "{ a: { address: 10.0.4.2, qpn: 17 }, b: { address: 10.0.3.2, qpn: 34 } }"});
  leaf.h.inject("h2", FrameBuilder()
                          .eth(other_mac(4), leaf_mac(1))
                          .ipv4("10.0.4.2", "10.0.3.2")
                          .udp(50000)
                          .bth(Opcode::RC_SEND_ONLY, kReceiverQp, Psn(0))
                          .build());
  EXPECT_EQ(leaf.h.take("h1").size(), 1u);
  EXPECT_EQ(leaf.counter("qps_active"), 0u);
}

TEST(NackFilter, RetransmissionsInVainAreCounted) {
  ReceiverLeaf leaf;
  leaf.arrive({0, 1, 2, 3, 2, 6, 4});
  EXPECT_EQ(leaf.counter("spurious_retransmissions"), 1u) << "2 came twice; 4 was lost";
}

TEST(NackFilter, PsnsWrapWithANumberOfPathsThatIsNoPowerOfTwo) {
  for (const char* check : {"gap", "ring_first", "ring_scan", "hwm"}) {
    ReceiverLeaf leaf({.uplinks = 3, .filter = std::string(", check: ") + check});
    // 2^24 - 1 and 0 are of the same class modulo 3.
    leaf.arrive({0xfffffa, 0xfffffb, 0xfffffc, 0xfffffd, 0xfffffe});
    leaf.arrive({1});
    leaf.say(nack(0xffffff));
    EXPECT_THAT(leaf.nacks(), IsEmpty()) << check;
    leaf.arrive({0});
    EXPECT_THAT(leaf.nacks(), ElementsAre(0xffffff)) << check;
  }
}

TEST(NackFilter, WhenPacketsArriveOtherwiseNacksPassUntilTheNewPathsAreLearned) {
  ReceiverLeaf leaf({.uplinks = 3, .filter = ", guard_us: 0"});
  leaf.arrive({0, 1, 2, 3, 4});
  // The sender's leaf has lost its second uplink: two paths, s1 and s3.
  const auto two_paths = [&](std::uint32_t psn) { leaf.arrive_through(psn % 2 == 0 ? 1 : 3, psn); };
  for (const std::uint32_t psn : {5u, 6u, 7u, 8u}) two_paths(psn);
  EXPECT_GE(leaf.counter("path_mismatches"), 1u);
  leaf.say(nack(9));
  EXPECT_THAT(leaf.nacks(), ElementsAre(9)) << "nothing is judged";
  for (std::uint32_t psn = 9; psn < 60; ++psn) two_paths(psn);
  two_paths(61);
  leaf.say(nack(60));
  EXPECT_THAT(leaf.nacks(), IsEmpty()) << "judged by the new paths";
  two_paths(62);
  EXPECT_THAT(leaf.nacks(), ElementsAre(60));
  const auto row = leaf.h.rows("nack_filter_qps")[0];
  EXPECT_EQ(row["paths"], 2);
}

TEST(NackFilter, ADropInItsOwnQueueIsAKnownLoss) {
  LeafSetup setup;
  setup.filter = ", guard_us: 0";
  ReceiverLeaf leaf(setup);
  leaf.arrive({0, 1, 3});
  leaf.say(nack(2));
  EXPECT_THAT(leaf.nacks(), IsEmpty());
  leaf.h.set_link("h1", false);
  leaf.arrive({2});
  EXPECT_THAT(leaf.nacks(), ElementsAre(2)) << "no later packet is needed";
}

TEST(NackFilter, ANackForAPathWhoseUplinkIsDownPasses) {
  ReceiverLeaf leaf({.uplinks = 3});
  leaf.arrive({0, 1, 2, 4, 5, 7});
  leaf.h.set_link("s1", false);
  leaf.h.advance_ns(1);
  leaf.say(nack(3));
  EXPECT_THAT(leaf.nacks(), ElementsAre(3));
  EXPECT_EQ(leaf.counter("nacks_path_down"), 1u);
  leaf.say(nack(8));
  EXPECT_THAT(leaf.nacks(), IsEmpty()) << "8 comes in through s3";
  leaf.h.set_link("s1", true);
  leaf.h.advance_ns(1);
  leaf.say(nack(9));
  EXPECT_THAT(leaf.nacks(), IsEmpty()) << "9 may still come in through s1";
  EXPECT_EQ(leaf.counter("nacks_path_down"), 1u);
}

TEST(NackFilter, ABlockedNackIsSentWhenTheUplinkOfItsPacketGoesDown) {
  ReceiverLeaf leaf({.uplinks = 3});
  leaf.arrive({0, 1, 2, 4, 5});
  leaf.say(nack(3));
  leaf.h.set_link("s2", false);
  leaf.h.advance_ns(1);
  EXPECT_THAT(leaf.nacks(), IsEmpty());
  leaf.h.set_link("s1", false);
  leaf.h.advance_ns(1);
  EXPECT_THAT(leaf.nacks(), ElementsAre(3));
  EXPECT_EQ(leaf.counter("compensated_path_down"), 1u);
  leaf.h.advance_ns(10'000 * kUs);
  EXPECT_THAT(leaf.upwards(), IsEmpty()) << "one NACK per PSN";
}

TEST(NackFilter, ANackForAnExcludedPathPassesAndIsJudgedAgainWhenThePathComesBack) {
  ReceiverLeaf leaf({.uplinks = 3, .filter = ", guard_us: 0"});
  leaf.arrive({0, 1, 2, 4, 5, 7});
  leaf.say(nack(3));
  EXPECT_THAT(leaf.nacks(), IsEmpty());
  ASSERT_EQ(leaf.h.exclude("s1", true), "");
  leaf.h.advance_ns(1);
  EXPECT_THAT(leaf.nacks(), ElementsAre(3)) << "it may be lost";
  EXPECT_EQ(leaf.counter("compensated_path_down"), 1u);
  leaf.arrive({3});
  leaf.say(nack(6));
  EXPECT_THAT(leaf.nacks(), ElementsAre(6));
  EXPECT_EQ(leaf.counter("nacks_path_down"), 1u);
  EXPECT_EQ(leaf.h.rows("nack_filter")[0]["excluded"], "s1");

  // The sender's leaf knows too: two paths, s2 and s3.
  const auto two_paths = [&](std::uint32_t psn) { leaf.arrive_through(psn % 2 == 0 ? 2 : 3, psn); };
  for (std::uint32_t psn = 8; psn < 80; ++psn) two_paths(psn);
  EXPECT_EQ(leaf.h.rows("nack_filter_qps")[0]["paths"], 2);
  leaf.say(ack(79));
  two_paths(81);
  leaf.say(nack(80));
  EXPECT_THAT(leaf.nacks(), IsEmpty()) << "judged by the paths that are left";
  two_paths(80);

  ASSERT_EQ(leaf.h.exclude("s1", false), "");
  leaf.h.advance_ns(1);
  EXPECT_EQ(leaf.h.rows("nack_filter")[0]["excluded"], "");
  for (std::uint32_t psn = 82; psn < 92; ++psn) leaf.arrive({psn});
  leaf.say(nack(92));
  EXPECT_THAT(leaf.nacks(), ElementsAre(92)) << "nothing is judged while the set grows back";
  for (std::uint32_t psn = 92; psn < 160; ++psn) leaf.arrive({psn});
  EXPECT_EQ(leaf.h.rows("nack_filter_qps")[0]["paths"], 3);
  leaf.say(ack(159));
  leaf.arrive({161, 162});
  leaf.say(nack(160));
  EXPECT_THAT(leaf.nacks(), IsEmpty()) << "judged by all paths";
  leaf.arrive({163});
  EXPECT_THAT(leaf.nacks(), ElementsAre(160));
}

TEST(NackFilter, QueuePairsThatBeginWhileAPathIsExcludedHaveOnePathLess) {
  const std::string qps = "{ a: { address: 10.0.1.2, qpn: 17, first_psn: 0 }, b: { address: 10.0.3.2, qpn: 34 } }";
  ReceiverLeaf leaf({.uplinks = 3, .qps = qps});
  ASSERT_EQ(leaf.h.exclude("s3", true), "");
  leaf.h.advance_ns(1);
  for (const std::uint32_t psn : {1u, 2u, 3u}) leaf.arrive_through(1 + psn % 2, psn);
  EXPECT_EQ(leaf.h.rows("nack_filter_qps")[0]["paths"], 2);
  leaf.say(nack(0));
  EXPECT_THAT(leaf.nacks(), ElementsAre(0)) << "2 has skipped it on its path";
  EXPECT_EQ(leaf.counter("nacks_valid"), 1u);
}

TEST(NackFilter, WithoutArrivalCheckNacksPassUntilNothingOfTheOldPathsCanBeUnderWay) {
  ReceiverLeaf leaf({.uplinks = 3, .filter = ", arrival_check: off, paths: 12, window_psns: 64, guard_us: 0"});
  for (std::uint32_t psn = 0; psn < 30; ++psn) leaf.arrive({psn});
  leaf.arrive({31});
  leaf.say(nack(30));
  EXPECT_THAT(leaf.nacks(), IsEmpty());
  ASSERT_EQ(leaf.h.exclude("s3", true), "");
  leaf.h.advance_ns(1);
  EXPECT_THAT(leaf.nacks(), ElementsAre(30));
  EXPECT_EQ(leaf.counter("nacks_released"), 1u);
  EXPECT_EQ(leaf.h.rows("nack_filter_qps")[0]["paths"], 8);
  for (std::uint32_t psn = 32; psn < 90; ++psn) leaf.arrive_through(1 + psn % 2, psn);
  leaf.say(nack(90));
  EXPECT_THAT(leaf.nacks(), ElementsAre(90));
  for (std::uint32_t psn = 90; psn < 110; ++psn) leaf.arrive_through(1 + psn % 2, psn);
  leaf.say(ack(109));
  leaf.arrive_through(2, 111);
  leaf.say(nack(110));
  EXPECT_THAT(leaf.nacks(), IsEmpty()) << "judged by 8 paths";
  leaf.arrive_through(1, 118);
  EXPECT_THAT(leaf.nacks(), ElementsAre(110));
}

TEST(NackFilter, WhatWaitsInTheQueueToTheHostWhenAnUplinkGoesDownIsNotLost) {
  for (const bool lost : {true, false}) {
    // 1 Mbit/s: a packet takes some milliseconds, longer than the guard would in a fabric.
    ReceiverLeaf leaf({.uplinks = 3, .filter = ", guard_us: 1000000", .host_port = ", rate_mbps: 1"});
    leaf.arrive({0, 1, 2, 4});
    leaf.h.advance_ns(20'000 * kUs);
    leaf.arrive({5, 7, 8});
    if (!lost) leaf.arrive({3});
    leaf.say(nack(3));
    leaf.h.set_link("s1", false);
    leaf.h.advance_ns(1);
    EXPECT_THAT(leaf.nacks(), IsEmpty()) << "packets wait";
    leaf.h.advance_ns(50'000 * kUs);
    EXPECT_EQ(leaf.nacks().size(), lost ? 1u : 0u);
    EXPECT_EQ(leaf.counter("compensated_path_down"), lost ? 1u : 0u);
  }
}

TEST(NackFilter, WithoutArrivalCheckAnUplinkSaysNothingAboutPaths) {
  ReceiverLeaf leaf({.filter = ", arrival_check: off"});
  leaf.arrive({0, 1, 3});
  leaf.h.set_link("s1", false);
  leaf.h.advance_ns(1);
  leaf.say(nack(2));
  EXPECT_THAT(leaf.nacks(), IsEmpty());
}

TEST(NackFilter, ShowsItsMemoryBesideThatOfThePaper) {
  ReceiverLeaf leaf;
  leaf.arrive({0, 1, 2});
  const auto rows = leaf.h.rows("nack_filter");
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0]["qps"], 1);
  EXPECT_EQ(rows[0]["eq4_bytes_per_qp"], 120);
  EXPECT_EQ(rows[0]["eq4_example_bytes"], 192'512);
  EXPECT_EQ(rows[0]["bytes"], rows[0]["bytes_per_qp"]);
  const auto qps = leaf.h.rows("nack_filter_qps");
  ASSERT_EQ(qps.size(), 1u);
  EXPECT_EQ(qps[0]["packets_by_path"], "2 1");
}

TEST(NackFilter, AReloadKeepsWhatIsBlocked) {
  const LeafSetup setup{.filter = ", guard_us: 200"};
  ReceiverLeaf leaf(setup);
  leaf.arrive({0, 1, 3});
  leaf.say(nack(2));
  leaf.h.reload(leaf_yaml(3, setup));
  EXPECT_THAT(leaf.upwards(), IsEmpty());
  leaf.h.advance_ns(200 * kUs);
  EXPECT_THAT(leaf.nacks(), ElementsAre(2));
  EXPECT_EQ(leaf.counter("qps_active"), 1u);
}

TEST(NackFilter, AReloadKnowsWhichUplinksAreDown) {
  const LeafSetup setup{.uplinks = 3};
  ReceiverLeaf leaf(setup);
  leaf.arrive({0, 1, 2, 4, 5});
  leaf.h.set_link("s1", false);
  leaf.h.advance_ns(1);
  leaf.h.reload(leaf_yaml(3, setup));
  leaf.h.advance_ns(1);
  leaf.say(nack(3));
  EXPECT_THAT(leaf.nacks(), ElementsAre(3));
  EXPECT_EQ(leaf.counter("nacks_path_down"), 1u);
}

TEST(NackFilter, AReloadKeepsWhatIsExcludedAndWhatIsKnownOfQueuePairs) {
  const LeafSetup setup{.uplinks = 3, .filter = ", arrival_check: off, guard_us: 0"};
  ReceiverLeaf leaf(setup);
  ASSERT_EQ(leaf.h.exclude("s3", true), "");
  leaf.h.advance_ns(1);
  leaf.arrive({0, 1, 2, 3, 5});
  leaf.h.reload(leaf_yaml(3, setup));
  leaf.h.advance_ns(1);
  EXPECT_EQ(leaf.h.rows("nack_filter")[0]["excluded"], "s3");
  leaf.arrive({6});
  leaf.say(nack(4));
  EXPECT_THAT(leaf.nacks(), ElementsAre(4));
  EXPECT_EQ(leaf.counter("nacks_valid"), 1u) << "of two paths, 6 has skipped 4";
}

TEST(NackFilter, AReloadThatGivesPortsOtherNumbersKeepsWhatIsBlocked) {
  const LeafSetup setup{.filter = ", guard_us: 200"};
  ReceiverLeaf leaf(setup);
  leaf.arrive({0, 1, 3});
  leaf.say(nack(2));
  std::string yaml = leaf_yaml(3, setup);
  const std::string ports = "ports:\n";
  yaml.replace(yaml.find(ports), ports.size(), ports + "  - { name: new, type: \"null\" }\n");
  leaf.h.reload(yaml);
  EXPECT_THAT(leaf.upwards(), IsEmpty());
  EXPECT_EQ(leaf.counter("qps_active"), 1u);
  leaf.arrive({4});
  EXPECT_THAT(leaf.nacks(), ElementsAre(2));
  EXPECT_EQ(leaf.counter("compensated_packet"), 1u);
}

// Other options: what is known of 0 to 5 is forgotten, though the first PSN is still known.
TEST(NackFilter, AQueuePairThatBeganBeforeOtherOptionsDoesNotBeginAtItsFirstPsn) {
  ReceiverLeaf leaf({.filter = ", guard_us: 200",
                     .qps = "{ a: { address: 10.0.1.2, qpn: 17, first_psn: 0 }, b: { address: 10.0.3.2, qpn: 34 } }"});
  leaf.arrive({0, 1, 3, 5, 2, 4});
  ASSERT_EQ(leaf.h.set("nack_filter", {"guard_us=300"}), "");
  leaf.arrive({6, 7});
  EXPECT_EQ(leaf.h.rows("nack_filter_qps")[0]["lost_psns"], 0);
  leaf.say(nack(4));
  EXPECT_THAT(leaf.nacks(), IsEmpty()) << "the NACK crossed 4";
}

TEST(NackFilter, AReloadWithOtherOptionsSendsWhatIsBlocked) {
  ReceiverLeaf leaf({.filter = ", guard_us: 200"});
  leaf.arrive({0, 1, 3});
  leaf.say(nack(2));
  leaf.h.reload(leaf_yaml(3, {.filter = ", guard_us: 300"}));
  leaf.h.advance_ns(1);
  EXPECT_THAT(leaf.nacks(), ElementsAre(2));
  EXPECT_EQ(leaf.counter("nacks_released"), 1u);
  EXPECT_EQ(leaf.counter("qps_active"), 0u);
}

TEST(NackFilter, SwitchedOffEveryNackPassesAndNothingIsRecorded) {
  ReceiverLeaf leaf({.filter = ", guard_us: 200"});
  leaf.arrive({0, 1, 3});
  leaf.say(nack(2));
  EXPECT_THAT(leaf.nacks(), IsEmpty());
  ASSERT_EQ(leaf.h.set("nack_filter", {"off"}), "");
  EXPECT_THAT(leaf.nacks(), ElementsAre(2)) << "what was blocked is sent";
  EXPECT_EQ(leaf.counter("nacks_released"), 1u);
  leaf.arrive({2, 5});
  leaf.say(nack(4));
  EXPECT_THAT(leaf.nacks(), ElementsAre(4));
  EXPECT_EQ(leaf.counter("qps_active"), 0u);
  EXPECT_EQ(leaf.counter("nacks_seen"), 2u) << "counters go on";
  EXPECT_EQ(leaf.h.rows("nack_filter")[0]["enabled"], false);
  leaf.h.advance_ns(1000 * kUs);
  EXPECT_THAT(leaf.nacks(), IsEmpty());
  ASSERT_EQ(leaf.h.set("nack_filter", {"on"}), "");
  leaf.arrive({4, 6, 7, 9});
  leaf.say(nack(8));
  EXPECT_THAT(leaf.nacks(), IsEmpty());
  EXPECT_EQ(leaf.counter("nacks_blocked"), 2u);
}

TEST(NackFilter, OptionsChangeWhilePacketsFlow) {
  ReceiverLeaf leaf({.uplinks = 3, .filter = ", guard_us: 200"});
  ASSERT_EQ(leaf.h.exclude("s3", true), "");
  ASSERT_EQ(leaf.h.set("nack_filter", {"guard_us=500", "on_block=ack", "check=hwm"}), "");
  const auto row = leaf.h.rows("nack_filter")[0];
  EXPECT_EQ(row["guard_us"], 500);
  EXPECT_EQ(row["check"], "hwm");
  EXPECT_EQ(row["excluded"], "s3") << "the new instance has been told";
  EXPECT_EQ(row["paths"], 2);
  ASSERT_EQ(leaf.h.set("nack_filter", {"off"}), "");
  EXPECT_EQ(leaf.h.rows("nack_filter")[0]["excluded"], "s3");
  EXPECT_EQ(leaf.h.set("nack_filter", {"guard=1"}), "unknown key 'guard'; did you mean 'guard_us'?");
  EXPECT_EQ(leaf.h.set("nack_filter", {"window_psns=100"}), "window_psns: must be a power of two");
}

}  // namespace
}  // namespace weft::stages::testing
