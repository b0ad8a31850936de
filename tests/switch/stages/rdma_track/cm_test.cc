// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/stages/rdma_track/cm.h"

#include <gtest/gtest.h>

#include "switch/stages/rdma_track/order.h"
#include "switch/stages/rdma_track/unit.h"
#include "tests/switch/stages/rdma_track/rig.h"

namespace weft::testing {
namespace {

using stages::TrackCounter;
using tables::PairSource;
using tables::QpEntry;

constexpr Qpn kQpA{0x101}, kQpB{0x202};
constexpr std::uint64_t kService = wire::CmaServiceId{wire::CmaServiceId::kTcp, 4420}.encode();

// A connects to B: ids 1 and 2, and the PSNs that each side tells the other to begin with.
std::vector<wire::FrameBuilder> exchange(const std::string& a = kA, const std::string& b = kB) {
  return {cm(a, b, req(1, kQpA, Psn(0x800100), kService)), cm(b, a, rep(2, 1, kQpB, Psn(0x200))), cm(a, b, rtu(1, 2))};
}

TEST(RdmaTrackCm, AnExchangePairsBothDirectionsExactly) {
  TrackRig rig;
  rig.burst(exchange());
  ASSERT_EQ(rig.tracker.table().size(), 2u);
  const QpEntry& there = rig.entry(kA, kB, kQpB);
  const QpEntry& back = rig.entry(kB, kA, kQpA);
  EXPECT_EQ(there.peer, rig.position(kB, kA, kQpA));
  EXPECT_EQ(back.peer, rig.position(kA, kB, kQpB));
  EXPECT_EQ(there.source(), PairSource::cm);
  EXPECT_EQ(there.confidence(), 100);
  EXPECT_EQ(stages::pmtu_bytes(there.pmtu_code()), 1024u);
  EXPECT_EQ(rig.tracker.service_id(rig.detail(kA, kB, kQpB).service), kService);
  EXPECT_EQ(rig.count(TrackCounter::cm_req), 1u);
  EXPECT_EQ(rig.count(TrackCounter::cm_rep), 1u);
  EXPECT_EQ(rig.count(TrackCounter::cm_rtu), 1u);
  EXPECT_EQ(rig.count(TrackCounter::cm_unmatched), 0u);
  EXPECT_EQ(rig.count(TrackCounter::qps_learned_cm), 2u);
  EXPECT_EQ(rig.count(TrackCounter::pairs_cm), 1u);
}

TEST(RdmaTrackCm, V6ExchangesPairToo) {
  TrackRig rig;
  rig.burst(exchange("fd00::1", "fd00::2"));
  ASSERT_EQ(rig.tracker.table().size(), 2u);
  EXPECT_EQ(rig.entry("fd00::1", "fd00::2", kQpB).peer, rig.position("fd00::2", "fd00::1", kQpA));
}

TEST(RdmaTrackCm, RepeatedMessagesChangeNothing) {
  TrackRig rig;
  const auto messages = exchange();
  rig.burst({messages[0], messages[0], messages[1]});
  rig.send(write_from_a(kQpB, 0x200));
  rig.burst({messages[0], messages[1], messages[2], messages[2]});
  EXPECT_EQ(rig.entry(kA, kB, kQpB).packets, 1u);
  EXPECT_EQ(rig.count(TrackCounter::qps_learned_cm), 2u);
  EXPECT_EQ(rig.count(TrackCounter::cm_unmatched), 0u);
}

TEST(RdmaTrackCm, ConnectionsInOppositeDirectionsMayUseEqualIds) {
  TrackRig rig;
  rig.burst({cm(kA, kB, req(1, Qpn(10), Psn(0))), cm(kB, kA, req(1, Qpn(20), Psn(0))),
             cm(kB, kA, rep(7, 1, Qpn(21), Psn(0))), cm(kA, kB, rep(7, 1, Qpn(11), Psn(0)))});
  EXPECT_EQ(rig.entry(kA, kB, Qpn(21)).peer, rig.position(kB, kA, Qpn(10)));
  EXPECT_EQ(rig.entry(kB, kA, Qpn(11)).peer, rig.position(kA, kB, Qpn(20)));
  EXPECT_EQ(rig.tracker.table().size(), 4u);
}

TEST(RdmaTrackCm, ARejectedRequestLeavesNothing) {
  TrackRig rig;
  rig.burst({cm(kA, kB, req(1, kQpA, Psn(0))), cm(kB, kA, rej(0, 1))});
  EXPECT_EQ(rig.count(TrackCounter::cm_rej), 1u);
  EXPECT_EQ(rig.count(TrackCounter::cm_unmatched), 0u);
  rig.send(cm(kB, kA, rep(2, 1, kQpB, Psn(0))));
  EXPECT_EQ(rig.tracker.table().size(), 0u);
  EXPECT_EQ(rig.count(TrackCounter::cm_unmatched), 1u);
}

TEST(RdmaTrackCm, ARejectedReplyClosesTheConnection) {
  TrackRig rig;
  const auto messages = exchange();
  rig.burst({messages[0], messages[1], cm(kA, kB, rej(1, 2))});
  EXPECT_TRUE(rig.entry(kA, kB, kQpB).closed());
  EXPECT_TRUE(rig.entry(kB, kA, kQpA).closed());
}

TEST(RdmaTrackCm, MessagesOfUnseenConnectionsAreUnmatched) {
  TrackRig rig;
  rig.burst({cm(kB, kA, rep(2, 1, kQpB, Psn(0))), cm(kA, kB, rtu(1, 2)), cm(kA, kB, rej(1, 2)),
             cm(kA, kB, dreq(1, 2, kQpB))});
  EXPECT_EQ(rig.count(TrackCounter::cm_unmatched), 4u);
  EXPECT_EQ(rig.tracker.table().size(), 0u);
}

TEST(RdmaTrackCm, MessagesBetweenUnseenV6HostsAreUnmatched) {
  TrackRig rig;
  const std::string a = "fd00::1", b = "fd00::2";
  rig.burst({cm(b, a, rep(2, 1, kQpB, Psn(0))), cm(a, b, rtu(1, 2)), cm(a, b, rej(1, 2)), cm(a, b, dreq(1, 2, kQpB))});
  EXPECT_EQ(rig.count(TrackCounter::cm_unmatched), 4u);
}

TEST(RdmaTrackCm, AReplyAfterAMinuteComesTooLate) {
  TrackRig rig;
  rig.send(cm(kA, kB, req(1, kQpA, Psn(0))));
  EXPECT_NE(rig.tracker.next_deadline(), kNever);
  rig.advance_s(100);
  EXPECT_EQ(rig.tracker.next_deadline(), kNever) << "nothing is left to forget";
  rig.send(cm(kB, kA, rep(2, 1, kQpB, Psn(0))));
  EXPECT_EQ(rig.count(TrackCounter::cm_unmatched), 1u);
}

TEST(RdmaTrackCm, AReplyIsTooLateEvenBeforeTheTimerNotices) {
  TrackRig rig;
  rig.send(cm(kA, kB, req(1, kQpA, Psn(0))));
  rig.now += 61'000'000'000;
  rig.send(cm(kB, kA, rep(2, 1, kQpB, Psn(0))));
  EXPECT_EQ(rig.count(TrackCounter::cm_unmatched), 1u);
  EXPECT_EQ(rig.tracker.table().size(), 0u);
}

TEST(RdmaTrackCm, ForgottenRequestsGiveTheirV6AddressesBack) {
  TrackRig rig;
  rig.send(cm("fd00::1", "fd00::2", req(1, kQpA, Psn(0))));
  EXPECT_EQ(rig.tracker.table().pairs().size(), 1u);
  rig.advance_s(100);
  EXPECT_EQ(rig.tracker.table().pairs().size(), 0u);
}

TEST(RdmaTrackCm, AFloodOfRequestsIsBoundedAndKeepsTheNewest) {
  TrackRig rig({.max_qps = 100});
  for (std::uint32_t i = 0; i < 10000; ++i) {
    rig.send(cm("fd00::1", "fd00::2", req(i, Qpn(2 + i), Psn(0))));
    rig.advance_ticks(1);
  }
  rig.send(cm("fd00::2", "fd00::1", rep(1, 9999, kQpB, Psn(0))));
  EXPECT_EQ(rig.tracker.table().size(), 2u);
  rig.advance_s(1000);
  EXPECT_EQ(rig.tracker.table().pairs().size(), 0u);
}

}  // namespace
}  // namespace weft::testing
