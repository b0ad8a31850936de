// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/stages/l3/resolver.h"

#include "switch/stages/l3/drops.h"
#include "tests/switch/stages/l3/router.h"

namespace weft::stages {
namespace {

constexpr TimeNs kRetry = L3Resolver::kRetryNs;

class L3ResolverTest : public BothFamilies {
 protected:
  FrameBuilder packet(unsigned number) const { return from_a(f(), f().b).payload(number); }
  Bytes answer_from_b(unsigned mac = 2) const { return answer(f(), f().b, mac, f().router_h2, kH2); }
  const char* sent_counter() const { return f().v6 ? "nd_solicitations_sent" : "arp_requests_sent"; }
  std::vector<Bytes> all_routed(unsigned first, unsigned last) const {
    std::vector<Bytes> frames;
    for (unsigned i = first; i <= last; ++i) frames.push_back(routed(packet(i), kH2, 2).build());
    return frames;
  }
  // The router asks for host b: by broadcast or multicast, or the known host itself.
  FrameBuilder expected_question(bool unicast) const {
    const MacAddress own = router_mac(kH2);
    if (!f().v6) {
      return FrameBuilder()
          .eth(own, unicast ? host_mac(2) : MacAddress::from_u64(0xffffffffffff))
          .arp(wire::ArpOperation::request, own, ip(f().router_h2), {}, ip(f().b))
          .pad_to_minimum();
    }
    Bytes body = bytes_of(f().b);
    body.insert(body.end(), {1, 1});
    body.insert(body.end(), own.bytes.begin(), own.bytes.end());
    const IpAddress group = tables::solicited_node(ip(f().b));
    return FrameBuilder()
        .eth(own, unicast ? host_mac(2) : tables::multicast_mac(group))
        .ip(ip(f().router_h2), unicast ? ip(f().b) : group)
        .ttl(255)
        .icmp(wire::Icmpv6Type::neighbour_solicitation, 0)
        .payload(FrameBuilder::View(body));
  }
};
WEFT_BOTH_FAMILIES(L3ResolverTest);

// --- unknown neighbours
// -----------------------------------------------------------------------------------------------

TEST_P(L3ResolverTest, TheFirstPacketToAnUnknownNeighbourWaitsAndAsksAtOnce) {
  Router r({.neighbours_known = false});
  r.h.inject("h1", packet(1).build());
  EXPECT_EQ(r.sent("h2"), only(expected_question(false)));
  EXPECT_EQ(r.h.held(), 1u);
  EXPECT_EQ(r.state(f().b), "incomplete");
}

TEST_P(L3ResolverTest, NextHopsAreAskedForBeforeAPacketNeedsThemAndAgainWhenTheirLinkComesBack) {
  Router r({.neighbours_known = false});
  const auto asked = [&] { return r.counter(sent_counter()); };
  r.h.state().announce_links();
  r.h.advance_ns(1);
  // Three uplinks, each a next hop of one or two routes; those of the other family are asked for as well.
  EXPECT_EQ(asked(), 3u);
  EXPECT_EQ(r.state(f().uplink), "incomplete");
  r.h.advance_ns(2 * kRetry);
  EXPECT_EQ(asked(), 9u);
  r.h.inject("u1", answer(f(), f().uplink, 11, f().v6 ? "2001:db8:11::1" : "10.1.1.1", 2));
  EXPECT_EQ(r.state(f().uplink), "reachable");
  r.h.advance_ns(4 * kRetry);
  const auto before = asked();
  r.h.set_link("u1", false);
  r.h.advance_ns(1);
  EXPECT_EQ(asked(), before + 2) << "the two that never answered";
  EXPECT_EQ(r.state(f().uplink), "incomplete");
  r.h.set_link("u1", true);
  r.h.advance_ns(1);
  EXPECT_EQ(asked(), before + 3);
}

TEST_P(L3ResolverTest, TheAnswerSendsWaitingPacketsInOrder) {
  Router r({.neighbours_known = false});
  for (unsigned i = 1; i <= 5; ++i) r.h.inject("h1", packet(i).build());
  r.sent("h2");
  r.h.inject("h2", answer_from_b());
  EXPECT_EQ(r.sent("h2"), all_routed(1, 5));
  EXPECT_EQ(r.h.held(), 0u);
  EXPECT_EQ(r.state(f().b), "reachable");
  EXPECT_EQ(r.counter("packets_queued"), 5u);
  EXPECT_EQ(r.counter(sent_counter()), 1u);
}

TEST_P(L3ResolverTest, PacketsInTheBurstOfTheAnswerDoNotOvertakeWaitingOnes) {
  Router r({.neighbours_known = false});
  r.h.inject("h2", {from_a(f(), f().b).eth(host_mac(9), router_mac(kH2)).payload(1).build()});
  r.sent("h2");
  // The answer and more packets of the same flow come in one burst.
  const auto more = [&](unsigned n) { return from_a(f(), f().b).eth(host_mac(9), router_mac(kH2)).payload(n); };
  r.h.inject("h2", {more(2).build(), answer_from_b(), more(3).build()});
  EXPECT_EQ(r.sent("h2"), all_routed(1, 3));
}

TEST_P(L3ResolverTest, ANeighboursOwnQuestionResolvesItToo) {
  Router r({.neighbours_known = false});
  r.h.inject("h1", packet(1).build());
  r.sent("h2");
  r.h.inject("h2", question(f(), f().b, 2, f().router_h2));
  auto frames = r.sent("h2");
  ASSERT_EQ(frames.size(), 2u);
  EXPECT_EQ(frames[1], routed(packet(1), kH2, 2).build());
}

TEST_P(L3ResolverTest, NoMoreThanPendingPacketsWait) {
  Router r({.l3 = "{ pending_packets: 3 }", .neighbours_known = false});
  for (unsigned i = 1; i <= 5; ++i) r.h.inject("h1", packet(i).build());
  EXPECT_EQ(r.h.held(), 3u);
  EXPECT_EQ(r.h.dropped(L3Drop::neighbour_queue_full), 2u);
  r.sent("h2");
  r.h.inject("h2", answer_from_b());
  EXPECT_EQ(r.sent("h2"), all_routed(1, 3));
}

TEST_P(L3ResolverTest, WithoutRoomForPendingPacketsTheNeighbourIsAskedAllTheSame) {
  Router r({.l3 = "{ pending_packets: 0 }", .neighbours_known = false});
  r.h.inject("h1", packet(1).build());
  EXPECT_EQ(r.h.dropped(L3Drop::neighbour_queue_full), 1u);
  r.sent("h2");
  r.h.inject("h2", answer_from_b());
  r.h.inject("h1", packet(2).build());
  EXPECT_EQ(r.sent("h2"), all_routed(2, 2));
}

TEST_P(L3ResolverTest, ThreeQuestionsASecondApartThenPacketsAreDropped) {
  Router r({.neighbours_known = false});
  const auto start = r.h.now();
  r.h.inject("h1", packet(1).build());
  r.h.inject("h1", packet(2).build());
  r.h.advance_ns(3 * kRetry - 1);
  const auto frames = r.h.take("h2");
  ASSERT_EQ(frames.size(), 3u);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(frames[i].at, start + i * kRetry);
    EXPECT_EQ(frames[i].bytes, expected_question(false).build());
  }
  EXPECT_EQ(r.h.held(), 2u);
  r.h.advance_ns(1);
  EXPECT_EQ(r.h.held(), 0u);
  EXPECT_EQ(r.h.dropped(L3Drop::neighbour_unresolved), 2u);
  EXPECT_EQ(r.counter("neighbours_failed"), 1u);
  EXPECT_EQ(r.counter("icmp_errors_sent"), 2u);
  EXPECT_EQ(r.h.stage<L3Stage>("l3").deadline(0), kNever);
}

TEST_P(L3ResolverTest, TheNextPacketAfterAFailureAsksAgain) {
  Router r({.neighbours_known = false});
  r.h.inject("h1", packet(1).build());
  r.h.advance_ns(3 * kRetry);
  r.sent("h2");
  r.h.inject("h1", packet(2).build());
  EXPECT_EQ(r.sent("h2"), only(expected_question(false)));
}

TEST_P(L3ResolverTest, EachNeighbourIsAskedForItself) {
  Router r({.neighbours_known = false});
  const std::string other = f().v6 ? "2001:db8:2::77" : "10.0.2.77";
  r.h.inject("h1", {packet(1).build(), from_a(f(), other).build(), packet(2).build()});
  EXPECT_EQ(r.h.held(), 3u);
  r.sent("h2");
  r.h.inject("h2", answer_from_b());
  EXPECT_EQ(r.sent("h2"), all_routed(1, 2));
  r.h.advance_ns(3 * kRetry);
  EXPECT_EQ(r.h.dropped(L3Drop::neighbour_unresolved), 1u);
}

TEST_P(L3ResolverTest, MoreNeighboursThanCanBeAskedAtOnceAreDropped) {
  Router r({.neighbours_known = false});
  for (unsigned i = 0; i < L3Resolver::kAtOnce + 10; ++i) {
    const std::string v4 = (i < 200 ? "10.0.2." : "10.0.1.") + std::to_string(10 + i % 200);
    r.h.inject("h1", from_a(f(), f().v6 ? "2001:db8:2::1:" + std::to_string(i) : v4).build());
  }
  EXPECT_EQ(r.h.held(), L3Resolver::kAtOnce);
  EXPECT_EQ(r.h.dropped(L3Drop::neighbour_queue_full), 10u);
}

TEST_P(L3ResolverTest, PacketsToARouterAndToAGroupMemberWaitLikeOthers) {
  Router r({.neighbours_known = false});
  r.h.inject("h1", from_a(f(), f().far).build());
  EXPECT_EQ(r.h.held(), 1u);
  EXPECT_EQ(r.sent("u1").size(), 1u);
  r.h.inject("u1", answer(f(), f().uplink, 11, f().v6 ? "2001:db8:11::1" : "10.1.1.1", kU1));
  EXPECT_EQ(r.sent("u1"), only(routed(from_a(f(), f().far), kU1, 11)));

  r.h.inject("h1", from_a(f(), f().spread).build());
  const auto u1 = r.sent("u1").size();
  EXPECT_EQ(r.h.held() + u1, 1u);
}

TEST_P(L3ResolverTest, FlushGivesWaitingPacketsBack) {
  Router r({.neighbours_known = false});
  for (unsigned i = 1; i <= 3; ++i) r.h.inject("h1", packet(i).build());
  r.h.pipeline().flush_stages(r.h.now());
  EXPECT_EQ(r.h.held(), 0u);
  EXPECT_EQ(r.h.dropped(DropReason::shutdown), 3u);
  EXPECT_EQ(r.h.stage<L3Stage>("l3").deadline(0), kNever);
}

TEST_P(L3ResolverTest, WithoutPacketBuffersTheQuestionIsCountedAndAskedLater) {
  Router r({.neighbours_known = false}, {.buffers = 64});
  std::vector<rte_mbuf*> taken;
  rte_mbuf* last = rte_pktmbuf_alloc(r.h.pool());
  while (rte_mbuf* m = rte_pktmbuf_alloc(r.h.pool())) taken.push_back(m);
  const Bytes frame = packet(1).build();
  std::memcpy(rte_pktmbuf_append(last, static_cast<std::uint16_t>(frame.size())), frame.data(), frame.size());
  r.h.inject("h1", last);
  EXPECT_EQ(r.counter("out_of_mbufs"), 1u);
  EXPECT_EQ(r.counter(sent_counter()), 0u);
  for (rte_mbuf* m : taken) rte_pktmbuf_free(m);
  r.h.advance_ns(kRetry);
  EXPECT_EQ(r.sent("h2"), only(expected_question(false)));
}

// --- neighbours that get old
// ------------------------------------------------------------------------------------------

class L3NeighbourAges : public L3ResolverTest {
 protected:
  L3NeighbourAges() : r({.l3 = "{ neighbour_reachable_s: 10 }", .neighbours_known = false}) {
    r.h.inject("h1", packet(1).build());
    r.h.inject("h2", answer_from_b());
    r.sent("h2");
  }
  Router r;
};
WEFT_BOTH_FAMILIES(L3NeighbourAges);

TEST_P(L3NeighbourAges, AReachableNeighbourIsUsedWithoutQuestionsUntilItsTimeIsOver) {
  r.h.advance_ns(9 * kSecond);
  EXPECT_EQ(r.state(f().b), "reachable");
  r.h.inject("h1", packet(2).build());
  EXPECT_EQ(r.sent("h2"), all_routed(2, 2));
  r.h.advance_ns(2 * kSecond);
  EXPECT_EQ(r.state(f().b), "stale");
}

TEST_P(L3NeighbourAges, TheFirstPacketToAStaleNeighbourLeavesAtOnceAndAProbeGoesToItsMac) {
  r.h.advance_ns(11 * kSecond);
  r.h.inject("h1", {packet(2).build(), packet(3).build()});
  auto frames = r.sent("h2");
  ASSERT_EQ(frames.size(), 3u);
  // The question is past the other stages and so comes first.
  EXPECT_EQ(frames[0], expected_question(true).build());
  frames.erase(frames.begin());
  EXPECT_EQ(frames, all_routed(2, 3));
  EXPECT_EQ(r.state(f().b), "probe");
  EXPECT_EQ(r.h.held(), 0u);
}

TEST_P(L3NeighbourAges, AnAnsweredProbeMakesItReachableAgain) {
  r.h.advance_ns(11 * kSecond);
  r.h.inject("h1", packet(2).build());
  r.sent("h2");
  r.h.inject("h2", answer_from_b());
  EXPECT_EQ(r.state(f().b), "reachable");
  r.h.advance_ns(3 * kSecond);
  EXPECT_TRUE(r.sent("h2").empty());
  EXPECT_EQ(r.counter("neighbours_failed"), 0u);
}

TEST_P(L3NeighbourAges, ThreeUnansweredProbesForgetTheMacAndTheNextPacketAsksAll) {
  r.h.advance_ns(11 * kSecond);
  r.h.inject("h1", packet(2).build());
  r.h.advance_ns(3 * kSecond - 1);
  EXPECT_EQ(r.state(f().b), "probe");
  EXPECT_EQ(r.sent("h2").size(), 1u + 3u);
  r.h.advance_ns(1);
  EXPECT_EQ(r.state(f().b), "incomplete");
  EXPECT_EQ(r.counter("neighbours_failed"), 1u);
  r.h.inject("h1", packet(3).build());
  EXPECT_EQ(r.sent("h2"), only(expected_question(false)));
  EXPECT_EQ(r.h.held(), 1u);
}

TEST_P(L3NeighbourAges, APacketDuringAProbeLeavesAtOnce) {
  r.h.advance_ns(11 * kSecond);
  r.h.inject("h1", packet(2).build());
  r.sent("h2");
  r.h.inject("h1", packet(3).build());
  EXPECT_EQ(r.sent("h2"), all_routed(3, 3));
}

TEST_P(L3NeighbourAges, AnUnusedNeighbourIsForgotten) {
  r.h.advance_ns(72 * kSecond);
  EXPECT_EQ(r.state(f().b), "none");
  EXPECT_TRUE(r.sent("h2").empty());
}

TEST_P(L3NeighbourAges, ALinkThatGoesDownForgetsItsNeighbours) {
  r.h.set_link("h2", false);
  EXPECT_EQ(r.state(f().b), "none");
  r.h.set_link("h2", true);
  r.h.inject("h1", packet(2).build());
  EXPECT_EQ(r.sent("h2"), only(expected_question(false)));
}

// --- two workers
// --------------------------------------------------------------------------------------------------------

// A second worker's view: what it learns or forgets is in the shared table only.
TEST_P(L3ResolverTest, AnAnswerThatAnotherWorkerGotReleasesWaitingPackets) {
  Router r({.neighbours_known = false});
  r.h.inject("h1", packet(1).build());
  r.sent("h2");
  auto& table = r.h.shared<L3Shared>("l3").worker(0).tables().neighbours;
  table.learn(table.find(kH2, ip(f().b)), {.mac = host_mac(2), .confirmed = true}, r.h.now());
  EXPECT_LE(r.h.pipeline().next_deadline(), r.h.now());
  r.h.advance_ns(0);
  EXPECT_EQ(r.sent("h2"), all_routed(1, 1));
}

}  // namespace
}  // namespace weft::stages
