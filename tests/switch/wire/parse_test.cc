// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/wire/parse.h"

#include <gtest/gtest.h>

#include "switch/wire/cm.h"
#include "switch/wire/rss.h"
#include "tests/switch/wire/samples.h"
#include "tests/switch/wire/vectors.h"

namespace weft::wire {
namespace {

using vectors::from_hex;

Parsed parse(const FrameBuilder& b) {
  return wire::parse(b.build());
}

FrameBuilder send() {
  return FrameBuilder().bth(Opcode::RC_SEND_ONLY, Qpn(5), Psn(6)).payload(8);
}
FrameBuilder send6() {
  return FrameBuilder().ipv6("::1", "::2").bth(Opcode::RC_SEND_ONLY, Qpn(5), Psn(6)).payload(8);
}

TEST(Parse, ReadsEveryFieldOfTheConnectX4Cnp) {
  const Parsed p = wire::parse(from_hex(vectors::kConnectX4Cnp));
  EXPECT_EQ(p.kind, FrameKind::roce);
  EXPECT_EQ(p.validity, Validity::ok);
  EXPECT_EQ(p.flags, ParsedFlag::becn);
  EXPECT_EQ(p.l3_offset, 14);
  EXPECT_EQ(p.l4_offset, 34);
  EXPECT_EQ(p.opcode, static_cast<std::uint8_t>(Opcode::CNP));
  EXPECT_EQ(p.tos, 0xc2);
  EXPECT_EQ(p.ttl, 64);
  EXPECT_EQ(p.vlan_tci, 0);
  EXPECT_EQ(p.l3_length, 60);
  EXPECT_EQ(p.payload_bytes, 0);
  EXPECT_EQ(p.syndrome, 0);
  EXPECT_EQ(p.protocol, 17);
  EXPECT_EQ(p.dest_qp, Qpn(0x118));
  EXPECT_EQ(p.psn, Psn(0));
  EXPECT_EQ(p.address_key, 0x0a0011010a001201u);
  EXPECT_EQ(p.source_port, 0);
  EXPECT_EQ(p.destination_port, 4791);
}

TEST(Parse, ReadsEveryFieldOfAScapySendWithPad) {
  const Parsed p = wire::parse(from_hex(vectors::kSendOnlyPad));
  EXPECT_EQ(p.kind, FrameKind::roce);
  EXPECT_EQ(p.flags, ParsedFlag::ack_req | ParsedFlag::solicited);
  EXPECT_EQ(p.tos, 0x62);
  EXPECT_EQ(p.ttl, 61);
  EXPECT_EQ(p.payload_bytes, 13);
  EXPECT_EQ(p.dest_qp, Qpn(0x123456));
  EXPECT_EQ(p.psn, Psn(0xfedcba));
  EXPECT_EQ(p.source_port, 50000);
}

TEST(Parse, ReadsTheSyndromeOfAScapyAck) {
  const Parsed p = wire::parse(from_hex(vectors::kAck));
  EXPECT_EQ(p.kind, FrameKind::roce);
  EXPECT_EQ(p.opcode, static_cast<std::uint8_t>(Opcode::RC_ACKNOWLEDGE));
  EXPECT_EQ(p.syndrome, 0x1f);
  EXPECT_EQ(p.psn, Psn(0xfff));
  EXPECT_EQ(p.payload_bytes, 0);
}

TEST(Parse, ReadsTheTagOfAScapyWrite) {
  const Parsed p = wire::parse(from_hex(vectors::kWriteFirst));
  EXPECT_EQ(p.kind, FrameKind::roce);
  EXPECT_TRUE(p.has(ParsedFlag::vlan_tagged));
  EXPECT_EQ(p.vlan_tci, 3 << 13 | 10);
  EXPECT_EQ(p.l3_offset, 18);
  EXPECT_EQ(p.l4_offset, 38);
  EXPECT_EQ(p.payload_bytes, 256);
}

TEST(Parse, ReadsIpv6FromScapy) {
  const Parsed p = wire::parse(from_hex(vectors::kIpv6Send));
  EXPECT_EQ(p.kind, FrameKind::roce);
  EXPECT_TRUE(p.has(ParsedFlag::ipv6));
  EXPECT_EQ(p.l3_offset, 14);
  EXPECT_EQ(p.l4_offset, 54);
  EXPECT_EQ(p.tos, 0x62);
  EXPECT_EQ(p.ttl, 63);
  EXPECT_EQ(p.l3_length, 40 + 88);
  EXPECT_EQ(p.payload_bytes, 64);
  EXPECT_EQ(p.dest_qp, Qpn(0x77));
  EXPECT_EQ(p.psn, Psn(0x99));
  const Parsed ack = wire::parse(from_hex(vectors::kIpv6VlanAck));
  EXPECT_EQ(ack.kind, FrameKind::roce);
  EXPECT_EQ(ack.vlan_tci, 7 << 13 | 4094);
  EXPECT_EQ(ack.syndrome, 0x60);
}

TEST(Parse, TellsTheKindsOfOtherFramesFromScapyApart) {
  EXPECT_EQ(wire::parse(from_hex(vectors::kArpRequest)).kind, FrameKind::arp);
  EXPECT_EQ(wire::parse(from_hex(vectors::kIcmpEcho)).kind, FrameKind::icmp);
  EXPECT_EQ(wire::parse(from_hex(vectors::kEcho6)).kind, FrameKind::icmp);
  EXPECT_EQ(wire::parse(from_hex(vectors::kNs)).kind, FrameKind::icmp);
  EXPECT_EQ(wire::parse(from_hex(vectors::kTcpSyn)).kind, FrameKind::tcp);
  EXPECT_EQ(wire::parse(from_hex(vectors::kTcp6)).kind, FrameKind::tcp);
  EXPECT_EQ(wire::parse(from_hex(vectors::kUdp6)).kind, FrameKind::udp);
  EXPECT_EQ(wire::parse(from_hex(vectors::kFragment6)).kind, FrameKind::ipv6_fragment);
  EXPECT_EQ(wire::parse(from_hex(vectors::kIpOptions)).kind, FrameKind::roce);
}

TEST(Parse, EveryKnownOpcodeIsValidWithItsHeadersAndUnknownOnesAreNot) {
  for (unsigned raw = 0; raw < 256; ++raw) {
    const auto opcode = static_cast<std::uint8_t>(raw);
    FrameBuilder b = FrameBuilder().bth(opcode, Qpn(5), Psn(6));
    if (opcode_info(opcode).may_carry_payload() || !opcode_info(opcode).known()) b.payload(32);
    const Parsed p = parse(b);
    EXPECT_EQ(p.kind, opcode_info(opcode).known() ? FrameKind::roce : FrameKind::udp) << raw;
    EXPECT_EQ(p.validity, opcode_info(opcode).known() ? Validity::ok : Validity::roce_opcode) << raw;
  }
}

TEST(Parse, PayloadExcludesPadForEverySizeModuloFour) {
  for (const bool v6 : {false, true}) {
    for (std::size_t n = 0; n < 70; ++n) {
      const Parsed p = parse((v6 ? send6() : send()).payload(n));
      EXPECT_EQ(p.kind, FrameKind::roce);
      EXPECT_EQ(p.payload_bytes, n);
    }
  }
}

TEST(Parse, EmptyPayloadIsLegalForOnlyAndIllegalForFirstMiddleAndLast) {
  for (unsigned raw = 0; raw < 256; ++raw) {
    const auto opcode = static_cast<std::uint8_t>(raw);
    const OpcodeInfo& row = opcode_info(opcode);
    if (!row.known() || !row.may_carry_payload()) continue;
    const Parsed p = parse(FrameBuilder().bth(opcode, Qpn(5), Psn(6)));
    EXPECT_EQ(p.validity, row.part == MessagePart::only ? Validity::ok : Validity::roce_payload) << opcode_name(opcode);
  }
}

TEST(Parse, PayloadOnAnOpcodeWithoutIsInvalid) {
  for (const Opcode o : {Opcode::RC_ACKNOWLEDGE, Opcode::RC_RDMA_READ_REQUEST, Opcode::RC_CMP_SWAP, Opcode::CNP}) {
    EXPECT_EQ(parse(FrameBuilder().bth(o, Qpn(5), Psn(6)).payload(4)).validity, Validity::roce_payload);
  }
}

TEST(Parse, PadBeyondThePayloadOrWithoutPayloadIsInvalid) {
  EXPECT_EQ(parse(send().payload(std::size_t{0}).pad_count(1)).validity, Validity::roce_pad);
  EXPECT_EQ(parse(send().payload(4).pad_count(3)).validity, Validity::ok);
  EXPECT_EQ(parse(send().payload(4).pad_count(3)).payload_bytes, 1);
  EXPECT_EQ(parse(FrameBuilder().bth(Opcode::RC_ACKNOWLEDGE, Qpn(5), Psn(6)).pad_count(1)).validity,
            Validity::roce_pad);
  EXPECT_EQ(parse(FrameBuilder().bth(Opcode::RC_ACKNOWLEDGE, Qpn(5), Psn(6)).payload(3).pad_count(3)).validity,
            Validity::roce_pad);
}

TEST(Parse, TransportVersionAndQp0AreInvalid) {
  EXPECT_EQ(parse(send().transport_version(1)).validity, Validity::roce_transport_version);
  EXPECT_EQ(parse(send().transport_version(8)).validity, Validity::roce_transport_version);
  EXPECT_EQ(parse(send().bth(Opcode::RC_SEND_ONLY, Qpn(0), Psn(6))).validity, Validity::roce_qp0);
  EXPECT_EQ(parse(send6().bth(Opcode::RC_SEND_ONLY, Qpn(0), Psn(6))).validity, Validity::roce_qp0);
}

TEST(Parse, AnInvalidBthLeavesUdpWithPortsAndNoRoceFields) {
  const Parsed p = parse(send().ack_req().solicited().fecn().becn().transport_version(1));
  EXPECT_EQ(p.kind, FrameKind::udp);
  EXPECT_EQ(p.destination_port, 4791);
  EXPECT_EQ(p.opcode, 0);
  EXPECT_EQ(p.dest_qp, Qpn(0));
  EXPECT_EQ(p.psn, Psn(0));
  EXPECT_EQ(p.payload_bytes, 0);
  EXPECT_EQ(p.flags, 0);
}

TEST(Parse, UdpLengthBoundsTheRocePacketEvenInALongerIpPacket) {
  const Parsed p = parse(send().payload(64).udp_length(8 + 12 + 16 + 4));
  EXPECT_EQ(p.kind, FrameKind::roce);
  EXPECT_EQ(p.payload_bytes, 16);
  EXPECT_EQ(parse(send().udp_length(8 + 12 + 3)).validity, Validity::roce_truncated);
  EXPECT_EQ(parse(FrameBuilder().bth(Opcode::RC_ACKNOWLEDGE, Qpn(5), Psn(6)).udp_length(8 + 12 + 4)).validity,
            Validity::roce_truncated);
}

TEST(Parse, UdpLengthBelowEightOrBeyondTheIpPayloadIsInvalid) {
  EXPECT_EQ(parse(FrameBuilder().udp(1, 2).payload(10).udp_length(7)).validity, Validity::udp_length);
  EXPECT_EQ(parse(FrameBuilder().udp(1, 2).payload(10).udp_length(8)).validity, Validity::ok);
  EXPECT_EQ(parse(FrameBuilder().udp(1, 2).payload(10).udp_length(18)).validity, Validity::ok);
  const Parsed p = parse(FrameBuilder().udp(1, 2).payload(10).udp_length(19).trailer(20));
  EXPECT_EQ(p.validity, Validity::udp_length);
  EXPECT_EQ(p.kind, FrameKind::udp);
  EXPECT_EQ(p.source_port, 1);
  EXPECT_EQ(parse(send().udp_length(100).trailer(100)).validity, Validity::udp_length);
}

TEST(Parse, EthernetPaddingBehindTheIpPacketIsLegal) {
  const Parsed p = parse(send().payload(std::size_t{0}).trailer(6));
  EXPECT_EQ(p.kind, FrameKind::roce);
  EXPECT_EQ(p.payload_bytes, 0);
  EXPECT_EQ(p.l3_length, 44);
}

TEST(Parse, ShortFramesAreTruncatedEthernet) {
  for (std::uint32_t n = 0; n < 14; ++n) {
    const auto frame = exact_copy(send().build().data(), n);
    Parsed p;
    parse_frame(frame.get(), n, n, p);
    EXPECT_EQ(p.kind, FrameKind::other);
    EXPECT_EQ(p.validity, Validity::eth_truncated);
    EXPECT_EQ(p.pair_hash(), 0u);
  }
  const auto tagged = FrameBuilder().vlan(5).udp(1).build();
  for (std::uint32_t n = 14; n < 18; ++n) {
    Parsed p;
    parse_frame(tagged.data(), n, n, p);
    EXPECT_EQ(p.validity, Validity::eth_truncated);
    EXPECT_EQ(p.flags, 0);
  }
}

TEST(Parse, AMulticastSourceAddressStopsTheParser) {
  const auto group = MacAddress::from_u64(0x010000000001);
  for (const bool tagged : {false, true}) {
    for (const bool v6 : {false, true}) {
      FrameBuilder b = v6 ? send6() : send();
      if (tagged) b.vlan(3);
      const Parsed p = parse(b.eth(group, MacAddress::from_u64(2)));
      EXPECT_EQ(p.kind, FrameKind::other);
      EXPECT_EQ(p.validity, Validity::eth_source_multicast);
      EXPECT_EQ(p.flags, 0);
    }
  }
}

TEST(Parse, ASecondTagStopsTheParserAndTheOuterOneIsReported) {
  const Parsed p = parse(FrameBuilder().service_vlan(7, 2).vlan(5).udp(1));
  EXPECT_EQ(p.kind, FrameKind::other);
  EXPECT_EQ(p.validity, Validity::vlan_nested);
  EXPECT_EQ(p.vlan_tci, 2 << 13 | 7);
  EXPECT_EQ(parse(FrameBuilder().vlan(7).vlan(5).udp(1)).validity, Validity::vlan_nested);
}

TEST(Parse, AServiceTagAloneIsReadLikeACustomerTag) {
  const Parsed p = parse(send().service_vlan(7));
  EXPECT_EQ(p.kind, FrameKind::roce);
  EXPECT_EQ(p.vlan_tci, 7);
}

TEST(Parse, MacControlIsUntaggedOnly) {
  EXPECT_EQ(parse(FrameBuilder().pause(5)).kind, FrameKind::mac_control);
  EXPECT_EQ(parse(FrameBuilder().pfc(1, {})).kind, FrameKind::mac_control);
  EXPECT_EQ(parse(FrameBuilder().vlan(0, 7).pause(5)).kind, FrameKind::other);
}

TEST(Parse, LlcAndUnknownEthertypesAreOtherAndValid) {
  for (const std::uint16_t type : {std::uint16_t{46}, std::uint16_t{0x5ff}, std::uint16_t{0x88cc}}) {
    const Parsed p = parse(FrameBuilder().ethertype(type).payload(46));
    EXPECT_EQ(p.kind, FrameKind::other);
    EXPECT_EQ(p.validity, Validity::ok);
  }
}

TEST(Parse, IpHeaderRulesAreCheckedInOrder) {
  EXPECT_EQ(parse(send().ip_version(6)).validity, Validity::ip_version);
  EXPECT_EQ(parse(send().ihl(4)).validity, Validity::ip_header_length);
  EXPECT_EQ(parse(send().ip_length(19)).validity, Validity::ip_length);
  EXPECT_EQ(parse(send().ihl(15).ip_length(59)).validity, Validity::ip_header_length);
  EXPECT_EQ(parse(send().ip_length(53)).validity, Validity::ip_length);
  EXPECT_EQ(parse(send6().ip_version(4)).validity, Validity::ip_version);
  EXPECT_EQ(parse(send6().ip_length(33)).validity, Validity::ip_length);
}

TEST(Parse, AnInvalidIpHeaderLeavesItsKindAndOffsetOnly) {
  const Parsed p = parse(send().ip_version(6).tos(3));
  EXPECT_EQ(p.kind, FrameKind::ipv4);
  EXPECT_EQ(p.l3_offset, 14);
  EXPECT_EQ(p.l4_offset, 0);
  EXPECT_EQ(p.tos, 0);
  EXPECT_EQ(p.address_key, 0u);
  EXPECT_EQ(p.pair_hash(), pair_hash_mac(0x020000000001, 0x020000000002));
}

TEST(Parse, AnyFragmentIsAFragmentWithoutPorts) {
  for (const bool v6 : {false, true}) {
    for (const auto& [offset, more] : {std::pair<std::uint16_t, bool>{0, true}, {1, false}, {8191, true}}) {
      FrameBuilder b;
      if (v6) b.ipv6("::1", "::2");
      const Parsed p = parse(b.udp(1, 4791).payload(64).fragment(offset, more));
      EXPECT_EQ(p.kind, v6 ? FrameKind::ipv6_fragment : FrameKind::ipv4_fragment);
      EXPECT_EQ(p.validity, Validity::ok);
      EXPECT_EQ(p.protocol, 17);
      EXPECT_EQ(p.source_port, 0);
      EXPECT_EQ(p.l4_offset, v6 ? 62 : 34);
    }
  }
}

TEST(Parse, ReservedAndDontFragmentBitsDoNotMakeAFragment) {
  auto frame = send().build();
  frame[20] = 0xc0;
  EXPECT_EQ(wire::parse(frame).kind, FrameKind::roce);
}

TEST(Parse, OptionsAndExtensionHeadersMoveTheTransportHeader) {
  const std::vector<std::uint8_t> options(8, 1);
  const Parsed v4 = parse(send().ip_options(options));
  EXPECT_EQ(v4.kind, FrameKind::roce);
  EXPECT_TRUE(v4.has(ParsedFlag::ip_options));
  EXPECT_EQ(v4.l4_offset, 14 + 28);
  const Parsed v6 = parse(send6().extension(IpProtocol::hop_by_hop).extension(IpProtocol::routing, 2));
  EXPECT_EQ(v6.kind, FrameKind::roce);
  EXPECT_TRUE(v6.has(ParsedFlag::ip_options));
  EXPECT_EQ(v6.l4_offset, 14 + 40 + 8 + 24);
  EXPECT_EQ(v6.protocol, 17);
}

TEST(Parse, ExtensionHeadersThatReachTooFarAreTruncated) {
  // 14 + 40 + 200 is 254 and fits the offset's byte; 8 more do not.
  EXPECT_EQ(parse(send6().extension(IpProtocol::hop_by_hop, 24)).kind, FrameKind::roce);
  const Parsed p = parse(send6().extension(IpProtocol::hop_by_hop, 24).extension(IpProtocol::destination_options));
  EXPECT_EQ(p.kind, FrameKind::ipv6);
  EXPECT_EQ(p.validity, Validity::l4_truncated);
  EXPECT_EQ(p.l4_offset, 254);
}

TEST(Parse, ATransportHeaderThatTheIpPayloadCutsIsTruncated) {
  const auto check = [](const FrameBuilder& b, FrameKind kind) {
    const Parsed p = parse(b);
    EXPECT_EQ(p.kind, kind);
    EXPECT_EQ(p.validity, Validity::l4_truncated);
    EXPECT_EQ(p.source_port, 0);
  };
  check(FrameBuilder().udp(1, 2).ip_length(20 + 7), FrameKind::ipv4);
  check(FrameBuilder().tcp(1, 2).ip_length(20 + 19), FrameKind::ipv4);
  check(FrameBuilder().icmp(8, 0).ip_length(20 + 7), FrameKind::ipv4);
  check(FrameBuilder().ipv6("::1", "::2").udp(1, 2).ip_length(7), FrameKind::ipv6);
  check(FrameBuilder().ipv6("::1", "::2").icmp(128, 0).ip_length(7), FrameKind::ipv6);
  check(FrameBuilder().ipv6("::1", "::2").extension(0).udp(1, 2).ip_length(7), FrameKind::ipv6);
}

TEST(Parse, AHeaderBeyondTheContiguousBytesIsTruncatedEvenIfTheFrameGoesOn) {
  const auto frame = send().payload(1024).build();
  const auto length = static_cast<std::uint32_t>(frame.size());
  const auto validity = [&](std::uint32_t contiguous) {
    const auto head = exact_copy(frame.data(), contiguous);
    Parsed p;
    parse_frame(head.get(), contiguous, length, p);
    return p.validity;
  };
  EXPECT_EQ(validity(14 + 19), Validity::ip_truncated);
  EXPECT_EQ(validity(14 + 20 + 7), Validity::l4_truncated);
  EXPECT_EQ(validity(14 + 20 + 8 + 11), Validity::roce_truncated);
  EXPECT_EQ(validity(14 + 20 + 8 + 12), Validity::ok);
}

TEST(Parse, ArpIsCheckedAndKeyedByItsProtocolAddresses) {
  const auto mac = MacAddress::from_u64(0x020000000001);
  const auto a = IpAddress::v4(0x0a000001), b = IpAddress::v4(0x0a000002);
  const FrameBuilder request = FrameBuilder().arp(ArpOperation::request, mac, a, MacAddress{}, b);
  const FrameBuilder reply = FrameBuilder().arp(ArpOperation::reply, mac, b, mac, a);
  const Parsed p = parse(request);
  EXPECT_EQ(p.kind, FrameKind::arp);
  EXPECT_EQ(p.validity, Validity::ok);
  EXPECT_EQ(p.address_key, 0x0a0000010a000002u);
  EXPECT_EQ(p.pair_hash(), parse(reply).pair_hash());
  EXPECT_EQ(p.pair_hash(), parse(send().ip(a, b)).pair_hash());
  auto frame = request.build();
  frame.pop_back();
  EXPECT_EQ(wire::parse(frame).validity, Validity::arp_truncated);
  for (const std::size_t at : {14u, 15u, 16u, 17u, 18u, 19u}) {
    auto bad = request.build();
    bad[at] ^= 0x10;
    EXPECT_EQ(wire::parse(bad).validity, Validity::arp_malformed);
    EXPECT_EQ(wire::parse(bad).kind, FrameKind::arp);
  }
}

TEST(Parse, BothDirectionsOfAConnectionHaveOneHashAndTwoKeys) {
  const Parsed there = parse(send().ipv4("10.0.0.1", "10.0.0.2"));
  const Parsed back = parse(send().ipv4("10.0.0.2", "10.0.0.1"));
  EXPECT_EQ(there.pair_hash(), back.pair_hash());
  EXPECT_NE(there.address_key, back.address_key);
  const Parsed there6 = parse(send().ipv6("2001:db8::1", "2001:db8::2"));
  const Parsed back6 = parse(send().ipv6("2001:db8::2", "2001:db8::1"));
  EXPECT_EQ(there6.pair_hash(), back6.pair_hash());
  EXPECT_NE(there6.address_key, back6.address_key);
  // RoCEv2 is read by the fast path and UDP by the other one: both keep what a card goes by. 0x2001:db8 twice is 0.
  const FrameBuilder udp = FrameBuilder().ipv6("2001:db8::7:1", "2001:db8::2").udp(1, 2).payload(8);
  for (const Parsed& p : {parse(send().ipv6("2001:db8::7:1", "2001:db8::2")), parse(udp)}) {
    EXPECT_EQ(p.pair_hash() % kRssEntries, rss_flow_v4(0x00070003));
  }
}

TEST(Parse, MadInFrameFindsTheDatagramToQp1Only) {
  const std::vector<std::uint8_t> mad(kMadBytes, 7);
  const auto frame = FrameBuilder().vlan(3).mad(mad).build();
  const Parsed p = wire::parse(frame);
  const auto found = mad_in_frame(frame.data(), static_cast<std::uint32_t>(frame.size()), p);
  ASSERT_EQ(found.size(), kMadBytes);
  EXPECT_TRUE(std::equal(found.begin(), found.end(), mad.begin()));
  EXPECT_TRUE(mad_in_frame(frame.data(), 200, p).empty());
  const auto other = FrameBuilder().bth(Opcode::UD_SEND_ONLY, Qpn(2), Psn(0)).payload(mad).build();
  EXPECT_TRUE(mad_in_frame(other.data(), static_cast<std::uint32_t>(other.size()), wire::parse(other)).empty());
}

}  // namespace
}  // namespace weft::wire
