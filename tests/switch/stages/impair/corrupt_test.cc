// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/stages/impair/corrupt.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "switch/wire/icrc.h"
#include "tests/switch/stages/impair/packets.h"

namespace weft::stages {
namespace {

using wire::FrameBuilder;
using wire::Opcode;

std::map<const char*, FrameBuilder> roce_frames() {
  const std::uint8_t options[8] = {1, 1, 1, 1, 1, 1, 1, 1};
  return {
      {"IPv4", write_middle(17, 5)},
      {"IPv4 with odd payload", write_middle(17, 5, 61)},
      {"IPv4 behind a tag", write_middle(17, 5).vlan(10)},
      {"IPv4 with options", write_middle(17, 5).ip_options(options)},
      {"IPv6", write_middle(17, 5).ipv6("2001:db8::1", "2001:db8::2").flow_label(0x12345).tos(3)},
      {"ACK", acknowledge(17, 5, wire::Syndrome::ack())},
      {"with Ethernet padding", acknowledge(17, 5, wire::Syndrome::ack()).trailer(20)},
      {"WRITE with RETH", FrameBuilder().bth(Opcode::RC_RDMA_WRITE_ONLY, wire::Qpn(17), wire::Psn(5)).payload(32)},
  };
}

constexpr CorruptWhere kEverywhere[] = {CorruptWhere::any, CorruptWhere::header, CorruptWhere::payload,
                                        CorruptWhere::icrc};

// Compared with the ICRC that the sender computed, over the layout that the sender gave the frame: a receiver may read
// a corrupted header otherwise, and must not read it as right.
TEST(PickCorruptBit, EveryChoiceMakesTheIcrcWrong) {
  for (const auto& [name, builder] : roce_frames()) {
    const TestPacket good(builder);
    const wire::RoceLayout layout = wire::roce_layout(good.bytes.data(), good.parsed);
    ASSERT_TRUE(wire::icrc_ok(good.bytes.data(), good.parsed)) << name;
    for (const CorruptWhere where : kEverywhere) {
      Rng rng(7);
      for (int i = 0; i < 2000; ++i) {
        const auto bit = pick_corrupt_bit(where, good.fields(), rng);
        if (!bit) continue;
        TestPacket bad = good;
        bad.flip(*bit);
        const std::uint8_t* frame = bad.bytes.data();
        ASSERT_NE(wire::icrc_full(frame, layout), wire::load_icrc(frame + layout.icrc))
            << name << " where " << static_cast<int>(where) << " byte " << *bit / 8 << " bit " << *bit % 8;
        const bool accepted = bad.parsed.kind == wire::FrameKind::roce && wire::icrc_ok(frame, bad.parsed);
        ASSERT_FALSE(accepted) << name << " byte " << *bit / 8 << " bit " << *bit % 8;
      }
    }
  }
}

TEST(PickCorruptBit, ReachesEveryBitOfItsRegionAndNoOther) {
  // Ethernet 14, IPv4 20, UDP 8, BTH 12, payload 8, ICRC 4.
  const TestPacket packet(write_middle(17, 5, 8));
  ASSERT_EQ(packet.bytes.size(), 66u);
  const std::set<std::uint32_t> spared{15, 22, 24, 25, 40, 41, 46};  // TOS, TTL, checksums, BECN
  const auto expected = [&](std::uint32_t first, std::uint32_t end) {
    std::set<std::uint32_t> bits;
    for (std::uint32_t bit = first * 8; bit < end * 8; ++bit) {
      if (!spared.contains(bit / 8)) bits.insert(bit);
    }
    return bits;
  };
  const std::map<CorruptWhere, std::set<std::uint32_t>> regions{{CorruptWhere::any, expected(14, 66)},
                                                                {CorruptWhere::header, expected(14, 54)},
                                                                {CorruptWhere::payload, expected(54, 62)},
                                                                {CorruptWhere::icrc, expected(62, 66)}};
  for (const auto& [where, bits] : regions) {
    Rng rng(3);
    std::set<std::uint32_t> seen;
    for (int i = 0; i < 20'000; ++i) seen.insert(pick_corrupt_bit(where, packet.fields(), rng).value());
    EXPECT_EQ(seen, bits) << static_cast<int>(where);
  }
}

TEST(PickCorruptBit, APacketWithoutPayloadHasNoBitInIt) {
  const TestPacket ack(acknowledge(17, 5, wire::Syndrome::ack()));
  Rng rng(1);
  Rng untouched(1);
  EXPECT_EQ(pick_corrupt_bit(CorruptWhere::payload, ack.fields(), rng), std::nullopt);
  EXPECT_EQ(rng.next(), untouched.next()) << "a number was drawn for nothing";
}

TEST(PickCorruptBit, WithoutRoceStaysBehindTheEthernetHeader) {
  const TestPacket tcp(FrameBuilder().tcp(1, 2).payload(20));
  const TestPacket unknown(FrameBuilder().ethertype(0x88cc).payload(40));
  const TestPacket tiny(FrameBuilder::Bytes{1, 2, 3});
  Rng rng(5);
  for (int i = 0; i < 3000; ++i) {
    const std::uint32_t any = pick_corrupt_bit(CorruptWhere::any, tcp.fields(), rng).value() / 8;
    const std::uint32_t header = pick_corrupt_bit(CorruptWhere::header, tcp.fields(), rng).value() / 8;
    const std::uint32_t payload = pick_corrupt_bit(CorruptWhere::payload, tcp.fields(), rng).value() / 8;
    const std::uint32_t other = pick_corrupt_bit(CorruptWhere::any, unknown.fields(), rng).value() / 8;
    ASSERT_TRUE(any >= 14 && any < tcp.bytes.size());
    ASSERT_TRUE(header >= 14 && header < 34);
    ASSERT_TRUE(payload >= 34 && payload < tcp.bytes.size());
    ASSERT_TRUE(other >= 14 && other < unknown.bytes.size());
    ASSERT_EQ(pick_corrupt_bit(CorruptWhere::icrc, tcp.fields(), rng), std::nullopt);
    ASSERT_EQ(pick_corrupt_bit(CorruptWhere::any, tiny.fields(), rng), std::nullopt);
  }
}

}  // namespace
}  // namespace weft::stages
