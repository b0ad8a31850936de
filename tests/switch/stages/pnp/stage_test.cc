// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/stages/l3/drops.h"
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
                             .eth(port_mac(0), beyond_mac(0))
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

TEST_F(PnpStageTest, APriorityTaggedMarkBecomesACnpWithoutTag) {
  h.inject("in", data().vlan(0, 5).build());
  EXPECT_EQ(frames("wan").at(0).size(), data().build().size()) << "l3 takes the tag off";
  const auto cnps = frames("in");
  ASSERT_THAT(cnps, SizeIs(1));
  const wire::Parsed parsed = parsed_of(cnps[0]);
  EXPECT_FALSE(parsed.has(wire::ParsedFlag::vlan_tagged));
  EXPECT_EQ(parsed.dest_qp, kSource);
  EXPECT_TRUE(wire::icrc_ok(cnps[0].data(), parsed));
  EXPECT_EQ(counter("marks_cleared"), 1u);
}

TEST_F(PnpStageTest, AMarkOfAVlanThatIsNotRoutedMakesNoCnp) {
  h.inject("in", data().vlan(7).build());
  EXPECT_THAT(frames("wan"), IsEmpty());
  EXPECT_THAT(frames("in"), IsEmpty());
  EXPECT_EQ(h.dropped(pipeline::DropReason::vlan_not_allowed), 1u);
  EXPECT_EQ(counter("marked"), 0u);
}

class KeptMarkTest : public PnpStageTest {
 protected:
  KeptMarkTest() : PnpStageTest(kRemote + ", clear_to: ce") {}
};
TEST_F(KeptMarkTest, AMarkThatIsNotClearedMakesACnpAllTheSame) {
  h.inject("in", data().build());
  EXPECT_EQ(parsed_of(frames("wan").at(0)).tos, wire::make_tos(3, Ecn::ce));
  EXPECT_THAT(frames("in"), SizeIs(1));
  EXPECT_EQ(counter("cnps_sent"), 1u);
  EXPECT_EQ(counter("marks_cleared"), 0u);
}

