// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "tests/switch/stages/pnp/rig.h"

namespace weft::stages::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST_F(PnpStageTest, AMarkBecomesACnpAndIsCleared) {
  h.inject("in", data().build());
  const auto forwarded = frames("wan");
  ASSERT_THAT(forwarded, SizeIs(1));
  const wire::Parsed parsed = parsed_of(forwarded[0]);
  EXPECT_EQ(parsed.tos, wire::make_tos(3, Ecn::ect0));
  EXPECT_TRUE(wire::icrc_ok(forwarded[0].data(), parsed));
  const auto& ip = wire::header_at<wire::Ipv4Header>(forwarded[0].data() + parsed.l3_offset);
  EXPECT_TRUE(wire::ipv4_checksum_ok(ip));

  const auto cnps = frames("in");
  ASSERT_THAT(cnps, SizeIs(1));
  // As a ConnectX would have sent it, but for what l3 does to every packet.
  const Bytes expected = FrameBuilder()
                             .eth(port_mac(0), MacAddress::from_u64(0x02aa00000001))
                             .ipv4("10.2.0.1", "10.1.0.1")
                             .dscp(48)
                             .ecn(Ecn::ect0)
                             .ttl(63)
                             .udp(0)
                             .cnp(kSource)
                             .build();
  EXPECT_EQ(cnps[0], expected);
  EXPECT_EQ(counter("marked"), 1u);
  EXPECT_EQ(counter("cnps_sent"), 1u);
  EXPECT_EQ(counter("marks_cleared"), 1u);
}

