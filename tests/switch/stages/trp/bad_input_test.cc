// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Floods of CNPs, and packets that nothing slows down: UC, UD, other VLANs.
#include "tests/switch/stages/trp/rig.h"

namespace weft::stages::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;

const std::string kShortLoop = kRemote + ", loop_mbps: 100000, loop_delay_ns: 1000";

/// With state per pair any CNP has a flow, so that forged ones can fill the table.
class TrpFlood : public TrpStageTest {
 protected:
  TrpFlood() : TrpStageTest(yaml(kShortLoop + ", state_per: pair, max_flows: 2"), Whole{}) {}

  static std::string source(unsigned n) { return "10.2.1." + std::to_string(n); }
  static Bytes cnp_to(unsigned n) { return cnp().ipv4("10.1.0.1", source(n)).build(); }
  static Bytes data_from(unsigned n, std::uint32_t psn) { return data(psn).ipv4(source(n), "10.1.0.1").build(); }
};

TEST_F(TrpFlood, CnpsOfFlowsWithoutRoomAreCountedAndGoOn) {
  constexpr unsigned kForged = 100;
  for (unsigned n = 1; n <= 2; ++n) {
    h.inject("in", cnp_to(n));
    h.inject("wan", data_from(n, n));
  }
  EXPECT_EQ(h.held(), 2u);
  h.take("wan");
  for (unsigned n = 3; n < 3 + kForged; ++n) h.inject("in", cnp_to(n));
  EXPECT_THAT(h.take("wan"), SizeIs(kForged));
  EXPECT_EQ(counter("cnps_seen"), kForged + 2u);
  EXPECT_EQ(counter("cnps_no_room"), kForged);
  EXPECT_EQ(counter("flows_evicted"), 0u) << "of what is held nothing is forgotten";
  h.inject("wan", data_from(3, 3));
  EXPECT_THAT(psns(), ElementsAre(3)) << "a flow without room is not slowed down";
  h.advance_ns(10 * kUs);
  EXPECT_THAT(psns(), ElementsAre(1, 2));
  EXPECT_EQ(h.held(), 0u);
}

TEST_F(TrpFlood, CnpsOfFlowsThatHoldNothingTakeTheirPlacesAndNothingElse) {
  constexpr unsigned kForged = 100;
  for (unsigned n = 1; n <= kForged; ++n) h.inject("in", cnp_to(n));
  EXPECT_THAT(h.take("wan"), SizeIs(kForged));
  EXPECT_EQ(counter("flows_evicted"), kForged - 2u);
  EXPECT_EQ(counter("cnps_no_room"), 0u);
  h.inject("wan", {data_from(1, 1), data_from(kForged + 1, 2)});
  EXPECT_THAT(psns(), ElementsAre(1, 2));
  h.inject("wan", data_from(kForged, 3));
  EXPECT_EQ(h.held(), 1u) << "the newest has its place";
}

class TrpBound : public TrpStageTest {
 protected:
  TrpBound() : TrpStageTest(yaml(kShortLoop + ", max_hold_us: 20"), Whole{}) {}
};

TEST_F(TrpBound, AFloodHoldsNoPacketForLongerThanMaxHold) {
  constexpr std::uint32_t kCnps = 5000, kPackets = 40;
  for (std::uint32_t n = 0; n < kCnps; ++n) h.inject("in", cnp().build());
  EXPECT_THAT(h.take("wan"), SizeIs(kCnps));
  for (std::uint32_t psn = 1; psn <= kPackets; ++psn) {
    h.inject("wan", data(psn).build());
    h.advance_ns(kUs);
  }
  h.advance_ns(100 * kUs);
  const auto gone = psns();
  ASSERT_THAT(gone, SizeIs(kPackets));
  for (std::uint32_t i = 0; i < kPackets; ++i) EXPECT_EQ(gone[i], i + 1);
  EXPECT_EQ(counter("packets_held"), kPackets);
  EXPECT_GE(counter("longest_hold_ns"), 20 * kUs);
  // One that is due goes on when it comes back from the loop, behind those of which as many wait as the limit lets.
  EXPECT_LE(counter("longest_hold_ns"), 40 * kUs);
}

class TrpOther : public TrpStageTest {
 protected:
  TrpOther() : TrpStageTest(yaml(kShortLoop), Whole{}) {}
};

TEST_F(TrpOther, UcAndUdPassAndAreNotSlowedDown) {
  h.inject("in", cnp().build());
  h.inject("wan", {data(1).bth(Opcode::UC_SEND_MIDDLE, kDestination, Psn(1)).build(),
                   data(2).bth(Opcode::UC_RDMA_WRITE_ONLY, kDestination, Psn(2)).reth(0, 1, 1024).build(),
                   data(3).bth(Opcode::UD_SEND_ONLY, kDestination, Psn(3)).deth(1, kSource).build()});
  EXPECT_THAT(psns(), ElementsAre(1, 2, 3));
  EXPECT_EQ(counter("packets_held"), 0u);
  h.inject("wan", data(4).build());
  EXPECT_EQ(h.held(), 1u) << "the flow itself is slow";
}

TEST_F(TrpOther, APriorityTaggedPacketKeepsItsPlaceInItsFlow) {
  h.inject("in", cnp().build());
  h.inject("wan", {data(1).build(), data(2).vlan(0, 5).build(), data(3).build()});
  EXPECT_EQ(h.held(), 3u);
  h.advance_ns(10 * kUs);
  EXPECT_THAT(psns(), ElementsAre(1, 2, 3));
}

/// Two ports of an l2 switch that carry VLANs 7 and 8.
class TrpVlan : public TrpStageTest {
 protected:
  TrpVlan()
      : TrpStageTest(R"(name: esw
ports:
  - { name: in, type: "null", mtu_bytes: 4200, trunk: { vlans: [7, 8] } }
  - { name: wan, type: "null", mtu_bytes: 4200, trunk: { vlans: [7, 8] } }
pipeline:
  - parse
  - rdma_track:
      qps:
        - { a: { address: 10.2.0.1, qpn: 17 }, b: { address: 10.1.0.1, qpn: 34 } }
        - { a: { address: 10.2.0.2, qpn: 17 }, b: { address: 10.1.0.2, qpn: 34 } }
  - trp: { )" + kShortLoop +
                         R"( }
  - l2
)",
                     Whole{}) {}
};

TEST_F(TrpVlan, TaggedCnpsSlowDownTheirFlowsAlone) {
  h.inject("in", cnp().vlan(7).build());
  EXPECT_THAT(h.take("wan"), SizeIs(1));
  h.inject("wan", {data(1).vlan(7, 3).build(), data(2).vlan(8).ipv4("10.2.0.2", "10.1.0.2").build()});
  EXPECT_THAT(psns(), ElementsAre(2)) << "another host, in another VLAN";
  EXPECT_EQ(h.held(), 1u);
  h.advance_ns(10 * kUs);
  const auto frames = h.take("in");
  ASSERT_THAT(frames, SizeIs(1));
  EXPECT_EQ(frames[0].bytes, data(1).vlan(7, 3).build()) << "with its tag";
  EXPECT_EQ(counter("packets_held"), 1u);
}

}  // namespace
}  // namespace weft::stages::testing
