// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// What management datagrams do to the tracker's table.
#include <gtest/gtest.h>

#include <span>

#include "switch/stages/rdma_track/unit.h"
#include "tests/switch/stages/rdma_track/rig.h"

namespace weft::testing {
namespace {

using stages::TrackCounter;
using tables::PairSource;

constexpr Qpn kQpA{0x101}, kQpB{0x202};
constexpr std::uint64_t kService = wire::CmaServiceId{wire::CmaServiceId::kTcp, 4420}.encode();

// A connects to B: ids 1 and 2, and the PSNs that each side tells the other to begin with.
std::vector<wire::FrameBuilder> exchange(const std::string& a = kA, const std::string& b = kB) {
  return {cm(a, b, req(1, kQpA, Psn(0x800100), kService)), cm(b, a, rep(2, 1, kQpB, Psn(0x200))), cm(a, b, rtu(1, 2))};
}

TEST(RdmaTrackManagement, ConnectionsOfQpsThatCannotBeAreMalformed) {
  TrackRig rig;
  rig.burst({cm(kA, kB, req(1, Qpn(0), Psn(0))), cm(kA, kB, req(2, Qpn(1), Psn(0))), cm(kA, kB, req(3, kQpA, Psn(0))),
             cm(kB, kA, rep(4, 3, Qpn(0), Psn(0)))});
  EXPECT_EQ(rig.count(TrackCounter::cm_malformed), 3u);
  EXPECT_EQ(rig.tracker.table().size(), 0u);
}

TEST(RdmaTrackManagement, OtherAndBrokenDatagramsToQp1AreCountedOnly) {
  TrackRig rig;
  auto mad = wire::build_cm(req(1, kQpA, Psn(0)));
  const auto to_qp1 = [](std::span<const std::uint8_t> bytes) { return wire::FrameBuilder().ipv4(kA, kB).mad(bytes); };
  rig.send(to_qp1(std::span(mad).first(255)));
  EXPECT_EQ(rig.count(TrackCounter::cm_malformed), 1u);
  std::vector<std::uint8_t> longer(mad.begin(), mad.end());
  longer.push_back(0);
  rig.send(to_qp1(longer));
  EXPECT_EQ(rig.count(TrackCounter::cm_malformed), 2u);
  mad[0] = 9;  // base version
  rig.send(to_qp1(mad));
  EXPECT_EQ(rig.count(TrackCounter::cm_malformed), 3u);
  mad = wire::build_cm(req(1, kQpA, Psn(0)));
  mad[1] = 4;  // performance management
  rig.send(to_qp1(mad));
  rig.send(from_a(Opcode::RC_SEND_ONLY, Qpn(1), Psn(0)).payload(256));
  rig.send(cm(kA, kB, {1, wire::CmMra{}}));
  rig.send(cm(kA, kB, {1, wire::CmSidrReq{}}));
  EXPECT_EQ(rig.count(TrackCounter::cm_other), 4u);
  EXPECT_EQ(rig.count(TrackCounter::cm_malformed), 3u);
  EXPECT_EQ(rig.count(TrackCounter::untracked), 0u);
  EXPECT_EQ(rig.tracker.table().size(), 0u);
}

TEST(RdmaTrackManagement, ClosedConnectionsGoEarlier) {
  TrackRig rig({.max_qps = 100, .idle_timeout_s = 600, .closed_timeout_s = 20});
  rig.burst(exchange());
  rig.advance_s(100);
  EXPECT_EQ(rig.tracker.table().size(), 2u);
  rig.send(write_from_a(kQpB, 0x200));
  rig.burst({cm(kB, kA, dreq(2, 1, kQpA)), cm(kA, kB, drep(1, 2))});
  EXPECT_TRUE(rig.entry(kA, kB, kQpB).closed());
  EXPECT_TRUE(rig.entry(kB, kA, kQpA).closed());
  EXPECT_EQ(rig.count(TrackCounter::cm_dreq), 1u);
  EXPECT_EQ(rig.count(TrackCounter::cm_drep), 1u);
  rig.advance_s(19);
  EXPECT_EQ(rig.tracker.table().size(), 2u);
  rig.advance_s(1 + 5);
  EXPECT_EQ(rig.tracker.table().size(), 0u);
}

TEST(RdmaTrackManagement, BothDirectionsOfAClosedConnectionGoAtOnce) {
  // In a table that is looked at in many slices.
  TrackRig rig({.max_qps = 100000, .closed_timeout_s = 20});
  for (unsigned i = 0; i < 20; ++i) {
    const std::string a = "10.1.0." + std::to_string(i + 1);
    rig.burst(exchange(a));
    rig.burst({cm(kB, a, dreq(2, 1, kQpA)), cm(a, kB, drep(1, 2))});
  }
  const tables::QpTable& table = rig.tracker.table();
  for (int step = 0; step < 40'000 && table.size() != 0; ++step) {
    rig.advance_ticks(1);
    ASSERT_EQ(table.size() % 2, 0u);
  }
  EXPECT_EQ(rig.count(TrackCounter::qps_aged), 40u);
}

TEST(RdmaTrackManagement, ANewConnectionOnAnOldQpnStartsFromZero) {
  TrackRig rig;
  rig.burst(exchange());
  rig.burst({write_from_a(kQpB, 0x200), write_from_a(kQpB, 0x201)});
  rig.burst({cm(kA, kB, req(3, Qpn(0x999), Psn(5))), cm(kB, kA, rep(4, 3, kQpB, Psn(77)))});
  EXPECT_EQ(rig.entry(kA, kB, kQpB).packets, 0u);
  EXPECT_EQ(rig.entry(kA, kB, kQpB).peer, rig.position(kB, kA, Qpn(0x999)));
  EXPECT_FALSE(rig.entry(kB, kA, kQpA).paired()) << "its partner has another one now";
  rig.send(write_from_a(kQpB, 77));
  EXPECT_EQ(rig.count(TrackCounter::out_of_order) + rig.count(TrackCounter::psn_restarts), 0u);
}

TEST(RdmaTrackManagement, ConnectionsThatDoNotFitAreForwardedUntracked) {
  TrackRig rig({.max_qps = 3});
  rig.burst(exchange());
  rig.burst({cm(kA, kB, req(11, Qpn(0x777), Psn(0))), cm(kB, kA, rep(12, 11, Qpn(0x888), Psn(0)))});
  EXPECT_EQ(rig.tracker.table().size(), 3u);
  EXPECT_EQ(rig.count(TrackCounter::table_full), 1u);
  EXPECT_FALSE(rig.entry(kA, kB, Qpn(0x888)).paired());
}

TEST(RdmaTrackManagement, ConfigurationOutranksCm) {
  TrackRig rig;
  ASSERT_TRUE(
      rig.tracker.add_configured(rig.now, *wire::IpAddress::parse(kA), Qpn(5), *wire::IpAddress::parse(kB), kQpB));
  rig.burst(exchange());
  EXPECT_EQ(rig.entry(kA, kB, kQpB).peer, rig.position(kB, kA, Qpn(5)));
  EXPECT_EQ(rig.entry(kA, kB, kQpB).source(), PairSource::config);
  EXPECT_FALSE(rig.entry(kB, kA, kQpA).paired());
}

TEST(RdmaTrackManagement, StartingPsnsAreThoseOfThePeersPackets) {
  TrackRig rig;
  rig.burst(exchange());
  // B told A to begin with 0x200, A told B to begin with 0x800100.
  rig.send(write_from_a(kQpB, 0x200));
  rig.send(from_b(Opcode::RC_SEND_ONLY, kQpA, Psn(0x800100)).payload(8));
  EXPECT_EQ(rig.count(TrackCounter::out_of_order), 0u);
  EXPECT_EQ(rig.count(TrackCounter::psn_restarts), 0u);
}

TEST(RdmaTrackManagement, TheLossOfTheVeryFirstPacketIsSeen) {
  TrackRig rig;
  rig.burst(exchange());
  rig.send(write_from_a(kQpB, 0x201));
  rig.send(write_from_a(kQpB, 0x200));
  EXPECT_EQ(rig.detail(kA, kB, kQpB).out_of_order.value(), 2u);
}

TEST(RdmaTrackManagement, ReadsHaveTheirSpanFromTheNegotiatedMtu) {
  TrackRig rig;
  rig.burst(exchange());
  rig.send(read_from_a(kQpB, 0x200, 10 * 1024));
  EXPECT_EQ(rig.entry(kA, kB, kQpB).request.raw(), 0x20au) << "and no flag is set";
}

}  // namespace
}  // namespace weft::testing
