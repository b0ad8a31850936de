// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// What the tracker makes of an agent's news.
#include <gtest/gtest.h>

#include <string>

#include "tests/switch/stages/rdma_track/rig.h"

namespace weft::testing {
namespace {

using stages::AgentQp;
using stages::TrackCounter;
using tables::PairSource;

constexpr Qpn kQpA{0x101}, kQpB{0x202}, kQpC{0x303};

AgentQp qp(Qpn local, Qpn remote, const std::string& a = kA, const std::string& b = kB) {
  AgentQp q;
  q.local = *wire::IpAddress::parse(a);
  q.remote = *wire::IpAddress::parse(b);
  q.qpn = local;
  q.remote_qpn = remote;
  return q;
}

bool is_pair(const TrackRig& rig, Qpn a, Qpn b, const std::string& from = kA, const std::string& to = kB) {
  if (!rig.has(from, to, b) || !rig.has(to, from, a)) return false;
  const auto& there = rig.entry(from, to, b);
  return there.peer == rig.position(to, from, a) && there.source() == PairSource::agent && there.confidence() == 100;
}

TEST(AgentPairs, BothDirectionsAreThereBeforeTheFirstPacket) {
  for (const auto& [a, b] : {std::pair{kA, kB}, std::pair<std::string, std::string>{"fd00::1", "fd00::2"}}) {
    TrackRig rig;
    AgentQp told = qp(kQpA, kQpB, a, b);
    told.first_due = Psn(900);
    told.pmtu_code = 3;
    ASSERT_TRUE(rig.tracker.on_agent_up(rig.now, told, false));
    EXPECT_TRUE(is_pair(rig, kQpA, kQpB, a, b));
    EXPECT_EQ(rig.count(TrackCounter::qps_learned_agent), 2u);
    EXPECT_EQ(rig.count(TrackCounter::pairs_agent), 1u);
    EXPECT_EQ(rig.tracker.first_psn(rig.position(b, a, kQpA)), Psn(900));
    EXPECT_EQ(rig.tracker.first_psn(rig.position(a, b, kQpB)), std::nullopt);
    EXPECT_EQ(rig.entry(a, b, kQpB).pmtu_code(), 3);
    EXPECT_NE(rig.tracker.next_deadline(), kNever) << "it ages";
    told.first_sent = Psn(50);
    ASSERT_TRUE(rig.tracker.on_agent_up(rig.now, told, false));
    EXPECT_EQ(rig.tracker.first_psn(rig.position(a, b, kQpB)), Psn(50)) << "told when it goes to RTS";
    EXPECT_EQ(rig.count(TrackCounter::qps_learned_agent), 2u);
    EXPECT_EQ(rig.count(TrackCounter::late_entry), 0u);
  }
}

TEST(AgentPairs, TheAgentAtTheOtherEndTellsTheSame) {
  TrackRig rig;
  (void)rig.tracker.on_agent_up(rig.now, qp(kQpA, kQpB), false);
  rig.burst({write_from_a(kQpB, 10), write_from_a(kQpB, 11)});
  ASSERT_TRUE(rig.tracker.on_agent_up(rig.now, qp(kQpB, kQpA, kB, kA), false));
  EXPECT_TRUE(is_pair(rig, kQpA, kQpB));
  EXPECT_EQ(rig.entry(kA, kB, kQpB).packets, 2u);
  EXPECT_EQ(rig.count(TrackCounter::late_entry), 0u);
}

TEST(AgentPairs, AQueuePairInUseKeepsItsCountersAndTheLateEntryIsCounted) {
  for (const bool told_again : {false, true}) {
    TrackRig rig;
    rig.burst({write_from_a(kQpB, 10), write_from_a(kQpB, 11)});
    AgentQp told = qp(kQpA, kQpB);
    told.first_sent = Psn(10);
    ASSERT_TRUE(rig.tracker.on_agent_up(rig.now, told, told_again));
    EXPECT_TRUE(is_pair(rig, kQpA, kQpB));
    EXPECT_EQ(rig.entry(kA, kB, kQpB).packets, 2u);
    rig.send(write_from_a(kQpB, 12));
    EXPECT_EQ(rig.retransmitted(kA, kB, kQpB), 0u);
    EXPECT_EQ(rig.count(TrackCounter::late_entry), told_again ? 0u : 1u);
  }
}

TEST(AgentPairs, AQueuePairThatIsGoneIsNobodysPartner) {
  TrackRig rig;
  (void)rig.tracker.on_agent_up(rig.now, qp(kQpA, kQpB), false);
  rig.tracker.on_agent_down(qp(kQpA, kQpB));
  EXPECT_TRUE(rig.entry(kA, kB, kQpB).closed());
  EXPECT_TRUE(rig.entry(kB, kA, kQpA).closed());
  EXPECT_FALSE(rig.entry(kA, kB, kQpB).paired());
  rig.tracker.on_agent_down(qp(kQpA, kQpB));
  rig.advance_s(60);
  EXPECT_EQ(rig.count(TrackCounter::qps_active), 0u);
  rig.tracker.on_agent_down(qp(kQpA, kQpB));
  rig.tracker.on_agent_down(qp(kQpA, kQpB, "fd00::1", "fd00::2"));
  EXPECT_EQ(rig.tracker.table().pairs().size(), 0u);
}

TEST(AgentPairs, ANumberThatIsUsedAgainBeginsAnew) {
  TrackRig rig;
  AgentQp told = qp(kQpA, kQpB);
  told.first_sent = Psn(10);
  (void)rig.tracker.on_agent_up(rig.now, told, false);
  rig.burst({write_from_a(kQpB, 10), write_from_a(kQpB, 11)});
  rig.tracker.on_agent_down(told);
  told.first_sent = Psn(700);
  ASSERT_TRUE(rig.tracker.on_agent_up(rig.now, told, false));
  EXPECT_TRUE(is_pair(rig, kQpA, kQpB));
  EXPECT_EQ(rig.entry(kA, kB, kQpB).packets, 0u);
  EXPECT_FALSE(rig.entry(kA, kB, kQpB).closed());
  rig.send(write_from_a(kQpB, 700));
  EXPECT_EQ(rig.count(TrackCounter::psn_restarts), 0u);
  // With another partner, and the end of the old connection was not seen.
  ASSERT_TRUE(rig.tracker.on_agent_up(rig.now, qp(kQpC, kQpB), false));
  EXPECT_TRUE(is_pair(rig, kQpC, kQpB));
  EXPECT_FALSE(rig.entry(kB, kA, kQpA).paired());
  EXPECT_EQ(rig.count(TrackCounter::late_entry), 0u);
  // News of the old one come late, and end nothing.
  rig.tracker.on_agent_down(qp(kQpA, kQpB));
  EXPECT_TRUE(is_pair(rig, kQpC, kQpB));
  EXPECT_FALSE(rig.entry(kA, kB, kQpB).closed());
}

TEST(AgentPairs, WhatCmOrTheConfigurationSaidStays) {
  TrackRig rig;
  rig.burst({cm(kA, kB, req(1, kQpA, Psn(50))), cm(kB, kA, rep(2, 1, kQpB, Psn(70)))});
  ASSERT_TRUE(rig.tracker.on_agent_up(rig.now, qp(kQpA, kQpB), false));
  EXPECT_EQ(rig.entry(kA, kB, kQpB).source(), PairSource::cm);
  EXPECT_EQ(rig.count(TrackCounter::pairs_agent), 0u);
  ASSERT_TRUE(
      rig.tracker.add_configured(rig.now, *wire::IpAddress::parse(kA), kQpC, *wire::IpAddress::parse(kB), kQpC));
  ASSERT_TRUE(rig.tracker.on_agent_up(rig.now, qp(kQpC, kQpA), false));
  rig.tracker.on_agent_down(qp(kQpC, kQpC));
  EXPECT_TRUE(rig.entry(kA, kB, kQpC).paired());
  EXPECT_FALSE(rig.entry(kA, kB, kQpC).closed());
}

TEST(AgentPairs, ASilentOneDoesNotAgeWhileItsHostHasIt) {
  TrackRig rig;
  (void)rig.tracker.on_agent_up(rig.now, qp(kQpA, kQpB), false);
  for (int i = 0; i < 10; ++i) {
    rig.advance_s(400);
    ASSERT_TRUE(rig.tracker.on_agent_up(rig.now, qp(kQpA, kQpB), true));
  }
  EXPECT_EQ(rig.count(TrackCounter::qps_aged), 0u);
  rig.advance_s(700);
  EXPECT_EQ(rig.count(TrackCounter::qps_active), 0u);
}

TEST(AgentPairs, WithoutRoomNothingIsHalfThere) {
  TrackRig rig({.max_qps = 1});
  EXPECT_FALSE(rig.tracker.on_agent_up(rig.now, qp(kQpA, kQpB), false));
  EXPECT_GE(rig.count(TrackCounter::table_full), 1u);
  EXPECT_EQ(rig.count(TrackCounter::pairs_agent), 0u);
  rig.send(write_from_a(kQpB, 10));
}

}  // namespace
}  // namespace weft::testing