TEST_F(PnpStageTest, OneCnpPerInterval) {
  for (int i = 0; i < 10; ++i) {
    h.inject("in", data().build());
    h.advance_ns(1'000);
  }
  EXPECT_THAT(frames("in"), SizeIs(2));
  EXPECT_EQ(counter("marks_cleared"), 10u);
}

TEST_F(PnpStageTest, OverIpv6TheSame) {
  h.inject("in", data().ipv6("fd01::1", "fd02::1").build());
  const auto forwarded = frames("wan");
  ASSERT_THAT(forwarded, SizeIs(1));
  EXPECT_EQ(parsed_of(forwarded[0]).tos, wire::make_tos(3, Ecn::ect0));
  EXPECT_TRUE(wire::icrc_ok(forwarded[0].data(), parsed_of(forwarded[0])));
  const auto cnps = frames("in");
  ASSERT_THAT(cnps, SizeIs(1));
  EXPECT_EQ(cnps[0], FrameBuilder()
                         .eth(port_mac(0), MacAddress::from_u64(0x02aa00000001))
                         .ipv6("fd02::1", "fd01::1")
                         .dscp(48)
                         .ecn(Ecn::ect0)
                         .ttl(63)
                         .udp(0)
                         .cnp(kSource)
                         .build());
  const auto rows = h.rows("pnp_flows");
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_TRUE(rows[0]["source"].is_null());
}

TEST_F(PnpStageTest, WhatIsNotMarkedIsLeftAlone) {
  for (const Ecn ecn : {Ecn::not_ect, Ecn::ect1, Ecn::ect0}) {
    h.inject("in", data(ecn).build());
    EXPECT_EQ(parsed_of(frames("wan").at(0)).tos & 3, static_cast<int>(ecn));
  }
  EXPECT_THAT(frames("in"), IsEmpty());
  EXPECT_EQ(counter("marked"), 0u);
}

TEST_F(PnpStageTest, FlowsOfOneDataCentreOrTowardsItAreLeftAlone) {
  h.inject("in", data().ipv4("10.1.0.1", "10.1.0.9").build());
  EXPECT_EQ(parsed_of(frames("in").at(0)).tos & 3, 3);
  h.inject("wan", data()
                      .eth(MacAddress::from_u64(0x02aa00000002), port_mac(1))
                      .ipv4("10.2.0.1", "10.1.0.1")
                      .bth(Opcode::RC_SEND_MIDDLE, kSource, Psn(5))
                      .build());
  EXPECT_EQ(parsed_of(frames("in").at(0)).tos & 3, 3);
  EXPECT_THAT(frames("wan"), IsEmpty());
  EXPECT_EQ(counter("marked"), 0u);
}

TEST_F(PnpStageTest, AQueuePairThatIsNotKnownKeepsItsMark) {
  h.inject("in", data().bth(Opcode::RC_SEND_MIDDLE, Qpn(35), Psn(5)).build());
  EXPECT_EQ(parsed_of(frames("wan").at(0)).tos & 3, 3);
  EXPECT_THAT(frames("in"), IsEmpty());
  EXPECT_EQ(counter("unknown_qp"), 1u);
  EXPECT_EQ(counter("marks_cleared"), 0u);
}

TEST_F(PnpStageTest, UcAndUdKeepTheirMarks) {
  h.inject("in", data().bth(Opcode::UC_SEND_ONLY, kDestination, Psn(5)).payload(64).build());
  h.inject("in", data().bth(Opcode::UD_SEND_ONLY, kDestination, Psn(5)).deth(1, kSource).payload(64).build());
  h.inject("in", FrameBuilder()
                     .eth(MacAddress::from_u64(0x02aa00000001), port_mac(0))
                     .ipv4("10.1.0.1", "10.2.0.1")
                     .ecn(Ecn::ce)
                     .udp(0)
                     .cnp(kDestination)
                     .build());
  for (const auto& frame : frames("wan")) EXPECT_EQ(parsed_of(frame).tos & 3, 3);
  EXPECT_THAT(frames("in"), IsEmpty());
  EXPECT_EQ(counter("not_rc"), 3u);
}

TEST_F(PnpStageTest, ResponsesToReadsCount) {
  h.inject("in", data().bth(Opcode::RC_RDMA_READ_RESPONSE_MIDDLE, kDestination, Psn(5)).payload(256).build());
  const auto cnps = frames("in");
  ASSERT_THAT(cnps, SizeIs(1));
  EXPECT_EQ(parsed_of(cnps[0]).dest_qp, kSource);
}

TEST_F(PnpStageTest, OffMeansOff) {
  EXPECT_EQ(h.set("pnp", {"off"}), "");
  h.inject("in", data().build());
  EXPECT_EQ(parsed_of(frames("wan").at(0)).tos & 3, 3);
  EXPECT_THAT(frames("in"), IsEmpty());
}

TEST_F(PnpStageTest, TheIntervalChangesWhileItRunsAndFlowsStay) {
  h.inject("in", data().build());
  EXPECT_EQ(h.set("pnp", {"cnp_interval_us=100"}), "");
  h.advance_ns(50'000);
  h.inject("in", data().build());
  EXPECT_THAT(frames("in"), SizeIs(1));
  EXPECT_THAT(h.set("pnp", {"max_flows=8"}), HasSubstr("max_flows: only a reload"));
}

TEST_F(PnpStageTest, AReloadKeepsTheInterval) {
  h.inject("in", data().build());
  h.reload(yaml(kRemote));
  h.inject("in", data().build());
  EXPECT_THAT(frames("in"), SizeIs(1));
}

struct AnySourceTest : PnpStageTest {
  AnySourceTest() : PnpStageTest(kRemote + ", sources: any, clear_to: not_ect, cnp_dscp: 46") {}
};

TEST_F(AnySourceTest, SourcesFarAwayAreToldToo) {
  h.inject("wan", data()
                      .eth(MacAddress::from_u64(0x02aa00000002), port_mac(1))
                      .ipv4("10.2.0.1", "10.1.0.1")
                      .bth(Opcode::RC_SEND_MIDDLE, kSource, Psn(5))
                      .build());
  EXPECT_EQ(parsed_of(frames("in").at(0)).tos, wire::make_tos(3, Ecn::not_ect));
  const auto cnps = frames("wan");
  ASSERT_THAT(cnps, SizeIs(1));
  EXPECT_EQ(parsed_of(cnps[0]).dest_qp, kDestination);
  EXPECT_EQ(parsed_of(cnps[0]).tos >> 2, 46);
}

struct MonitorTest : PnpStageTest {
  MonitorTest() : PnpStageTest("handshake_monitor: passive") {}

  void segment(bool from_client, std::uint8_t flags, std::uint32_t sequence, std::uint32_t acknowledgement) {
    FrameBuilder frame;
    frame.eth(MacAddress::from_u64(from_client ? 0x02aa00000001 : 0x02aa00000002), port_mac(from_client ? 0 : 1));
    if (from_client) {
      frame.ipv4("10.1.0.1", "10.2.0.1").tcp(40000, 18515, flags, sequence);
    } else {
      frame.ipv4("10.2.0.1", "10.1.0.1").tcp(18515, 40000, flags, sequence);
    }
    Bytes bytes = frame.build();
    auto& tcp =
        wire::header_at<wire::TcpHeader>(bytes.data() + sizeof(wire::EthernetHeader) + sizeof(wire::Ipv4Header));
    tcp.acknowledgement.set(acknowledgement);
    h.inject(from_client ? "in" : "wan", bytes);
    // It looks on, and alters nothing behind the Ethernet header but what every router does.
    const auto passed = frames(from_client ? "wan" : "in");
    ASSERT_THAT(passed, SizeIs(1));
    const auto tail = static_cast<std::ptrdiff_t>(sizeof(wire::EthernetHeader) + sizeof(wire::Ipv4Header));
    EXPECT_TRUE(std::equal(bytes.begin() + tail, bytes.end(), passed[0].begin() + tail, passed[0].end()));
  }
};

TEST_F(MonitorTest, HostsThatOpenAConnectionAreInterDc) {
  using Tcp = wire::TcpHeader;
  h.inject("in", data().build());
  EXPECT_EQ(counter("marked"), 0u);
  frames("wan");
  segment(true, Tcp::kSyn, 5, 0);
  segment(false, Tcp::kSyn | Tcp::kAck, 900, 6);
  h.inject("in", data().build());
  EXPECT_EQ(counter("marked"), 0u);
  frames("wan");
  segment(true, Tcp::kAck, 6, 901);
  EXPECT_EQ(counter("handshakes"), 1u);
  h.inject("in", data().build());
  EXPECT_EQ(counter("marked"), 1u);
  EXPECT_THAT(frames("in"), SizeIs(1));
  EXPECT_EQ(h.rows("pnp")[0]["pairs"], 1);
}

}  // namespace
}  // namespace weft::stages::testing
