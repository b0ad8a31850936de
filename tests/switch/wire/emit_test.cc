// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/wire/emit.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "tests/switch/wire/samples.h"

namespace weft::wire {
namespace {

/// The same frame by the builder, which has its own tests against scapy.
FrameBuilder by_builder(bool v6, bool tagged) {
  const RoceAddressing to = roce_addressing(v6, tagged);
  FrameBuilder b;
  b.eth(to.source_mac, to.destination_mac).ip(to.source, to.destination).tos(to.tos).ttl(to.ttl);
  b.flow_label(to.flow_label).udp(to.source_port);
  if (tagged) b.vlan(100, 3, true);
  return b;
}

TEST(Emit, CnpEqualsTheBuildersForEveryAddressing) {
  for (const bool v6 : {false, true}) {
    for (const bool tagged : {false, true}) {
      std::vector<std::uint8_t> out(kMaxEmittedBytes, 0xaa);
      out.resize(write_cnp(out, roce_addressing(v6, tagged), Qpn(0x1234)));
      EXPECT_EQ(out, by_builder(v6, tagged).cnp(Qpn(0x1234)).build());
    }
  }
}

TEST(Emit, CnpEqualsTheBuildersWhateverItsFieldsHold) {
  std::mt19937_64 random(1);
  constexpr std::uint64_t kOnes = ~std::uint64_t{0};
  std::vector<std::uint8_t> out(kMaxEmittedBytes);
  for (int i = 0; i < 3000; ++i) {
    const auto any = [&] {
      return i == 0 ? 0 : i == 1 ? kOnes : random() & (i % 3 == 0 ? random() & random() : kOnes);
    };
    RoceAddressing to;
    to.source_mac = MacAddress::from_u64(any() & 0xfeffffffffff);
    to.destination_mac = MacAddress::from_u64(any() & 0xffffffffffff);
    to.source = IpAddress::v4(static_cast<std::uint32_t>(any()));
    to.destination = IpAddress::v4(static_cast<std::uint32_t>(any()));
    to.tos = static_cast<std::uint8_t>(any());
    to.ttl = static_cast<std::uint8_t>(any());
    to.source_port = static_cast<std::uint16_t>(any());
    const Qpn qp(static_cast<std::uint32_t>(any()));
    out.assign(kMaxEmittedBytes, 0xaa);
    out.resize(write_cnp(out, to, qp));
    FrameBuilder b;
    b.eth(to.source_mac, to.destination_mac).ip(to.source, to.destination).tos(to.tos).ttl(to.ttl).udp(to.source_port);
    ASSERT_EQ(out, b.cnp(qp).build()) << i;
  }
}

TEST(Emit, AckAndNakEqualTheBuildersForEveryAddressing) {
  for (const bool v6 : {false, true}) {
    for (const bool tagged : {false, true}) {
      for (const Syndrome s : {Syndrome::ack(5), Syndrome::rnr_nak(12), Syndrome::nak(NakCode::psn_sequence_error)}) {
        std::vector<std::uint8_t> out(kMaxEmittedBytes, 0xaa);
        out.resize(write_ack(out, roce_addressing(v6, tagged), Qpn(0x1234), Psn(0xfffffe), s, 0xabcdef));
        EXPECT_EQ(
            out,
            by_builder(v6, tagged).bth(Opcode::RC_ACKNOWLEDGE, Qpn(0x1234), Psn(0xfffffe)).aeth(s, 0xabcdef).build());
      }
    }
  }
}

TEST(Emit, WritesNothingIntoABufferThatIsTooSmallAndFillsOneThatFits) {
  const RoceAddressing to = roce_addressing(true, true);
  const std::size_t need = emitted_bytes(to, Opcode::CNP);
  for (std::size_t n = 0; n < need; ++n) {
    std::vector<std::uint8_t> out(n, 0xaa);
    EXPECT_EQ(write_cnp(out, to, Qpn(1)), 0u);
    EXPECT_EQ(std::count(out.begin(), out.end(), 0xaa), static_cast<std::ptrdiff_t>(n));
  }
  const auto exact = std::make_unique<std::uint8_t[]>(need);
  EXPECT_EQ(write_cnp({exact.get(), need}, to, Qpn(1)), need);
  EXPECT_LE(need, kMaxEmittedBytes);
  std::vector<std::uint8_t> short_pause(59);
  EXPECT_EQ(write_pause(short_pause, {}, 1), 0u);
  EXPECT_EQ(write_pfc(short_pause, {}, 1, {}), 0u);
}

TEST(Emit, ReplyGoesBackToTheSenderOfAnySample) {
  for (const auto& s : roce_samples()) {
    const Parsed p = parse(s.frame);
    std::vector<std::uint8_t> out(kMaxEmittedBytes);
    out.resize(write_cnp(out, reply_addressing(s.frame.data(), p), Qpn(7)));
    const Parsed q = parse(out);
    ASSERT_EQ(q.kind, FrameKind::roce) << s.name;
    EXPECT_EQ(q.pair_hash(), p.pair_hash());
    EXPECT_EQ(q.tos, p.tos);
    EXPECT_EQ(q.source_port, p.source_port);
    EXPECT_EQ(q.vlan_tci, p.vlan_tci);
    EXPECT_EQ(q.has(ParsedFlag::vlan_tagged), p.has(ParsedFlag::vlan_tagged));
    EXPECT_TRUE(std::equal(out.begin(), out.begin() + 6, s.frame.begin() + 6));
    EXPECT_TRUE(std::equal(out.begin() + 6, out.begin() + 12, s.frame.begin()));
    if (!p.has(ParsedFlag::ipv6)) {
      EXPECT_EQ(q.address_key, p.address_key << 32 | p.address_key >> 32);
    }
  }
}

TEST(Emit, ReplyKeepsAServiceTag) {
  const auto frame = FrameBuilder().service_vlan(9).bth(Opcode::RC_SEND_ONLY, Qpn(5), Psn(6)).build();
  std::vector<std::uint8_t> out(kMaxEmittedBytes);
  write_cnp(out, reply_addressing(frame.data(), parse(frame)), Qpn(7));
  EXPECT_EQ(header_at<EthernetHeader>(out.data()).ethertype.value(), EtherType::service_vlan);
}

TEST(Emit, ArpEqualsTheBuilders) {
  const auto router = MacAddress::from_u64(0x020000000100), host = MacAddress::from_u64(0x02aa00000001);
  const auto all = MacAddress::from_u64(0xffffffffffff);
  const auto ours = IpAddress::v4(0x0a000101), theirs = IpAddress::v4(0x0a000102);
  std::vector<std::uint8_t> out(kMinFrameBytes, 0xee);
  EXPECT_EQ(write_arp(out, router, all, ArpOperation::request, ours, {}, theirs), kMinFrameBytes);
  EXPECT_EQ(out, FrameBuilder().eth(router, all).arp(1, router, ours, {}, theirs).pad_to_minimum().build());
  EXPECT_EQ(write_arp(out, router, host, ArpOperation::reply, ours, host, theirs), kMinFrameBytes);
  EXPECT_EQ(out, FrameBuilder().eth(router, host).arp(2, router, ours, host, theirs).pad_to_minimum().build());
  EXPECT_EQ(write_arp(std::span(out).first(59), router, host, 2, ours, host, theirs), 0u);
}

TEST(Emit, PauseAndPfcEqualTheBuilders) {
  const auto source = MacAddress::from_u64(0x020000000001);
  std::vector<std::uint8_t> out(kMinFrameBytes, 0xaa);
  EXPECT_EQ(write_pause(out, source, 0x1234), kMinFrameBytes);
  EXPECT_EQ(out, FrameBuilder().pause(0x1234).build());
  const std::array<std::uint16_t, 8> quanta{1, 2, 3, 4, 5, 6, 7, 8};
  EXPECT_EQ(write_pfc(out, source, 0x81, quanta), kMinFrameBytes);
  EXPECT_EQ(out, FrameBuilder().pfc(0x81, quanta).build());
}

}  // namespace
}  // namespace weft::wire
