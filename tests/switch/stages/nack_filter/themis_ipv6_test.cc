// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// `lb: psn` and `nack_filter` over IPv6.
#include <set>

#include "switch/stages/lb/path_map.h"
#include "switch/tables/ecmp_hash.h"
#include "tests/switch/stages/nack_filter/rig.h"

namespace weft::stages::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

FrameBuilder data6(std::uint32_t psn) {
  return to_receiver_over_ipv6(data(psn));
}

// Where a packet of the sender leaves its leaf, 0 for the first uplink, and as what.
struct Sent {
  unsigned uplink;
  Bytes frame;
};
Sent send(Harness& leaf, unsigned uplinks, const FrameBuilder& frame) {
  leaf.inject("h1", frame.build());
  Sent sent{uplinks, {}};
  for (unsigned i = 0; i < uplinks; ++i) {
    for (auto& out : leaf.take("s" + std::to_string(i + 1))) sent = {i, std::move(out.bytes)};
  }
  return sent;
}

TEST(ThemisOverIpv6, ThePathsOfSuccessivePsnsAreTakenInTurn) {
  for (const unsigned n : {2u, 3u}) {
    Harness leaf(weft::testing::all_stages(), leaf_yaml(1, {.uplinks = n, .ipv6 = true}));
    const unsigned base = send(leaf, n, data6(0)).uplink;
    ASSERT_LT(base, n);
    for (const std::uint32_t psn : {1u, 2u, 3u, 4u, 77u, 0xfffffeu, 0xffffffu}) {
      EXPECT_EQ(send(leaf, n, data6(psn)).uplink, (psn % n + base) % n) << n << " paths, PSN " << psn;
    }
  }
}

TEST(ThemisOverIpv6, UnknownQueuePairsStayOnOnePath) {
  Harness leaf(weft::testing::all_stages(), leaf_yaml(1, {.uplinks = 3, .qps = "", .ipv6 = true}));
  std::set<unsigned> taken;
  for (std::uint32_t psn = 0; psn < 9; ++psn) taken.insert(send(leaf, 3, data6(psn)).uplink);
  EXPECT_THAT(taken, SizeIs(1));
}

// IPv6 has a UDP checksum always: it and the ICRC change with the source port.
TEST(ThemisOverIpv6, ThreeTiersChangeThePortAndBothChecksums) {
  constexpr unsigned kUplinks = 3, kAbove = 4;
  for (const char* icrc : {"incremental", "full"}) {
    Harness leaf(weft::testing::all_stages(),
                 "icrc: " + std::string(icrc) + "\n" +
                     leaf_yaml(1, {.uplinks = kUplinks,
                                   .lb = "{ policy: psn, tiers_above: [ { seed: 99, members: 4 } ] }",
                                   .ipv6 = true}));
    const auto map = PathMap::build(std::vector<HashTier>{ecmp_tier(99, kAbove)});
    std::set<std::pair<unsigned, std::uint16_t>> all;
    for (std::uint32_t psn = 0; psn < kUplinks * kAbove; ++psn) {
      const Sent sent = send(leaf, kUplinks, data6(psn).with_udp_checksum());
      ASSERT_LT(sent.uplink, kUplinks);
      const wire::Parsed p = parsed_of(sent.frame);
      EXPECT_EQ(p.source_port ^ 50000, map->delta(psn / kUplinks));
      EXPECT_TRUE(wire::icrc_ok(sent.frame.data(), p));
      const Bytes fresh = data6(psn).udp(p.source_port).with_udp_checksum().build();
      EXPECT_TRUE(
          std::equal(fresh.begin() + p.l4_offset, fresh.end(), sent.frame.begin() + p.l4_offset, sent.frame.end()))
          << icrc << ", PSN " << psn;
      all.emplace(sent.uplink, p.source_port);
    }
    EXPECT_THAT(all, SizeIs(kUplinks * kAbove)) << "all paths there are";
  }
}

TEST(ThemisOverIpv6, ANackWhosePacketIsOnItsWayIsBlockedAndOneWhosePacketIsLostPasses) {
  ReceiverLeaf leaf({.ipv6 = true});
  leaf.arrive({0, 1, 3});
  leaf.say(nack(2));
  EXPECT_THAT(leaf.nacks(), IsEmpty());
  EXPECT_EQ(leaf.counter("nacks_blocked"), 1u);
  leaf.arrive({2, 4, 5, 6, 8});
  leaf.say(nack(7));
  EXPECT_THAT(leaf.nacks(), IsEmpty());
  leaf.arrive({9});
  EXPECT_THAT(leaf.nacks(), ElementsAre(7)) << "its path has gone on without it";
  EXPECT_EQ(leaf.counter("compensated_packet"), 1u);
  leaf.arrive({10, 11, 12, 14, 15});
  leaf.say(nack(13));
  EXPECT_THAT(leaf.nacks(), ElementsAre(13));
  EXPECT_EQ(leaf.counter("nacks_valid"), 1u);
  EXPECT_EQ(leaf.counter("nacks_unknown"), 0u);
}

TEST(ThemisOverIpv6, ABlockedNackBecomesAnAckOfWhatCameBefore) {
  ReceiverLeaf leaf({.filter = ", on_block: ack", .ipv6 = true});
  leaf.arrive({0, 1, 3});
  leaf.say(nack(2, 77));
  const std::vector<Bytes> sent = leaf.upwards();
  ASSERT_THAT(sent, SizeIs(1));
  const wire::Parsed p = parsed_of(sent[0]);
  EXPECT_TRUE(wire::icrc_ok(sent[0].data(), p));
  EXPECT_TRUE(wire::Syndrome(p.syndrome).is_ack());
  EXPECT_EQ(p.psn, Psn(1));
  const Bytes expected = to_sender_over_ipv6(ack(1, 77)).build();
  EXPECT_TRUE(std::equal(expected.begin() + p.l4_offset, expected.end(), sent[0].begin() + p.l4_offset, sent[0].end()))
      << "MSN and UDP checksum as if the receiver had sent it";
}

TEST(ThemisOverIpv6, TheGuardSendsTheNackAsItWas) {
  ReceiverLeaf leaf({.filter = ", guard_us: 200", .ipv6 = true});
  leaf.arrive({0, 1, 3});
  leaf.say(nack(2));
  leaf.h.advance_ns(200 * kUs);
  EXPECT_THAT(leaf.nacks(), ElementsAre(2));
  EXPECT_EQ(leaf.counter("compensated_guard"), 1u);
}

}  // namespace
}  // namespace weft::stages::testing
