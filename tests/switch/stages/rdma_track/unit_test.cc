// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/stages/rdma_track/unit.h"

#include <gtest/gtest.h>

#include <iostream>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "switch/stages/rdma_track/order.h"
#include "tests/switch/stages/rdma_track/rig.h"

namespace weft::testing {
namespace {

using stages::TrackCounter;
using tables::QpDetail;
using tables::QpEntry;
using tables::QpTransport;
using wire::NakCode;
using wire::Syndrome;

constexpr Qpn kQp{0x123456};

TEST(QpTracker, CountsPacketsBytesAndMessagesOfADirection) {
  TrackRig rig;
  const auto first = from_a(Opcode::RC_RDMA_WRITE_FIRST, kQp, Psn(10)).reth(0, 0, 2500).payload(1024);
  const auto middle = from_a(Opcode::RC_RDMA_WRITE_MIDDLE, kQp, Psn(11)).payload(1024);
  const auto last = from_a(Opcode::RC_RDMA_WRITE_LAST, kQp, Psn(12)).payload(452);
  rig.burst({first, middle, last});
  const QpEntry& e = rig.entry(kA, kB, kQp);
  EXPECT_EQ(e.packets, 3u);
  EXPECT_EQ(e.bytes, first.build().size() + middle.build().size() + last.build().size());
  EXPECT_EQ(e.messages(), 1u);
  EXPECT_EQ(e.transport(), QpTransport::rc);
  EXPECT_EQ(e.request.value(), 13u);
  EXPECT_EQ(rig.tracker.table().size(), 1u);
  EXPECT_EQ(rig.count(TrackCounter::packets), 3u);
  EXPECT_EQ(rig.count(TrackCounter::bytes), e.bytes);
  EXPECT_EQ(rig.count(TrackCounter::messages), 1u);
  EXPECT_EQ(rig.count(TrackCounter::qps_learned_traffic), 1u);
  EXPECT_EQ(rig.count(TrackCounter::qps_active), 1u);
}

TEST(QpTracker, BytesLeaveEthernetPaddingOut) {
  TrackRig rig;
  rig.send(write_from_a(kQp, 0, 0).pad_to_minimum().trailer(40));
  EXPECT_EQ(rig.entry(kA, kB, kQp).bytes, write_from_a(kQp, 0, 0).build().size());
}

TEST(QpTracker, BothDirectionsAndOtherQpsHaveEntriesOfTheirOwn) {
  TrackRig rig;
  rig.burst({write_from_a(Qpn(5), 0), write_from_a(Qpn(6), 0), from_b(Opcode::RC_SEND_ONLY, Qpn(5), Psn(0))});
  EXPECT_EQ(rig.tracker.table().size(), 3u);
  EXPECT_EQ(rig.entry(kA, kB, Qpn(5)).packets, 1u);
  EXPECT_EQ(rig.entry(kB, kA, Qpn(5)).packets, 1u);
  EXPECT_FALSE(rig.has(kB, kA, Qpn(6)));
}

TEST(QpTracker, TheWholeQpnCounts) {
  TrackRig rig;
  rig.burst({write_from_a(Qpn(0x000017), 0), write_from_a(Qpn(0x010017), 0), write_from_a(Qpn(0xff0017), 0)});
  EXPECT_EQ(rig.tracker.table().size(), 3u);
}

TEST(QpTracker, PacketsThatAreNotRoceAreLeftAlone) {
  TrackRig rig;
  const auto udp = wire::FrameBuilder().ipv4(kA, kB).udp(50000, 53).payload(20);
  const auto arp = wire::FrameBuilder().arp(1, {}, wire::IpAddress::v4(1), {}, wire::IpAddress::v4(2));
  const auto handles = rig.burst({udp, write_from_a(kQp, 0), arp});
  EXPECT_EQ(handles[0], 0u);
  EXPECT_NE(handles[1], 0u);
  EXPECT_EQ(handles[2], 0u);
  EXPECT_EQ(rig.count(TrackCounter::packets), 1u);
  EXPECT_EQ(rig.count(TrackCounter::untracked), 0u);
}

TEST(QpTracker, TheHandleLeadsToTheEntryAndItsPeer) {
  TrackRig rig;
  ASSERT_TRUE(
      rig.tracker.add_configured(rig.now, *wire::IpAddress::parse(kA), Qpn(5), *wire::IpAddress::parse(kB), Qpn(6)));
  TrackedFrame frame(write_from_a(Qpn(6), 0).build());
  TrackedFrame* pointer = &frame;
  rig.tracker.track<FrameAccess, TrackedFrame>(rig.now, {&pointer, 1});
  const std::uint8_t* l3 = frame.bytes.data() + frame.parsed.l3_offset;
  for (const std::uint32_t handle : {frame.handle, 0u, frame.handle + 1, 0xffffffffu}) {
    const stages::QpView view = rig.tracker.view(handle, frame.parsed, l3);
    ASSERT_TRUE(view) << "handle " << handle << " is right, missing or stale: the key decides";
    EXPECT_EQ(view.entry, &rig.entry(kA, kB, Qpn(6)));
    EXPECT_EQ(view.peer, &rig.entry(kB, kA, Qpn(5)));
  }
  const TrackedFrame unknown(write_from_a(Qpn(7), 0).build());
  EXPECT_FALSE(rig.tracker.view(frame.handle, unknown.parsed, unknown.bytes.data() + unknown.parsed.l3_offset));
}

TEST(QpTracker, LossReorderingAndCopiesAreCounted) {
  TrackRig rig;
  // 0 1 [2 lost] 3 4 4 6 5 7, then 2 again.
  for (const std::uint32_t psn : {0u, 1u, 3u, 4u, 4u, 6u, 5u, 7u, 2u}) rig.send(write_from_a(kQp, psn));
  const QpDetail& d = rig.detail(kA, kB, kQp);
  EXPECT_EQ(d.out_of_order.value(), 4u) << "3 and 6 skip, 5 and 2 are late";
  EXPECT_EQ(rig.retransmitted(kA, kB, kQp), 1u);
  EXPECT_EQ(rig.count(TrackCounter::out_of_order), 4u);
  EXPECT_EQ(rig.count(TrackCounter::retransmitted), 1u);
  EXPECT_EQ(rig.entry(kA, kB, kQp).messages(), 8u) << "the copy does not count";
}

TEST(QpTracker, ManyCopiesAreAllCounted) {
  // More than the hot half of an entry counts.
  constexpr std::uint64_t kCopies = 2 * tables::QpEntry::kMostRepeats + 5;
  for (const Opcode opcode : {Opcode::RC_SEND_ONLY, Opcode::UC_SEND_ONLY}) {
    TrackRig rig;
    TrackedFrame frame(from_a(opcode, kQp, Psn(0)).payload(8).build());
    const std::vector<TrackedFrame*> burst{&frame};
    for (std::uint64_t i = 0; i <= kCopies; ++i) rig.tracker.track<FrameAccess, TrackedFrame>(rig.now, burst);
    const std::uint64_t duplicates = opcode == Opcode::RC_SEND_ONLY ? kCopies : 0;
    EXPECT_EQ(rig.retransmitted(kA, kB, kQp), kCopies);
    EXPECT_EQ(rig.duplicates(kA, kB, kQp), duplicates);
    EXPECT_EQ(rig.count(TrackCounter::retransmitted), kCopies);
    EXPECT_EQ(rig.count(TrackCounter::duplicates), duplicates);
    EXPECT_EQ(rig.entry(kA, kB, kQp).messages(), 1u) << "copies are no messages";
  }
}

TEST(QpTracker, PsnsMayWrap) {
  TrackRig rig;
  for (const std::uint32_t psn : {0xfffffeu, 0xffffffu, 0u, 1u}) rig.send(write_from_a(kQp, psn));
  EXPECT_EQ(rig.count(TrackCounter::out_of_order), 0u);
  EXPECT_EQ(rig.entry(kA, kB, kQp).request.value(), 2u);
}

TEST(QpTracker, UcIsJudgedLikeRcButHasNoDuplicates) {
  TrackRig rig;
  for (const std::uint32_t psn : {0u, 2u, 1u, 1u}) rig.send(from_a(Opcode::UC_SEND_ONLY, kQp, Psn(psn)).payload(8));
  EXPECT_EQ(rig.entry(kA, kB, kQp).transport(), QpTransport::uc);
  EXPECT_EQ(rig.detail(kA, kB, kQp).out_of_order.value(), 2u);
  EXPECT_EQ(rig.retransmitted(kA, kB, kQp), 1u);
  EXPECT_EQ(rig.count(TrackCounter::duplicates), 0u);
}

TEST(QpTracker, DatagramsHaveNoOrder) {
  TrackRig rig;
  for (const std::uint32_t psn : {7u, 3u, 3u, 900000u}) {
    rig.send(from_a(Opcode::UD_SEND_ONLY, kQp, Psn(psn)).deth(1, Qpn(9)).payload(8));
  }
  EXPECT_EQ(rig.entry(kA, kB, kQp).transport(), QpTransport::ud);
  EXPECT_EQ(rig.entry(kA, kB, kQp).messages(), 4u);
  EXPECT_EQ(rig.count(TrackCounter::out_of_order) + rig.count(TrackCounter::retransmitted) +
                rig.count(TrackCounter::psn_restarts),
            0u);
}

TEST(QpTracker, NaksCountByCodeInTheDirectionInWhichTheyTravel) {
  TrackRig rig;
  rig.send(answer_from_b(kQp, 1, Syndrome::ack()));
  std::uint32_t times = 0;
  for (const auto code : {NakCode::psn_sequence_error, NakCode::invalid_request, NakCode::remote_access_error,
                          NakCode::remote_operational_error, NakCode::invalid_rd_request}) {
    ++times;
    for (std::uint32_t i = 0; i < times; ++i) rig.send(answer_from_b(kQp, 1, Syndrome::nak(code)));
  }
  for (int i = 0; i < 6; ++i) rig.send(answer_from_b(kQp, 1, Syndrome::rnr_nak(12)));
  rig.send(answer_from_b(kQp, 1, Syndrome::nak(static_cast<NakCode>(9))));
  rig.send(answer_from_b(kQp, 1, Syndrome(0x40)));
  const QpDetail& d = rig.detail(kB, kA, kQp);
  EXPECT_EQ(d.nak_psn_sequence, 1u);
  EXPECT_EQ(d.nak_invalid_request, 2u);
  EXPECT_EQ(d.nak_remote_access, 3u);
  EXPECT_EQ(d.nak_remote_operational, 4u);
  EXPECT_EQ(d.nak_invalid_rd, 5u);
  EXPECT_EQ(d.rnr_naks, 6u);
  EXPECT_EQ(rig.count(TrackCounter::nak_psn_sequence), 1u);
  EXPECT_EQ(rig.count(TrackCounter::nak_invalid_request), 2u);
  EXPECT_EQ(rig.count(TrackCounter::nak_remote_access), 3u);
  EXPECT_EQ(rig.count(TrackCounter::nak_remote_operational), 4u);
  EXPECT_EQ(rig.count(TrackCounter::nak_invalid_rd), 5u);
  EXPECT_EQ(rig.count(TrackCounter::rnr_naks), 6u);
  EXPECT_EQ(rig.count(TrackCounter::nak_reserved), 2u);
  EXPECT_EQ(rig.entry(kB, kA, kQp).packets, 24u);
}

TEST(QpTracker, FatalNaksSaturatePerQpButNotInTheSum) {
  TrackRig rig;
  for (int i = 0; i < 300; ++i) rig.send(answer_from_b(kQp, 1, Syndrome::nak(NakCode::remote_access_error)));
  EXPECT_EQ(rig.detail(kB, kA, kQp).nak_remote_access, 255u);
  EXPECT_EQ(rig.count(TrackCounter::nak_remote_access), 300u);
}

TEST(QpTracker, CnpsAndCeMarksAreCounted) {
  TrackRig rig;
  rig.send(write_from_a(kQp, 0));
  rig.send(write_from_a(kQp, 1).ecn(wire::Ecn::ce));
  rig.send(write_from_a(kQp, 2).ecn(wire::Ecn::ect0));
  rig.send(wire::FrameBuilder().ipv4(kB, kA).cnp(Qpn(9)));
  EXPECT_EQ(rig.detail(kA, kB, kQp).ce.value(), 1u);
  EXPECT_EQ(rig.count(TrackCounter::out_of_order), 0u) << "a marked packet is in order like any other";
  EXPECT_EQ(rig.detail(kB, kA, Qpn(9)).cnps.value(), 1u);
  EXPECT_EQ(rig.count(TrackCounter::cnps), 1u);
  EXPECT_EQ(rig.count(TrackCounter::ce), 1u);
}

TEST(QpTracker, ReadRequestsSpanTheirResponsesWhenThePmtuIsKnown) {
  TrackRig rig;
  rig.send(from_a(Opcode::RC_SEND_FIRST, kQp, Psn(0)).payload(1024));
  rig.send(from_a(Opcode::RC_SEND_LAST, kQp, Psn(1)).payload(10));
  rig.send(read_from_a(kQp, 2, 1024));
  EXPECT_EQ(rig.entry(kA, kB, kQp).request.value(), 3u);
  rig.send(write_from_a(kQp, 3));
  // From the next unusual packet on the first packet's size is known.
  rig.send(from_a(Opcode::RC_SEND_FIRST, kQp, Psn(5)).payload(1024));
  EXPECT_EQ(rig.count(TrackCounter::out_of_order), 1u);
  rig.send(read_from_a(kQp, 6, 10 * 1024));
  rig.send(write_from_a(kQp, 16));
  EXPECT_EQ(rig.count(TrackCounter::out_of_order), 1u);
  rig.send(read_from_a(kQp, 17, 10 * 1024));
  rig.send(write_from_a(kQp, 28));
  EXPECT_EQ(rig.count(TrackCounter::out_of_order), 2u) << "one PSN was skipped";
}

TEST(QpTracker, AReadOfUnknownSpanIsNoGap) {
  TrackRig rig;
  rig.send(read_from_a(kQp, 0, 64 * 1024));
  rig.send(read_from_a(kQp, 64, 64 * 1024));  // a PMTU of 1024 that nobody has told
  rig.send(write_from_a(kQp, 128));
  EXPECT_EQ(rig.count(TrackCounter::out_of_order), 0u);
  rig.send(write_from_a(kQp, 130));
  EXPECT_EQ(rig.count(TrackCounter::out_of_order), 1u) << "behind a WRITE a gap is a gap";
  rig.send(read_from_a(kQp, 64, 64 * 1024));
  EXPECT_EQ(rig.count(TrackCounter::retransmitted), 1u);
}

TEST(QpTracker, AShortReadHasOneResponseAtAnyPmtu) {
  TrackRig rig;
  rig.send(read_from_a(kQp, 0, 256));
  rig.send(write_from_a(kQp, 2));
  EXPECT_EQ(rig.count(TrackCounter::out_of_order), 1u);
}

TEST(QpTracker, AtomicsSpanOnePsn) {
  TrackRig rig;
  rig.send(from_a(Opcode::RC_CMP_SWAP, kQp, Psn(0)).atomic(8, 1, 2, 3));
  rig.send(from_a(Opcode::RC_FETCH_ADD, kQp, Psn(1)).atomic(8, 1, 2));
  rig.send(write_from_a(kQp, 2));
  EXPECT_EQ(rig.count(TrackCounter::out_of_order), 0u);
  EXPECT_EQ(rig.entry(kA, kB, kQp).messages(), 3u);
}

wire::FrameBuilder response(Opcode opcode, std::uint32_t psn, std::size_t payload = 1024) {
  return from_b(opcode, kQp, Psn(psn)).payload(payload);
}

TEST(QpTracker, ReadResponsesAreAStreamOfTheirOwn) {
  TrackRig rig;
  // B's requests to the same QP, and B's responses to it, in different PSN spaces.
  rig.send(from_b(Opcode::RC_SEND_ONLY, kQp, Psn(5000)).payload(8));
  rig.send(response(Opcode::RC_RDMA_READ_RESPONSE_FIRST, 10));
  rig.send(from_b(Opcode::RC_SEND_ONLY, kQp, Psn(5001)).payload(8));
  rig.send(response(Opcode::RC_RDMA_READ_RESPONSE_MIDDLE, 11));
  rig.send(response(Opcode::RC_RDMA_READ_RESPONSE_LAST, 12, 100));
  rig.send(response(Opcode::RC_RDMA_READ_RESPONSE_ONLY, 20, 100));
  rig.send(from_b(Opcode::RC_SEND_ONLY, kQp, Psn(5002)).payload(8));
  EXPECT_EQ(rig.count(TrackCounter::out_of_order), 0u) << "PSNs 13 to 19 were requests without responses";
  EXPECT_EQ(rig.count(TrackCounter::retransmitted), 0u);
  EXPECT_EQ(rig.entry(kB, kA, kQp).messages(), 3u) << "messages are requests";
}

TEST(QpTracker, LostAndRepeatedResponsesAreCounted) {
  TrackRig rig;
  rig.send(response(Opcode::RC_RDMA_READ_RESPONSE_FIRST, 10));
  rig.send(response(Opcode::RC_RDMA_READ_RESPONSE_MIDDLE, 12));
  rig.send(response(Opcode::RC_RDMA_READ_RESPONSE_LAST, 13));
  EXPECT_EQ(rig.count(TrackCounter::out_of_order), 1u);
  // The requester asks again from PSN 11 on.
  rig.send(response(Opcode::RC_RDMA_READ_RESPONSE_FIRST, 11));
  EXPECT_EQ(rig.count(TrackCounter::out_of_order), 2u) << "late";
  rig.send(response(Opcode::RC_RDMA_READ_RESPONSE_MIDDLE, 12));
  rig.send(response(Opcode::RC_RDMA_READ_RESPONSE_LAST, 13));
  EXPECT_EQ(rig.retransmitted(kB, kA, kQp), 2u);
  EXPECT_EQ(rig.detail(kB, kA, kQp).out_of_order.value(), 2u);
}

TEST(QpTracker, ResponsesTellTheRequestersDirectionThePmtu) {
  TrackRig rig;
  ASSERT_TRUE(
      rig.tracker.add_configured(rig.now, *wire::IpAddress::parse(kA), kQp, *wire::IpAddress::parse(kB), Qpn(6)));
  rig.send(read_from_a(Qpn(6), 0, 8192));
  rig.send(response(Opcode::RC_RDMA_READ_RESPONSE_FIRST, 0, 2048));
  EXPECT_EQ(stages::pmtu_bytes(rig.entry(kA, kB, Qpn(6)).pmtu_code()), 2048u);
  rig.send(read_from_a(Qpn(6), 4, 8192));
  EXPECT_EQ(rig.entry(kA, kB, Qpn(6)).request.value(), 8u);
  rig.send(read_from_a(Qpn(6), 9, 8192));
  EXPECT_EQ(rig.count(TrackCounter::out_of_order), 1u);
}

TEST(QpTracker, AQpnUsedAgainWithoutCmCountsARestart) {
  TrackRig rig;
  rig.send(write_from_a(kQp, 0x800000));
  rig.send(write_from_a(kQp, 5));
  rig.send(write_from_a(kQp, 6));
  EXPECT_EQ(rig.count(TrackCounter::psn_restarts), 1u);
  EXPECT_EQ(rig.count(TrackCounter::out_of_order) + rig.count(TrackCounter::retransmitted), 0u);
}

TEST(QpTracker, ARestartForgetsThePmtu) {
  TrackRig rig;
  rig.send(from_a(Opcode::RC_SEND_FIRST, kQp, Psn(0x800000)).payload(1024));
  rig.send(from_a(Opcode::RC_SEND_LAST, kQp, Psn(0x800001)).payload(10));
  rig.send(from_a(Opcode::RC_SEND_FIRST, kQp, Psn(0x800002)).ecn(wire::Ecn::ce).payload(1024));
  ASSERT_EQ(stages::pmtu_bytes(rig.entry(kA, kB, kQp).pmtu_code()), 1024u);
  rig.send(read_from_a(kQp, 0, 64 * 1024));
  ASSERT_EQ(rig.count(TrackCounter::psn_restarts), 1u);
  EXPECT_EQ(rig.entry(kA, kB, kQp).pmtu_code(), 0);
  rig.send(read_from_a(kQp, 64, 64 * 1024));
  rig.send(read_from_a(kQp, 80, 64 * 1024));  // the span at a PMTU of 4096
  EXPECT_EQ(rig.count(TrackCounter::out_of_order), 0u);
}

// --- a full table, ageing ----------------------------------------------------------------------------------------

TEST(QpTracker, WhenTheTableIsFullNewQpsPassUntracked) {
  TrackRig rig({.max_qps = 2});
  rig.burst({write_from_a(Qpn(5), 0), write_from_a(Qpn(6), 0), write_from_a(Qpn(7), 0), write_from_a(Qpn(5), 1)});
  EXPECT_EQ(rig.tracker.table().size(), 2u);
  EXPECT_EQ(rig.count(TrackCounter::table_full), 1u);
  EXPECT_EQ(rig.count(TrackCounter::untracked), 1u);
  EXPECT_EQ(rig.count(TrackCounter::packets), 3u);
  EXPECT_EQ(rig.entry(kA, kB, Qpn(5)).packets, 2u);
}

TEST(QpTracker, AnAgedEntryMakesRoomForANewOne) {
  TrackRig rig({.max_qps = 2, .idle_timeout_s = 10});
  rig.burst({write_from_a(Qpn(5), 0), write_from_a(Qpn(6), 0)});
  rig.now += 11'000'000'000;  // without the timer
  rig.send(write_from_a(Qpn(6), 1));
  rig.send(write_from_a(Qpn(7), 0));
  EXPECT_TRUE(rig.has(kA, kB, Qpn(7)));
  EXPECT_TRUE(rig.has(kA, kB, Qpn(6)));
  EXPECT_FALSE(rig.has(kA, kB, Qpn(5)));
  EXPECT_EQ(rig.count(TrackCounter::qps_aged), 1u);
  EXPECT_EQ(rig.count(TrackCounter::qps_active), 2u);
}

TEST(QpTracker, IdleEntriesGoAfterTheTimeoutAndNotBefore) {
  TrackRig rig({.max_qps = 100000, .idle_timeout_s = 60});
  for (std::uint32_t i = 0; i < 2000; ++i) rig.send(write_from_a(Qpn(2 + i), 0));
  rig.advance_s(59);
  EXPECT_EQ(rig.tracker.table().size(), 2000u);
  rig.send(write_from_a(Qpn(2), 1));
  // The whole table is looked at within a quarter of the shorter timeout, which is that of closed connections.
  rig.advance_s(1 + 8);
  EXPECT_EQ(rig.tracker.table().size(), 1u);
  EXPECT_EQ(rig.count(TrackCounter::qps_aged), 1999u);
  EXPECT_EQ(rig.count(TrackCounter::qps_active), 1u);
  rig.advance_s(70);
  EXPECT_EQ(rig.tracker.table().size(), 0u);
  EXPECT_EQ(rig.tracker.next_deadline(), kNever) << "an empty table wants no timer";
}

TEST(QpTracker, APairAgesTogether) {
  TrackRig rig({.max_qps = 100, .idle_timeout_s = 60});
  rig.burst({cm(kA, kB, req(1, Qpn(5), Psn(0))), cm(kB, kA, rep(2, 1, Qpn(6), Psn(0)))});
  for (int i = 0; i < 10; ++i) {
    rig.advance_s(30);
    rig.send(write_from_a(Qpn(6), static_cast<std::uint32_t>(i)));
  }
  EXPECT_TRUE(rig.has(kB, kA, Qpn(5))) << "its peer lives";
  rig.advance_s(120);
  EXPECT_EQ(rig.tracker.table().size(), 0u);
}

TEST(QpTracker, OneTimerCallLooksAtASliceOnly) {
  TrackRig rig({.max_qps = 100000, .idle_timeout_s = 1});
  for (std::uint32_t i = 0; i < 50000; ++i) rig.send(write_from_a(Qpn(2 + i), 0));
  rig.now += 5'000'000'000;
  rig.tracker.on_timer(rig.now);
  EXPECT_GE(rig.tracker.table().size(), 49488u);
  EXPECT_LT(rig.tracker.table().size(), 50000u);
}

TEST(QpTracker, ConfiguredPairsNeverAgeAndAreCertain) {
  TrackRig rig({.max_qps = 100, .idle_timeout_s = 1});
  ASSERT_TRUE(rig.tracker.add_configured(rig.now, *wire::IpAddress::parse("fd00::1"), Qpn(5),
                                         *wire::IpAddress::parse("fd00::2"), Qpn(6)));
  rig.advance_s(1000);
  const QpEntry& e = rig.entry("fd00::1", "fd00::2", Qpn(6));
  EXPECT_EQ(e.confidence(), 100);
  EXPECT_EQ(e.source(), tables::PairSource::config);
  EXPECT_EQ(e.peer, rig.position("fd00::2", "fd00::1", Qpn(5)));
  EXPECT_EQ(rig.count(TrackCounter::qps_learned_config), 2u);
  EXPECT_EQ(rig.count(TrackCounter::pairs_config), 1u);
}

TEST(QpTracker, AsManyConfiguredPairsAsTheTableHoldsAreAllPairedRightly) {
  constexpr std::uint32_t kPairs = 3000;
  TrackRig rig({.max_qps = 2 * kPairs});
  const auto a = *wire::IpAddress::parse(kA), b = *wire::IpAddress::parse(kB);
  for (std::uint32_t i = 0; i < kPairs; ++i) {
    ASSERT_TRUE(rig.tracker.add_configured(rig.now, a, Qpn(2 + i), b, Qpn(100000 + 3 * i)));
  }
  EXPECT_FALSE(rig.tracker.add_configured(rig.now, a, Qpn(90000), b, Qpn(90001)));
  for (std::uint32_t i = 0; i < kPairs; ++i) {
    ASSERT_EQ(rig.entry(kA, kB, Qpn(100000 + 3 * i)).peer, rig.position(kB, kA, Qpn(2 + i)));
    ASSERT_EQ(rig.entry(kB, kA, Qpn(2 + i)).peer, rig.position(kA, kB, Qpn(100000 + 3 * i)));
  }
}

// --- IPv6 --------------------------------------------------------------------------------------------------------

TEST(QpTracker, V6QueuePairsAreTrackedByTheirWholeAddresses) {
  TrackRig rig;
  const auto packet = [](const std::string& source, std::uint32_t psn) {
    return wire::FrameBuilder().ipv6(source, "fd00::2").udp(50000).bth(Opcode::RC_SEND_ONLY, kQp, Psn(psn)).payload(8);
  };
  rig.burst({packet("fd00::1", 0), packet("fd00:0:0:1::1", 0), packet("fd00::1", 1)});
  EXPECT_EQ(rig.tracker.table().size(), 2u);
  EXPECT_EQ(rig.entry("fd00::1", "fd00::2", kQp).packets, 2u);
  EXPECT_EQ(rig.entry("fd00:0:0:1::1", "fd00::2", kQp).packets, 1u);
  EXPECT_EQ(rig.count(TrackCounter::out_of_order), 0u);
}

TEST(QpTracker, EqualHashesOfV6AddressesDoNotMergeHosts) {
  TrackRig rig;
  std::vector<TrackedFrame> frames;
  for (const auto* source : {"fd00::1", "fd00::7"}) {
    frames.emplace_back(
        wire::FrameBuilder().ipv6(source, "fd00::2").bth(Opcode::RC_SEND_ONLY, kQp, Psn(0)).payload(8).build());
  }
  frames[1].parsed.address_key = frames[0].parsed.address_key;
  frames[1].parsed.stored_pair_hash = frames[0].parsed.stored_pair_hash;
  for (auto& frame : frames) {
    TrackedFrame* pointer = &frame;
    rig.tracker.track<FrameAccess, TrackedFrame>(rig.now, {&pointer, 1});
  }
  EXPECT_EQ(rig.tracker.table().size(), 2u);
  EXPECT_EQ(rig.entry("fd00::1", "fd00::2", kQp).packets, 1u);
  EXPECT_EQ(rig.entry("fd00::7", "fd00::2", kQp).packets, 1u);
}

TEST(QpTracker, AV4KeyIsNotMistakenForAV6One) {
  TrackRig rig;
  rig.send(wire::FrameBuilder().ipv6("fd00::1", "fd00::2").bth(Opcode::RC_SEND_ONLY, kQp, Psn(0)).payload(8));
  // Interned pairs are numbered from 0: as IPv4 addresses 0.0.0.0 to 0.0.0.0 and to 0.0.0.1.
  rig.send(wire::FrameBuilder().ipv4("0.0.0.0", "0.0.0.0").bth(Opcode::RC_SEND_ONLY, kQp, Psn(0)).payload(8));
  rig.send(wire::FrameBuilder().ipv4("0.0.0.0", "0.0.0.1").bth(Opcode::RC_SEND_ONLY, kQp, Psn(0)).payload(8));
  EXPECT_EQ(rig.tracker.table().size(), 3u);
}

TEST(QpTracker, WhenNoAddressPairFitsV6PassesUntracked) {
  TrackRig rig({.max_qps = 4});
  for (const auto* source : {"fd00::1", "fd00::3", "fd00::4"}) {
    rig.send(wire::FrameBuilder().ipv6(source, "fd00::2").bth(Opcode::RC_SEND_ONLY, kQp, Psn(0)).payload(8));
  }
  EXPECT_EQ(rig.tracker.table().size(), 2u);
  EXPECT_EQ(rig.count(TrackCounter::table_full), 1u);
  EXPECT_EQ(rig.count(TrackCounter::untracked), 1u);
}

TEST(QpTracker, OtherQueuePairsKeepTheirStateWhenTheTableMovesEntries) {
  // Fills the table to the last entry, which makes it move some, and checks every count afterwards.
  constexpr std::uint32_t kQps = 3000;
  TrackRig rig({.max_qps = kQps});
  for (std::uint32_t round = 0; round < 3; ++round) {
    for (std::uint32_t i = 0; i < kQps; ++i) rig.send(write_from_a(Qpn(2 + i * 7), round));
  }
  EXPECT_EQ(rig.count(TrackCounter::table_full), 0u);
  for (std::uint32_t i = 0; i < kQps; ++i) EXPECT_EQ(rig.entry(kA, kB, Qpn(2 + i * 7)).packets, 3u);
  EXPECT_EQ(rig.count(TrackCounter::out_of_order) + rig.count(TrackCounter::retransmitted), 0u);
}

// --- anything that may come from the wire -------------------------------------------------------------------------

// What must hold between entries whatever was received.
void expect_consistent(const TrackRig& rig) {
  const tables::QpTable& table = rig.tracker.table();
  std::uint32_t used = 0;
  for (std::uint32_t i = 0; i < table.slots(); ++i) {
    const QpEntry& e = table.entry(i);
    if (e.is_free()) continue;
    ++used;
    ASSERT_EQ(table.find(table.key(i)), i);
    ASSERT_LE(e.confidence(), 100);
    ASSERT_EQ(e.paired(), e.source() != tables::PairSource::none);
    ASSERT_EQ(e.paired(), e.confidence() != 0);
    if (!e.paired()) continue;
    const QpEntry& peer = table.entry(e.peer);
    ASSERT_FALSE(peer.is_free());
    ASSERT_EQ(peer.peer, i);
    ASSERT_EQ(table.reverse(table.key(i), Qpn(1)).addresses, peer.addresses);
    ASSERT_EQ(peer.confidence(), e.confidence());
    ASSERT_EQ(peer.source(), e.source());
    ASSERT_EQ(e.request.has(tables::RequestFlag::gap), peer.response.has(tables::ResponseFlag::watch));
  }
  ASSERT_EQ(used, table.size());
  ASSERT_EQ(rig.count(TrackCounter::qps_active), used);
  ASSERT_EQ(rig.count(TrackCounter::qps_learned_traffic), used) << "nothing has aged";
}

wire::FrameBuilder anything(std::mt19937& random) {
  static const std::vector<std::pair<std::string, std::string>> kHosts{
      {kA, kB}, {kB, kA}, {"10.0.0.3", kA}, {kA, kA}, {"fd00::1", "fd00::2"}, {"fd00::2", "fd00::1"}};
  const auto& [source, destination] = kHosts[random() % kHosts.size()];
  auto frame = wire::FrameBuilder().ip(*wire::IpAddress::parse(source), *wire::IpAddress::parse(destination));
  frame.udp(static_cast<std::uint16_t>(49152 + random() % 4)).tos(static_cast<std::uint8_t>(random()));
  std::uint8_t opcode = 0;
  do {
    opcode = static_cast<std::uint8_t>(random());
  } while (!wire::opcode_info(opcode).known());
  const std::uint32_t near = random() % 3 == 0 ? random() : 0xfffff0 + random() % 40;
  frame.bth(opcode, Qpn(2 + random() % 12), Psn(near));
  frame.aeth(Syndrome(static_cast<std::uint8_t>(random())), random()).reth(random(), random(), random());
  if (wire::opcode_info(opcode).may_carry_payload()) frame.payload(1 + (random() % 2 == 0 ? 1023 : random() % 300));
  return frame;
}

TEST(QpTracker, StaysConsistentWhateverIsReceived) {
  std::random_device device;
  const unsigned seed = device();
  std::cout << "seed " << seed << "\n";
  std::mt19937 random(seed);
  for (int round = 0; round < 10; ++round) {
    TrackRig rig({.max_qps = 50});
    for (int step = 0; step < 300; ++step) {
      std::vector<wire::FrameBuilder> burst;
      for (std::size_t i = random() % 32; i > 0; --i) burst.push_back(anything(random));
      rig.burst(burst);
      rig.advance_ticks(random() % 3);
      ASSERT_NO_FATAL_FAILURE(expect_consistent(rig)) << "seed " << seed << " step " << step;
    }
    EXPECT_GT(rig.count(TrackCounter::pairs_traffic), 0u);
  }
}

wire::FrameBuilder any_cm(std::mt19937& random) {
  static const std::vector<std::pair<std::string, std::string>> kHosts{
      {kA, kB}, {kB, kA}, {"fd00::1", "fd00::2"}, {"fd00::2", "fd00::1"}};
  const auto& [source, destination] = kHosts[random() % kHosts.size()];
  const std::uint32_t mine = random() % 4, theirs = random() % 4;
  const Qpn qpn(random() % 9);
  switch (random() % 6) {
    case 0:
      return cm(source, destination, req(mine, qpn, Psn(random()), random() % 3));
    case 1:
      return cm(source, destination, rep(mine, theirs, qpn, Psn(random())));
    case 2:
      return cm(source, destination, rtu(mine, theirs));
    case 3:
      return cm(source, destination, rej(mine, theirs));
    case 4:
      return cm(source, destination, dreq(mine, theirs, qpn));
    default:
      return cm(source, destination, drep(mine, theirs));
  }
}

TEST(QpTracker, StaysConsistentUnderAnyMixOfCmTrafficAndAgeing) {
  std::random_device device;
  const unsigned seed = device();
  std::cout << "seed " << seed << "\n";
  std::mt19937 random(seed);
  TrackRig rig({.max_qps = 30, .idle_timeout_s = 5, .closed_timeout_s = 2});
  ASSERT_TRUE(
      rig.tracker.add_configured(rig.now, *wire::IpAddress::parse(kA), Qpn(5), *wire::IpAddress::parse(kB), Qpn(6)));
  const tables::QpTable& table = rig.tracker.table();
  for (int step = 0; step < 30000; ++step) {
    rig.burst({random() % 2 == 0 ? any_cm(random) : anything(random)});
    if (random() % 10 == 0) rig.advance_ticks(random() % 2000);
    std::uint32_t used = 0;
    for (std::uint32_t i = 0; i < table.slots(); ++i) {
      const QpEntry& e = table.entry(i);
      if (e.is_free()) continue;
      ++used;
      ASSERT_EQ(table.find(table.key(i)), i) << "seed " << seed << " step " << step;
      ASSERT_TRUE(!e.paired() || table.entry(e.peer).peer == i) << "seed " << seed << " step " << step;
    }
    ASSERT_EQ(used, table.size());
    ASSERT_EQ(rig.count(TrackCounter::qps_active), used);
    ASSERT_EQ(rig.entry(kA, kB, Qpn(6)).peer, rig.position(kB, kA, Qpn(5))) << "configured pairs stay";
  }
  EXPECT_GT(rig.count(TrackCounter::pairs_cm), 0u);
  EXPECT_GT(rig.count(TrackCounter::qps_aged), 0u);
  EXPECT_GT(rig.count(TrackCounter::table_full), 0u);
  rig.advance_s(100);
  EXPECT_EQ(table.size(), 2u);
  EXPECT_EQ(table.pairs().size(), 0u) << "no IPv6 address pair is left without an entry";
}

}  // namespace
}  // namespace weft::testing
