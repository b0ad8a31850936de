// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/stages/lb/tag.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "switch/base/rng.h"
#include "switch/wire/builder.h"
#include "switch/wire/checksum.h"
#include "switch/wire/icrc.h"
#include "switch/wire/parse.h"

namespace weft::stages {
namespace {

using wire::FrameBuilder;
using Bytes = std::vector<std::uint8_t>;

wire::Parsed parsed_of(const Bytes& frame) {
  wire::Parsed parsed;
  wire::parse_frame(frame.data(), static_cast<std::uint32_t>(frame.size()), static_cast<std::uint32_t>(frame.size()),
                    parsed);
  return parsed;
}
TagValidity validity(const Bytes& frame) {
  return tag_validity(frame.data(), static_cast<std::uint32_t>(frame.size()), parsed_of(frame));
}
Bytes tagged(const Bytes& frame, const LbTag& tag) {
  Bytes out(kTagBytes + frame.size(), 0xcc);
  std::copy(frame.begin(), frame.end(), out.begin() + kTagBytes);
  put_tag_on(out.data(), parsed_of(frame), tag);
  return out;
}
Bytes untagged(Bytes frame) {
  take_tag_off(frame.data(), parsed_of(frame));
  return {frame.begin() + kTagBytes, frame.end()};
}
wire::Parsed noted(wire::Parsed parsed) {
  note_tag_on(parsed);
  return parsed;
}
bool same(const wire::Parsed& a, const wire::Parsed& b) {
  return std::memcmp(&a, &b, sizeof a) == 0;
}
Bytes data(bool ipv6 = false, std::size_t payload = 256) {
  FrameBuilder frame;
  frame.ipv4("10.0.1.2", "10.0.3.2");
  if (ipv6) frame.ipv6("fd00::1", "fd00::2");
  return frame.udp(50000).bth(wire::Opcode::RC_SEND_MIDDLE, wire::Qpn(34), wire::Psn(7)).payload(payload).build();
}

constexpr LbTag kTag{
    .leaf = 0x1234, .path = 5, .congestion = 3, .has_feedback = true, .feedback_path = 9, .feedback = 6};

TEST(LbTag, LiesBehindTheUdpHeaderAndSaysWhatItIsGiven) {
  const Bytes with = tagged(data(), kTag);
  ASSERT_EQ(validity(with), TagValidity::ok);
  EXPECT_EQ(read_tag(with.data(), parsed_of(with)), kTag);
  const Bytes shim(with.begin() + 42, with.begin() + 58);
  EXPECT_EQ(shim, (Bytes{0x10, 1, 0x12, 0xb7, 0, 0, 0x12, 0x34, 5, 3, 9, 6, 0, 0, 0, 0}));
  const wire::Parsed parsed = parsed_of(with);
  EXPECT_EQ(parsed.kind, wire::FrameKind::udp);
  EXPECT_EQ(parsed.destination_port, 4793);
  EXPECT_EQ(parsed.source_port, 50000) << "what switches hash";
  EXPECT_EQ(parsed.l3_length, parsed_of(data()).l3_length + 16);
  EXPECT_TRUE(wire::ipv4_checksum_ok(wire::header_at<wire::Ipv4Header>(with.data() + 14)));
}

TEST(LbTag, WithoutFeedbackThereIsNone) {
  const Bytes with = tagged(data(), {.leaf = 2, .path = 1});
  EXPECT_EQ(read_tag(with.data(), parsed_of(with)), (LbTag{.leaf = 2, .path = 1}));
}

TEST(LbTag, CongestionOnlyGrows) {
  Bytes with = tagged(data(), kTag);
  raise_congestion(with.data(), parsed_of(with), 2);
  EXPECT_EQ(read_tag(with.data(), parsed_of(with)).congestion, 3);
  raise_congestion(with.data(), parsed_of(with), 7);
  EXPECT_EQ(read_tag(with.data(), parsed_of(with)).congestion, 7);
}

TEST(LbTag, WhatIsNoTagIsToldApart) {
  EXPECT_EQ(validity(data()), TagValidity::none);
  const auto plain = [](std::size_t payload) {
    return FrameBuilder().ipv4("10.0.1.2", "10.0.3.2").udp(50000, kTagUdpPort).payload(payload).build();
  };
  EXPECT_EQ(validity(plain(15)), TagValidity::malformed);
  EXPECT_EQ(validity(plain(16)), TagValidity::unknown) << "version 0";
  Bytes with = tagged(data(), kTag);
  for (const std::uint8_t other : {0x00, 0x20, 0x14, 0xf0}) {
    with[42] = other;
    EXPECT_EQ(validity(with), TagValidity::unknown) << unsigned{other};
  }
  const Bytes whole = tagged(data(), kTag);
  const wire::Parsed parsed = parsed_of(whole);
  EXPECT_EQ(tag_validity(whole.data(), 57, parsed), TagValidity::malformed) << "in another segment";
  EXPECT_EQ(tag_validity(whole.data(), 58, parsed), TagValidity::ok);
}

TEST(LbTag, TheRecordOfARocePacketBecomesThatOfOneWithATag) {
  for (const bool ipv6 : {false, true}) {
    const Bytes plain = data(ipv6);
    const Bytes with = tagged(plain, kTag);
    ASSERT_EQ(parsed_of(plain).kind, wire::FrameKind::roce);
    EXPECT_TRUE(same(noted(parsed_of(plain)), parsed_of(with))) << ipv6;
  }
}

// Whatever the packet: VLAN tags, IPv6, checksums, padding, invalid RoCE.
TEST(LbTagProperty, OnAndOffGivesBackEveryByte) {
  Rng random(18);
  for (int round = 0; round < 20'000; ++round) {
    const auto below = [&](std::uint64_t n) { return random.next() % n; };
    const bool ipv6 = below(2) == 0;
    FrameBuilder frame;
    if (below(3) == 0) frame.vlan(static_cast<std::uint16_t>(below(4095)));
    if (ipv6) {
      frame.ipv6("fd00::1", "fd00:0:3::2");
    } else {
      frame.ipv4("10.0.1.2", "10.0.3.2").ttl(static_cast<std::uint8_t>(below(256)));
    }
    const auto source_port = static_cast<std::uint16_t>(below(65536));
    frame.udp(source_port, below(2) == 0 ? std::uint16_t{4791} : static_cast<std::uint16_t>(below(65536)));
    frame.payload(below(1500));
    Bytes bytes = frame.build();
    for (std::size_t at = parsed_of(bytes).l4_offset + 8u; at < bytes.size(); ++at) {
      bytes[at] = static_cast<std::uint8_t>(random.next());
    }
    const std::size_t checksum = parsed_of(bytes).l4_offset + 6u;
    bytes[checksum] = static_cast<std::uint8_t>(random.next());
    bytes[checksum + 1] = static_cast<std::uint8_t>(random.next());
    if (!may_have_tag(parsed_of(bytes))) continue;
    const LbTag tag{.leaf = static_cast<std::uint16_t>(random.next()),
                    .path = static_cast<std::uint8_t>(random.next()),
                    .congestion = static_cast<std::uint8_t>(random.next())};
    const Bytes with = tagged(bytes, tag);
    ASSERT_EQ(validity(with), TagValidity::ok) << round;
    const auto& ip = wire::header_at<wire::Ipv4Header>(with.data() + parsed_of(with).l3_offset);
    ASSERT_TRUE(ipv6 || wire::ipv4_checksum_ok(ip)) << round;
    ASSERT_TRUE(same(noted(parsed_of(bytes)), parsed_of(with))) << round << ": as if the parser had read it";
    ASSERT_EQ(read_tag(with.data(), parsed_of(with)), tag) << round;
    ASSERT_EQ(untagged(with), bytes) << round;
  }
}

TEST(LbTagProperty, TheIcrcIsRightWhenTheTagIsOff) {
  for (const bool ipv6 : {false, true}) {
    const Bytes before = data(ipv6);
    ASSERT_TRUE(wire::icrc_ok(before.data(), parsed_of(before)));
    const Bytes after = untagged(tagged(before, kTag));
    EXPECT_TRUE(wire::icrc_ok(after.data(), parsed_of(after)));
  }
}

TEST(LbTagProperty, WhatSwitchesChangeOnTheWayStaysChanged) {
  Bytes with = tagged(data(), kTag);
  auto& ip = wire::header_at<wire::Ipv4Header>(with.data() + 14);
  wire::decrement_ttl(ip);
  wire::rewrite_tos(ip, ip.tos | 3);
  const Bytes after = untagged(with);
  const auto& at_host = wire::header_at<wire::Ipv4Header>(after.data() + 14);
  EXPECT_EQ(at_host.ttl, wire::header_at<wire::Ipv4Header>(data().data() + 14).ttl - 1);
  EXPECT_EQ(at_host.tos & 3, 3);
  EXPECT_TRUE(wire::ipv4_checksum_ok(at_host));
  EXPECT_TRUE(wire::icrc_ok(after.data(), parsed_of(after))) << "it does not cover these";
}

TEST(LbTag, OptionsFragmentsAndWrongLengthsHaveNone) {
  wire::Parsed parsed = parsed_of(data());
  EXPECT_TRUE(may_have_tag(parsed));
  parsed.flags |= wire::ParsedFlag::ip_options;
  EXPECT_FALSE(may_have_tag(parsed));
  const auto with_length = [](std::uint16_t bytes) {
    return parsed_of(
        FrameBuilder().ipv4("10.0.1.2", "10.0.3.2").udp(50000, 5000).payload(40).udp_length(bytes).build());
  };
  EXPECT_FALSE(may_have_tag(with_length(0)));
  EXPECT_TRUE(may_have_tag(with_length(8)));
  parsed = parsed_of(data());
  for (const auto kind : {wire::FrameKind::tcp, wire::FrameKind::ipv4_fragment, wire::FrameKind::icmp}) {
    parsed.kind = kind;
    EXPECT_FALSE(may_have_tag(parsed));
  }
}

}  // namespace
}  // namespace weft::stages
