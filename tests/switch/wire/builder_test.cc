// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/wire/builder.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "switch/wire/checksum.h"
#include "switch/wire/icrc.h"
#include "tests/switch/wire/samples.h"
#include "tests/switch/wire/vectors.h"

namespace weft::wire {
namespace {

using vectors::from_hex;

std::vector<std::uint8_t> bytes_up_to(std::size_t n) {
  std::vector<std::uint8_t> v(n);
  for (std::size_t i = 0; i < n; ++i) v[i] = static_cast<std::uint8_t>(i);
  return v;
}

TEST(FrameBuilder, BuildsTheBytesOfScapyForRoceOverIpv4) {
  EXPECT_EQ(FrameBuilder()
                .ipv4("10.0.0.1", "10.0.0.2")
                .tos(0x62)
                .ttl(61)
                .udp(50000)
                .bth(Opcode::RC_SEND_ONLY, Qpn(0x123456), Psn(0xfedcba))
                .ack_req()
                .solicited()
                .payload(bytes_up_to(13))
                .build(),
            from_hex(vectors::kSendOnlyPad));
  EXPECT_EQ(FrameBuilder()
                .ipv4("192.168.7.9", "192.168.7.8")
                .udp(61234)
                .bth(Opcode::RC_ACKNOWLEDGE, Qpn(0xabcdef), Psn(0xfff))
                .aeth(Syndrome::ack(), 0x010203)
                .build(),
            from_hex(vectors::kAck));
  EXPECT_EQ(FrameBuilder()
                .vlan(10, 3)
                .tos(0x68)
                .bth(Opcode::RC_RDMA_WRITE_FIRST, Qpn(17), Psn(5))
                .reth(0x0000000100000002, 3, 4096)
                .payload(256)
                .build(),
            from_hex(vectors::kWriteFirst));
}

TEST(FrameBuilder, BuildsTheBytesOfScapyForCnpChecksumAndOptions) {
  EXPECT_EQ(FrameBuilder().tos(0xc2).cnp(Qpn(0x2a)).build(), from_hex(vectors::kCnp));
  EXPECT_EQ(
      FrameBuilder().bth(Opcode::RC_SEND_ONLY, Qpn(17), Psn(5)).with_udp_checksum().payload(bytes_up_to(32)).build(),
      from_hex(vectors::kUdpSummed));
  EXPECT_EQ(FrameBuilder()
                .ip_options(std::vector<std::uint8_t>{0x94, 4, 0, 0})
                .bth(Opcode::UC_SEND_ONLY, Qpn(17), Psn(5))
                .payload(bytes_up_to(8))
                .build(),
            from_hex(vectors::kIpOptions));
}

TEST(FrameBuilder, BuildsTheBytesOfScapyForRoceOverIpv6) {
  EXPECT_EQ(FrameBuilder()
                .ipv6("2001:db8::1", "2001:db8::2")
                .tos(0x62)
                .flow_label(0x12345)
                .ttl(63)
                .udp(50001)
                .bth(Opcode::RC_SEND_MIDDLE, Qpn(0x77), Psn(0x99))
                .payload(bytes_up_to(64))
                .build(),
            from_hex(vectors::kIpv6Send));
  EXPECT_EQ(FrameBuilder()
                .vlan(4094, 7)
                .ipv6("fe80::1", "fe80::2")
                .ttl(1)
                .udp(50001)
                .bth(Opcode::RC_ACKNOWLEDGE, Qpn(0x77), Psn(0x99))
                .aeth(Syndrome::nak(NakCode::psn_sequence_error), 0x010203)
                .build(),
            from_hex(vectors::kIpv6VlanAck));
}

TEST(FrameBuilder, BuildsTheBytesOfScapyForOtherProtocols) {
  const auto s = MacAddress::from_u64(0x020000000001);
  const auto a = IpAddress::v4(0x0a000001), b = IpAddress::v4(0x0a000002);
  EXPECT_EQ(FrameBuilder()
                .eth(s, MacAddress::from_u64(0xffffffffffff))
                .arp(ArpOperation::request, s, a, MacAddress{}, b)
                .build(),
            from_hex(vectors::kArpRequest));
  EXPECT_EQ(FrameBuilder()
                .identification(7)
                .dont_fragment(false)
                .icmp(IcmpType::echo_request, 0, 0x12340003)
                .payload(bytes_up_to(11))
                .build(),
            from_hex(vectors::kIcmpEcho));
  EXPECT_EQ(FrameBuilder().tcp(40000, 22, TcpHeader::kSyn, 0x01020304).build(), from_hex(vectors::kTcpSyn));
  const auto v6 = [] { return FrameBuilder().ipv6("2001:db8::1", "2001:db8::2"); };
  EXPECT_EQ(v6().tcp(40000, 22, TcpHeader::kAck, 9).payload(bytes_up_to(5)).build(), from_hex(vectors::kTcp6));
  EXPECT_EQ(v6().udp(53, 5353).payload(bytes_up_to(7)).build(), from_hex(vectors::kUdp6));
  EXPECT_EQ(v6().icmp(Icmpv6Type::echo_request, 0, 0x12340003).payload(bytes_up_to(9)).build(),
            from_hex(vectors::kEcho6));
  EXPECT_EQ(v6().protocol(17).identification(77).fragment(3, true).payload(bytes_up_to(16)).build(),
            from_hex(vectors::kFragment6));
}

TEST(FrameBuilder, ANeighbourSolicitationHasTheBytesOfScapy) {
  const auto source = MacAddress::from_u64(0x020000000001);
  std::vector<std::uint8_t> rest(16 + sizeof(NdLinkLayerOption));
  const auto target = IpAddress::parse("fe80::2")->bytes();
  std::copy(target.begin(), target.end(), rest.begin());
  header_at<NdLinkLayerOption>(rest.data() + 16) = {NdLinkLayerOption::kSource, 1, source};
  EXPECT_EQ(FrameBuilder()
                .eth(source, MacAddress::from_u64(0x3333ff000002))
                .ipv6("fe80::1", "ff02::1:ff00:2")
                .ttl(255)
                .icmp(Icmpv6Type::neighbour_solicitation, 0)
                .payload(rest)
                .build(),
            from_hex(vectors::kNs));
}

TEST(FrameBuilder, PauseAndPfcFramesHaveTheirStandardForm) {
  const auto pause = FrameBuilder().pause(0x1234).build();
  EXPECT_EQ(pause.size(), 60u);
  EXPECT_EQ(std::vector<std::uint8_t>(pause.begin(), pause.begin() + 18),
            from_hex("0180c2000001020000000001880800011234"));
  const auto pfc = FrameBuilder().pfc(0x09, {1, 0, 0, 0xffff, 0, 0, 0, 0}).build();
  EXPECT_EQ(pfc.size(), 60u);
  EXPECT_EQ(std::vector<std::uint8_t>(pfc.begin(), pfc.begin() + 34),
            from_hex("0180c20000010200000000018808010100090001"
                     "00000000ffff00000000"
                     "00000000"));
  EXPECT_EQ(std::count(pfc.begin() + 34, pfc.end(), 0), 26);
}

TEST(FrameBuilder, PadToMinimumFillsShortFramesOnly) {
  EXPECT_EQ(FrameBuilder().udp(1, 2).pad_to_minimum().build().size(), 60u);
  EXPECT_EQ(FrameBuilder().udp(1, 2).payload(100).pad_to_minimum().build().size(), 142u);
}

TEST(FrameBuilder, FieldsByHandAreKept) {
  const auto frame = FrameBuilder()
                         .bth(Opcode::RC_SEND_ONLY, Qpn(5), Psn(6))
                         .payload(8)
                         .icrc(0xdeadbeef)
                         .ip_checksum(0x1111)
                         .udp_checksum(0x2222)
                         .udp_length(0x3333)
                         .ip_length(0x4444)
                         .build();
  EXPECT_EQ(load_icrc(frame.data() + frame.size() - 4), 0xdeadbeefu);
  EXPECT_EQ(header_at<Ipv4Header>(frame.data() + 14).checksum.value(), 0x1111);
  EXPECT_EQ(header_at<Ipv4Header>(frame.data() + 14).total_length.value(), 0x4444);
  EXPECT_EQ(header_at<UdpHeader>(frame.data() + 34).checksum.value(), 0x2222);
  EXPECT_EQ(header_at<UdpHeader>(frame.data() + 34).length.value(), 0x3333);
}

TEST(FrameBuilder, PlainPayloadNeedsNoLayers) {
  EXPECT_EQ(FrameBuilder().payload(3).build().size(), 17u);
}

}  // namespace
}  // namespace weft::wire