TEST_F(PnpStageTest, OneCnpPerInterval) {
  for (int i = 0; i < 10; ++i) {
    h.inject("in", data().build());
    h.advance_ns(1'000);
  }
  EXPECT_THAT(frames("in"), SizeIs(2));
  EXPECT_EQ(counter("marks_cleared"), 10u);
}

// One buffer for two queue pairs with two packets each in a burst: the second pair's first packet gets no CNP, so
// neither of its packets may lose its mark.
TEST_F(PnpStageTest, WithoutABufferForTheCnpMarksOfTheWholeFlowStay) {
  const auto other = [](std::uint32_t psn) { return data(Ecn::ce, psn).ipv6("fd01::1", "fd02::1"); };
  const std::vector<Bytes> burst{data(Ecn::ce, 5).build(), other(5).build(), data(Ecn::ce, 6).build(),
                                 other(6).build()};
  std::vector<rte_mbuf*> taken;
  while (rte_mbuf* m = rte_pktmbuf_alloc(h.pool())) taken.push_back(m);
  for (std::size_t i = 0; i <= burst.size(); ++i) {
    rte_pktmbuf_free(taken.back());
    taken.pop_back();
  }
  h.inject("in", burst);
  const auto forwarded = frames("wan");
  ASSERT_THAT(forwarded, SizeIs(4));
  std::vector<int> marks;
  for (const Bytes& frame : forwarded) marks.push_back(parsed_of(frame).tos & 3);
  EXPECT_THAT(marks, ::testing::ElementsAre(2, 3, 2, 3));
  EXPECT_THAT(frames("in"), SizeIs(1));
  EXPECT_EQ(counter("cnps_sent"), 1u);
  EXPECT_EQ(counter("marks_cleared"), 2u);
  EXPECT_EQ(counter("no_buffer"), 2u);
  for (rte_mbuf* m : taken) rte_pktmbuf_free(m);
  // The flow was not told, so that its next mark makes a CNP.
  h.inject("in", other(7).build());
  EXPECT_THAT(frames("in"), SizeIs(1));
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
                         .eth(port_mac(0), beyond_mac(0))
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
                      .eth(beyond_mac(1), port_mac(1))
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
                     .eth(beyond_mac(0), port_mac(0))
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
                      .eth(beyond_mac(1), port_mac(1))
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
    frame.eth(beyond_mac(from_client ? 0 : 1), port_mac(from_client ? 0 : 1));
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

struct CookieTest : PnpStageTest {
  explicit CookieTest(const std::string& options = "handshake_monitor: cookie") : PnpStageTest(options) {}

  /// A segment of the client, or of the server.
  static Bytes segment(bool from_client, std::uint8_t flags, std::uint32_t sequence,
                       std::uint32_t acknowledgement = 0) {
    FrameBuilder frame;
    frame.eth(beyond_mac(from_client ? 0 : 1), port_mac(from_client ? 0 : 1));
    if (from_client) {
      frame.ipv4("10.1.0.1", "10.2.0.1").tcp(40000, 18515, flags, sequence);
    } else {
      frame.ipv4("10.2.0.1", "10.1.0.1").tcp(18515, 40000, flags, sequence);
    }
    Bytes bytes = frame.build();
    tcp_of(bytes).acknowledgement.set(acknowledgement);
    return bytes;
  }
  static wire::TcpHeader& tcp_of(Bytes& frame) {
    return wire::header_at<wire::TcpHeader>(frame.data() + sizeof(wire::EthernetHeader) + sizeof(wire::Ipv4Header));
  }
  /// The one frame that comes back to the client when it sends this; nothing goes on to the server.
  Bytes answer_to(const Bytes& sent) {
    h.inject("in", sent);
    EXPECT_THAT(frames("wan"), IsEmpty());
    auto answers = frames("in");
    EXPECT_THAT(answers, SizeIs(1));
    return answers.empty() ? segment(false, 0, 0) : answers[0];
  }
};

// Figure 5 of the paper, with its price: the first connection of a pair is reset, the second one passes.
TEST_F(CookieTest, TheFirstConnectionOfAPairIsResetAndTheNextOnePasses) {
  using Tcp = wire::TcpHeader;
  Bytes syn_ack = answer_to(segment(true, Tcp::kSyn, 5));
  EXPECT_EQ(parsed_of(syn_ack).kind, wire::FrameKind::tcp);
  EXPECT_EQ(tcp_of(syn_ack).flags, Tcp::kSyn | Tcp::kAck);
  EXPECT_EQ(tcp_of(syn_ack).acknowledgement.value(), 6u);
  EXPECT_EQ(tcp_of(syn_ack).window.value(), 0) << "the client has no leave to send data";
  const std::uint32_t cookie = tcp_of(syn_ack).sequence.value();
  Bytes reset = answer_to(segment(true, Tcp::kAck, 6, cookie + 1));
  EXPECT_EQ(tcp_of(reset).flags, Tcp::kRst);
  EXPECT_EQ(tcp_of(reset).sequence.value(), cookie + 1) << "what the client expects next, or it would not heed it";
  EXPECT_EQ(counter("cookies_sent"), 1u);
  EXPECT_EQ(counter("connections_reset"), 1u);
  EXPECT_EQ(counter("handshakes"), 1u);

  h.inject("in", segment(true, Tcp::kSyn, 50));
  h.inject("wan", segment(false, Tcp::kSyn | Tcp::kAck, 900, 51));
  h.inject("in", segment(true, Tcp::kAck, 51, 901));
  EXPECT_THAT(frames("wan"), SizeIs(2));
  EXPECT_THAT(frames("in"), SizeIs(1));
  EXPECT_EQ(counter("connections_reset"), 1u);
  h.inject("in", data().build());
  EXPECT_EQ(counter("marked"), 1u) << "the pair is inter-DC";
}

TEST_F(CookieTest, AFloodOfSynsIsAnsweredAndNothingIsKept) {
  for (std::uint32_t i = 0; i < 1000; ++i) h.inject("in", segment(true, wire::TcpHeader::kSyn, i));
  EXPECT_THAT(frames("wan"), IsEmpty());
  EXPECT_THAT(frames("in"), SizeIs(1000));
  EXPECT_EQ(h.rows("pnp")[0]["pairs"], 0);
}

TEST_F(CookieTest, WhatIsNoAnswerToACookiePasses) {
  using Tcp = wire::TcpHeader;
  for (const int flags : std::initializer_list<int>{Tcp::kAck, Tcp::kAck | Tcp::kPsh, Tcp::kRst, Tcp::kRst | Tcp::kAck,
                                                    Tcp::kFin | Tcp::kAck, Tcp::kSyn | Tcp::kAck, 0}) {
    h.inject("in", segment(true, static_cast<std::uint8_t>(flags), 6, 700));
    EXPECT_THAT(frames("wan"), SizeIs(1)) << flags;
  }
  EXPECT_EQ(counter("handshakes") + counter("cookies_sent"), 0u);
}

// The answer would come from a group: l3 decides about the segment as if the stage were not there.
TEST_F(CookieTest, SegmentsToAGroupAreNotAnswered) {
  using Tcp = wire::TcpHeader;
  Bytes to_group = segment(true, Tcp::kSyn, 5);
  to_group[0] |= 1;
  h.inject("in", to_group);
  EXPECT_THAT(frames("in"), IsEmpty());
  EXPECT_EQ(h.dropped(L3Drop::not_for_router), 1u);
  EXPECT_EQ(counter("group_addresses"), 1u);
  EXPECT_EQ(counter("cookies_sent"), 0u);

  for (const char* group : {"224.1.2.3", "255.255.255.255"}) {
    FrameBuilder frame;
    frame.eth(beyond_mac(0), port_mac(0)).ipv4("10.1.0.1", group).tcp(40000, 18515, Tcp::kSyn, 5);
    h.inject("in", frame.build());
    EXPECT_THAT(frames("in"), IsEmpty()) << group;
  }
  h.inject("in", FrameBuilder()
                     .eth(beyond_mac(0), port_mac(0))
                     .ipv6("fd01::1", "ff0e::1")
                     .tcp(40000, 18515, Tcp::kSyn, 5)
                     .build());
  EXPECT_THAT(frames("in"), IsEmpty());
  EXPECT_EQ(counter("group_addresses"), 4u);
}

TEST_F(CookieTest, ACookieThatComesBackToAGroupMakesNoPair) {
  using Tcp = wire::TcpHeader;
  Bytes syn_ack = answer_to(segment(true, Tcp::kSyn, 5));
  Bytes ack = segment(true, Tcp::kAck, 6, tcp_of(syn_ack).sequence.value() + 1);
  ack[0] |= 1;
  h.inject("in", ack);
  EXPECT_THAT(frames("in"), IsEmpty());
  EXPECT_EQ(counter("group_addresses"), 1u);
  EXPECT_EQ(counter("handshakes") + counter("connections_reset"), 0u);
}

TEST_F(CookieTest, AReloadKeepsCookiesThatAreUnderWay) {
  using Tcp = wire::TcpHeader;
  Bytes syn_ack = answer_to(segment(true, Tcp::kSyn, 5));
  h.reload(yaml("handshake_monitor: cookie, cnp_interval_us: 9"));
  Bytes reset = answer_to(segment(true, Tcp::kAck, 6, tcp_of(syn_ack).sequence.value() + 1));
  EXPECT_EQ(tcp_of(reset).flags, Tcp::kRst);
}

struct CookieRemoteTest : CookieTest {
  CookieRemoteTest() : CookieTest(kRemote + ", handshake_monitor: cookie") {}
};

TEST_F(CookieRemoteTest, ClientsOfTheOtherDataCentreAreLeftToItsOwnSwitch) {
  h.inject("wan", segment(false, wire::TcpHeader::kSyn, 5));
  EXPECT_THAT(frames("in"), SizeIs(1));
  EXPECT_THAT(frames("wan"), IsEmpty());
  EXPECT_EQ(counter("cookies_sent"), 0u);
}

}  // namespace
}  // namespace weft::stages::testing
