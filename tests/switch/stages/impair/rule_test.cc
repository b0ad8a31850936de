// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/stages/impair/rule.h"

#include <gtest/gtest.h>

#include "tests/switch/stages/impair/packets.h"

namespace weft::stages {
namespace {

using wire::AethKind;
using wire::FrameBuilder;
using wire::FrameKind;
using wire::NakCode;
using wire::Opcode;
using wire::Psn;
using wire::Qpn;
using wire::Syndrome;

wire::IpPrefix prefix(const char* text) {
  return wire::IpPrefix::parse(text).value();
}
bool matches(const ImpairMatch& match, const TestPacket& packet) {
  return match.matches(packet.fields());
}
bool matches(const ImpairMatch& match, const FrameBuilder& frame) {
  return matches(match, TestPacket(frame));
}

FrameBuilder arp() {
  const auto mac = wire::MacAddress::from_u64(0x020000000001);
  return FrameBuilder().arp(1, mac, wire::IpAddress::v4(0x0a000001), {}, wire::IpAddress::v4(0x0a000002));
}

TEST(ImpairMatch, WithoutConditionsTakesEveryFrame) {
  EXPECT_TRUE(matches(ImpairMatch(), write_middle(17, 5)));
  EXPECT_TRUE(matches(ImpairMatch(), arp()));
  EXPECT_TRUE(matches(ImpairMatch(), TestPacket(FrameBuilder::Bytes{1, 2, 3})));
}

TEST(ImpairMatch, KindTakesTheKindsThatWereGiven) {
  EXPECT_TRUE(matches(ImpairMatch().kind(FrameKind::arp), arp()));
  EXPECT_FALSE(matches(ImpairMatch().kind(FrameKind::arp), write_middle(17, 5)));
  const auto both = ImpairMatch().kind(FrameKind::arp).kind(FrameKind::tcp);
  EXPECT_TRUE(matches(both, arp()));
  EXPECT_TRUE(matches(both, FrameBuilder().tcp(1, 2)));
  EXPECT_FALSE(matches(both, FrameBuilder().udp(1, 2)));
}

TEST(ImpairMatch, PortsAreThoseOfThePacket) {
  TestPacket packet(write_middle(17, 5));
  packet.in_port = 3;
  EXPECT_TRUE(matches(ImpairMatch().in_ports({1, 3}), packet));
  EXPECT_FALSE(matches(ImpairMatch().in_ports({1, 2}), packet));
  EXPECT_FALSE(matches(ImpairMatch().out_ports({1, 3}), packet));
  packet.out_port = 1;
  EXPECT_TRUE(matches(ImpairMatch().out_ports({1, 3}), packet));
}

TEST(ImpairMatch, DestQpIsExact) {
  EXPECT_TRUE(matches(ImpairMatch().dest_qp(Qpn(17)), write_middle(17, 5)));
  EXPECT_FALSE(matches(ImpairMatch().dest_qp(Qpn(17)), write_middle(18, 5)));
}

TEST(ImpairMatch, ConditionsOnRoceHoldForNothingElse) {
  const FrameBuilder udp = FrameBuilder().udp(1, 2).payload(64);
  EXPECT_FALSE(matches(ImpairMatch().dest_qp(Qpn(0)), udp));
  EXPECT_FALSE(matches(ImpairMatch().psn(Psn(0), Psn(Psn::kMask)), udp));
  EXPECT_FALSE(matches(ImpairMatch().opcode(0), udp));
  EXPECT_FALSE(matches(ImpairMatch().ack(false), udp));
  EXPECT_FALSE(matches(ImpairMatch().aeth(AethKind::ack), udp));
}

TEST(ImpairMatch, OpcodeTakesAnyOfThoseGiven) {
  const auto match = ImpairMatch()
                         .opcode(static_cast<std::uint8_t>(Opcode::RC_RDMA_WRITE_MIDDLE))
                         .opcode(static_cast<std::uint8_t>(Opcode::CNP));
  EXPECT_TRUE(matches(match, write_middle(17, 5)));
  EXPECT_TRUE(matches(match, FrameBuilder().cnp(Qpn(17))));
  EXPECT_FALSE(matches(match, acknowledge(17, 5, Syndrome::ack())));
}

TEST(ImpairMatch, PsnRangeIncludesBothEnds) {
  const auto match = ImpairMatch().psn(Psn(5), Psn(7));
  for (const std::uint32_t psn : {5, 6, 7}) EXPECT_TRUE(matches(match, write_middle(17, psn))) << psn;
  for (const std::uint32_t psn : {4, 8, 0, 0xffffff}) EXPECT_FALSE(matches(match, write_middle(17, psn))) << psn;
}

TEST(ImpairMatch, PsnRangeMayWrapAroundZero) {
  const auto match = ImpairMatch().psn(Psn(0xfffffe), Psn(1));
  for (const std::uint32_t psn : {0xfffffe, 0xffffff, 0, 1}) EXPECT_TRUE(matches(match, write_middle(17, psn))) << psn;
  for (const std::uint32_t psn : {0xfffffd, 2, 0x800000}) EXPECT_FALSE(matches(match, write_middle(17, psn))) << psn;
}

TEST(ImpairMatch, PrefixesAreOfTheirAddressAndFamily) {
  FrameBuilder v4 = write_middle(17, 5).ipv4("10.1.2.3", "10.9.8.7");
  EXPECT_TRUE(matches(ImpairMatch().source(prefix("10.1.2.99/24")), v4));
  EXPECT_FALSE(matches(ImpairMatch().source(prefix("10.9.0.0/16")), v4));
  EXPECT_TRUE(matches(ImpairMatch().destination(prefix("10.9.8.7/32")), v4));
  EXPECT_FALSE(matches(ImpairMatch().destination(prefix("10.9.8.6/32")), v4));
  EXPECT_TRUE(matches(ImpairMatch().source(prefix("0.0.0.0/0")), v4));
  EXPECT_FALSE(matches(ImpairMatch().source(prefix("::/0")), v4));
  FrameBuilder v6 = write_middle(17, 5).vlan(7).ipv6("2001:db8::1", "2001:db8:1::2");
  EXPECT_TRUE(matches(ImpairMatch().source(prefix("2001:db8::/48")), v6));
  EXPECT_FALSE(matches(ImpairMatch().source(prefix("2001:db8:1::/48")), v6));
  EXPECT_TRUE(matches(ImpairMatch().destination(prefix("2001:db8:1::2/128")), v6));
  EXPECT_FALSE(matches(ImpairMatch().destination(prefix("0.0.0.0/0")), v6));
}

TEST(ImpairMatch, ConditionsOnIpHoldForNoArpAndNoInvalidIp) {
  EXPECT_FALSE(matches(ImpairMatch().source(prefix("0.0.0.0/0")), arp()));
  EXPECT_FALSE(matches(ImpairMatch().dscp(0), FrameBuilder().udp(1, 2).ip_version(7)));
  EXPECT_FALSE(matches(ImpairMatch().ecn(0), arp()));
}

TEST(ImpairMatch, EcnAndDscpReadTheirBitsOfTheTosByte) {
  const FrameBuilder frame = write_middle(17, 5).tos(46 << 2 | 3);
  EXPECT_TRUE(matches(ImpairMatch().ecn(3), frame));
  EXPECT_FALSE(matches(ImpairMatch().ecn(2), frame));
  EXPECT_TRUE(matches(ImpairMatch().ecn(1).ecn(3), frame));
  EXPECT_TRUE(matches(ImpairMatch().dscp(46), frame));
  EXPECT_FALSE(matches(ImpairMatch().dscp(45), frame));
  EXPECT_TRUE(matches(ImpairMatch().dscp(63).dscp(46), frame));
}

TEST(ImpairMatch, VlanIsThatOfTheTag) {
  EXPECT_TRUE(matches(ImpairMatch().vlan(10), write_middle(17, 5).vlan(10, 3)));
  EXPECT_FALSE(matches(ImpairMatch().vlan(11), write_middle(17, 5).vlan(10)));
  EXPECT_FALSE(matches(ImpairMatch().vlan(0), write_middle(17, 5)));
}

TEST(ImpairMatch, AckTellsAcknowledgePacketsFromOtherRoce) {
  const FrameBuilder ack = acknowledge(17, 5, Syndrome::ack());
  const FrameBuilder nak = acknowledge(17, 5, Syndrome::nak(NakCode::psn_sequence_error));
  const FrameBuilder read_response =
      FrameBuilder().bth(Opcode::RC_RDMA_READ_RESPONSE_ONLY, Qpn(17), Psn(5)).aeth(Syndrome::ack(), 1).payload(8);
  EXPECT_TRUE(matches(ImpairMatch().ack(true), ack));
  EXPECT_TRUE(matches(ImpairMatch().ack(true), nak));
  EXPECT_FALSE(matches(ImpairMatch().ack(true), read_response));
  EXPECT_FALSE(matches(ImpairMatch().ack(false), ack));
  EXPECT_TRUE(matches(ImpairMatch().ack(false), write_middle(17, 5)));
}

TEST(ImpairMatch, AethTellsAckNakAndRnrNakApart) {
  const FrameBuilder frames[] = {acknowledge(17, 5, Syndrome::ack()), acknowledge(17, 5, Syndrome::rnr_nak(12)),
                                 acknowledge(17, 5, Syndrome::nak(NakCode::psn_sequence_error))};
  const AethKind kinds[] = {AethKind::ack, AethKind::rnr_nak, AethKind::nak};
  for (std::size_t frame = 0; frame < 3; ++frame) {
    for (std::size_t kind = 0; kind < 3; ++kind) {
      EXPECT_EQ(matches(ImpairMatch().aeth(kinds[kind]), frames[frame]), frame == kind) << frame << " " << kind;
    }
  }
  // A packet without an AETH reads as syndrome 0, which would be an ACK.
  EXPECT_FALSE(matches(ImpairMatch().aeth(AethKind::ack), write_middle(17, 5)));
}

TEST(ImpairMatch, AllConditionsMustHold) {
  const auto match = ImpairMatch().dest_qp(Qpn(17)).psn(Psn(5), Psn(5)).vlan(10);
  EXPECT_TRUE(matches(match, write_middle(17, 5).vlan(10)));
  EXPECT_FALSE(matches(match, write_middle(18, 5).vlan(10)));
  EXPECT_FALSE(matches(match, write_middle(17, 6).vlan(10)));
  EXPECT_FALSE(matches(match, write_middle(17, 5).vlan(11)));
}

}  // namespace
}  // namespace weft::stages
