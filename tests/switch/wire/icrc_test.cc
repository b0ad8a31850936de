// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/wire/icrc.h"

#include <gtest/gtest.h>

#include "switch/wire/payload_crc.h"
#include "tests/switch/wire/reference_icrc.h"
#include "tests/switch/wire/samples.h"
#include "tests/switch/wire/vectors.h"

namespace weft::wire {
namespace {

using vectors::from_hex;

/// ICRC of the frame whole and as a piece, which the CRC library sums.
std::uint32_t icrc_both_ways(const std::vector<std::uint8_t>& frame, const RoceLayout& layout) {
  const std::uint32_t whole = icrc_full(frame.data(), layout);
  EXPECT_EQ(IcrcCalculator(frame, layout).value(), whole);
  return whole;
}

TEST(Icrc, AgreesWithEveryPublicAndScapyVector) {
  for (const auto hex :
       {vectors::kConnectX4Cnp, vectors::kUcSendOnly, vectors::kSendOnlyPad, vectors::kAck, vectors::kWriteFirst,
        vectors::kCnp, vectors::kUdpSummed, vectors::kIpOptions, vectors::kIpv6Send, vectors::kIpv6VlanAck}) {
    const auto frame = from_hex(hex);
    const Parsed p = parse(frame);
    ASSERT_EQ(p.kind, FrameKind::roce) << hex;
    EXPECT_TRUE(icrc_ok(frame.data(), p)) << hex;
    EXPECT_EQ(icrc_full(frame.data(), roce_layout(frame.data(), p)), load_icrc(frame.data() + frame.size() - 4)) << hex;
  }
}

TEST(Icrc, AgreesWithTheReferenceOnEverySample) {
  for (const auto& s : roce_samples()) {
    const RoceLayout layout = roce_layout(s.frame.data(), parse(s.frame));
    ASSERT_EQ(icrc_full(s.frame.data(), layout), reference_icrc(s.frame, layout)) << s.name;
  }
}

TEST(Icrc, AgreesWithTheReferenceForEveryPayloadSizeUpTo600AndRandomOnesUpTo9000) {
  TestRandom random;
  for (int i = 0; i < 700; ++i) {
    const std::uint32_t payload = i < 600 ? static_cast<std::uint32_t>(i) : random(9000);
    FrameBuilder b;
    if (i % 2 != 0) b.ipv6("2001:db8::1", "2001:db8::2");
    const auto frame =
        b.bth(Opcode::RC_SEND_ONLY, Qpn(random(1 << 24) | 1), Psn(random.word())).payload(payload).build();
    const RoceLayout layout = roce_layout(frame.data(), parse(frame));
    ASSERT_EQ(icrc_both_ways(frame, layout), reference_icrc(frame, layout)) << payload << " seed " << random.seed();
  }
}

TEST(Icrc, AgreesWithTheReferenceWhenTheCoveredLengthIsNoMultipleOfFour) {
  const auto whole = FrameBuilder().bth(Opcode::RC_SEND_ONLY, Qpn(5), Psn(6)).payload(64).build();
  RoceLayout layout = roce_layout(whole.data(), parse(whole));
  for (int i = 0; i < 16; ++i, --layout.icrc) {
    ASSERT_EQ(icrc_both_ways(whole, layout), reference_icrc(whole, layout)) << layout.icrc;
  }
}

TEST(Icrc, ReadsNothingBehindTheCoveredPartNorInFrontOfTheFrame) {
  for (std::uint32_t payload = 0; payload < 600; ++payload) {
    for (const bool v6 : {false, true}) {
      FrameBuilder b;
      if (v6) b.ipv6("::1", "::2");
      const auto frame = b.bth(Opcode::RC_SEND_ONLY, Qpn(5), Psn(6)).payload(payload).build();
      const RoceLayout whole = roce_layout(frame.data(), parse(frame));
      const std::uint32_t icrc = reference_icrc(frame, whole);
      ASSERT_EQ(icrc_full(exact_copy(frame.data(), whole.icrc).get(), whole), icrc) << payload;
      const RoceLayout bare{0, whole.l4 - whole.l3, whole.icrc - whole.l3, whole.ipv6};  // without Ethernet
      ASSERT_EQ(icrc_full(exact_copy(frame.data() + whole.l3, bare.icrc).get(), bare), icrc) << payload;
    }
  }
}

TEST(Icrc, DoesNotDependOnTheFieldsThatRoutersChange) {
  for (const std::uint32_t payload : {0, 4, 8, 12, 64, 1024, 20'000}) {
    for (const bool v6 : {false, true}) {
      FrameBuilder b;
      if (v6) b.ipv6("::1", "::2");
      auto frame = b.bth(Opcode::RC_SEND_ONLY, Qpn(5), Psn(6)).payload(payload).build();
      const Parsed p = parse(frame);
      auto* ip = frame.data() + p.l3_offset;
      if (v6) {
        header_at<Ipv6Header>(ip).set_traffic_class(0xa5);
        header_at<Ipv6Header>(ip).set_flow_label(0x5a5a5);
        header_at<Ipv6Header>(ip).hop_limit = 3;
      } else {
        header_at<Ipv4Header>(ip).tos = 0xa5;
        header_at<Ipv4Header>(ip).ttl = 3;
        header_at<Ipv4Header>(ip).checksum.set(0x1234);
      }
      header_at<UdpHeader>(frame.data() + p.l4_offset).checksum.set(0x4321);
      header_at<Bth>(frame.data() + p.l4_offset + 8).fecn_becn = 0xc7;
      const RoceLayout layout = roce_layout(frame.data(), p);
      EXPECT_EQ(icrc_both_ways(frame, layout), load_icrc(frame.data() + layout.icrc))
          << payload << (v6 ? " IPv6" : " IPv4");
    }
  }
}

TEST(Icrc, DependsOnEveryOtherBitFromTheIpHeaderOn) {
  for (const std::uint32_t payload : {0, 4, 8, 9, 12, 300, 1024}) {
    for (const bool v6 : {false, true}) {
      FrameBuilder b;
      if (v6) b.ipv6("::1", "::2");
      auto frame = b.vlan(7).bth(Opcode::RC_SEND_ONLY, Qpn(5), Psn(6)).payload(payload).build();
      const Parsed p = parse(frame);
      const RoceLayout layout = roce_layout(frame.data(), p);
      std::uint32_t ignored = 0;
      for (std::uint32_t bit = 0; bit < layout.icrc * 8; ++bit) {
        frame[bit / 8] = static_cast<std::uint8_t>(frame[bit / 8] ^ 1 << bit % 8);
        const bool unchanged = icrc_both_ways(frame, layout) == load_icrc(frame.data() + layout.icrc);
        frame[bit / 8] = static_cast<std::uint8_t>(frame[bit / 8] ^ 1 << bit % 8);
        if (bit / 8 < layout.l3) {
          ASSERT_TRUE(unchanged) << "the Ethernet header and the tag are not covered: bit " << bit;
        } else if (unchanged) {
          ++ignored;
        }
      }
      // IPv4: TOS, TTL, checksum. IPv6: traffic class, flow label, hop limit. Both: UDP checksum and resv8a.
      EXPECT_EQ(ignored, v6 ? 8u + 20 + 8 + 16 + 8 : 8u + 8 + 16 + 16 + 8) << payload;
    }
  }
}

TEST(Icrc, APayloadsCrcIsCombinedWithAnyHeaders) {
  TestRandom random;
  for (std::uint32_t payload = 4; payload <= 4400; payload += payload < 700 ? 4 : 36) {
    std::vector<std::uint8_t> bytes(payload);
    for (auto& b : bytes) b = static_cast<std::uint8_t>(random.word());
    const auto exact = exact_copy(bytes.data(), payload);
    for (const bool v6 : {false, true}) {
      for (const Opcode opcode : {Opcode::RC_SEND_ONLY, Opcode::RC_RDMA_WRITE_ONLY_IMM}) {
        FrameBuilder b;
        if (v6) b.ipv6("2001:db8::1", "2001:db8::2");
        const auto frame = b.bth(opcode, Qpn(random(1 << 24) | 1), Psn(random.word())).payload(bytes).build();
        const RoceLayout layout = roce_layout(frame.data(), parse(frame));
        const auto head = exact_copy(frame.data(), layout.icrc - payload);
        ASSERT_EQ(icrc_of_head(head.get(), layout, payload) ^ payload_crc({exact.get(), payload}),
                  load_icrc(frame.data() + layout.icrc))
            << payload << " seed " << random.seed();
      }
    }
  }
}

TEST(Icrc, APacketInPiecesHasTheSameIcrcAsInOne) {
  TestRandom random;
  for (const auto& s : roce_samples()) {
    const Parsed p = parse(s.frame);
    const RoceLayout layout = roce_layout(s.frame.data(), p);
    const std::uint32_t least = layout.l4 + 8 + 12;
    const auto bytes = static_cast<std::uint32_t>(s.frame.size());
    for (int round = 0; round < 20; ++round) {
      std::uint32_t at = least + random(bytes - least + 1);
      const auto head = exact_copy(s.frame.data(), at);
      IcrcCalculator calculator({head.get(), at}, layout);
      while (at < bytes) {
        const std::uint32_t n = 1 + random(bytes - at);
        const auto piece = exact_copy(s.frame.data() + at, n);
        calculator.add({piece.get(), n});
        at += n;
      }
      ASSERT_EQ(calculator.remaining(), 0u);
      ASSERT_EQ(calculator.value(), load_icrc(s.frame.data() + layout.icrc)) << s.name << " seed " << random.seed();
    }
  }
}

TEST(Icrc, IsStoredWithItsLeastSignificantByteFirst) {
  std::uint8_t bytes[4];
  store_icrc(bytes, 0x04030201);
  EXPECT_EQ(std::memcmp(bytes, "\1\2\3\4", 4), 0);
  EXPECT_EQ(load_icrc(bytes), 0x04030201u);
}

}  // namespace
}  // namespace weft::wire
