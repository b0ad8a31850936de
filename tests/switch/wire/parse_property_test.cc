// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include <gtest/gtest.h>

#include <algorithm>

#include "switch/wire/icrc.h"
#include "switch/wire/parse.h"
#include "switch/wire/parse_plain.h"
#include "tests/switch/wire/samples.h"

namespace weft::wire {
namespace {

/// Parses an exact copy of the first `contiguous` bytes both ways.
void parse_both(const std::vector<std::uint8_t>& frame, std::uint32_t contiguous, std::uint32_t length, Parsed& fast,
                Parsed& slow) {
  const auto head = exact_copy(frame.data(), contiguous);
  // Different garbage shows fields that one of them did not write.
  std::memset(static_cast<void*>(&fast), 0xaa, sizeof fast);
  std::memset(static_cast<void*>(&slow), 0x55, sizeof slow);
  parse_frame(head.get(), contiguous, length, fast);
  parse_frame_slow(head.get(), contiguous, length, slow);
  Parsed plain;
  std::memset(static_cast<void*>(&plain), 0x33, sizeof plain);
  if (parse_plain_ipv4(head.get(), contiguous, length, plain)) {
    EXPECT_TRUE(same(plain, slow)) << "the short way: " << name(plain.kind) << ", slow " << name(slow.kind) << " "
                                   << name(slow.validity);
  } else {
    EXPECT_EQ(reinterpret_cast<const std::uint8_t*>(&plain)[0], 0x33) << "it wrote something all the same";
  }
}

void expect_same(const std::vector<std::uint8_t>& frame, std::uint32_t contiguous, std::uint32_t length,
                 const std::string& what) {
  Parsed fast, slow;
  parse_both(frame, contiguous, length, fast, slow);
  ASSERT_TRUE(same(fast, slow)) << what << ": contiguous " << contiguous << " of " << length << ", fast "
                                << name(fast.kind) << " " << name(fast.validity) << ", slow " << name(slow.kind) << " "
                                << name(slow.validity);
}

/// What every consumer of a Parsed relies on.
void expect_in_bounds(const Parsed& p, std::uint32_t contiguous, std::uint32_t length, const std::string& what) {
  ASSERT_LT(static_cast<unsigned>(p.kind), kFrameKindCount) << what;
  ASSERT_LT(static_cast<unsigned>(p.validity), kValidityCount) << what;
  ASSERT_LE(p.l3_offset, std::min(contiguous, length)) << what;
  ASSERT_LE(p.l4_offset, std::min(contiguous, length)) << what;
  if (p.kind == FrameKind::roce) {
    const OpcodeInfo& row = opcode_info(p.opcode);
    ASSERT_TRUE(row.known()) << what;
    ASSERT_EQ(p.validity, Validity::ok) << what;
    const std::uint32_t bth = p.l4_offset + 8u;
    ASSERT_LE(bth + row.header_bytes, contiguous) << what;
    ASSERT_LE(bth + row.header_bytes + p.payload_bytes + kIcrcBytes, p.l3_offset + std::uint32_t{p.l3_length}) << what;
    ASSERT_LE(p.l3_offset + std::uint32_t{p.l3_length}, length) << what;
  } else {
    ASSERT_EQ(p.payload_bytes, 0) << what;
    ASSERT_EQ(p.opcode, 0) << what;
  }
}

TEST(ParseProperty, FastAndSlowPathAgreeOnEverySample) {
  for (const auto& s : all_samples()) {
    const auto bytes = static_cast<std::uint32_t>(s.frame.size());
    expect_same(s.frame, bytes, bytes, s.name);
  }
}

TEST(ParseProperty, EveryRoceSampleIsValidAndCarriesTheRightIcrc) {
  for (const auto& s : roce_samples()) {
    const Parsed p = parse(s.frame);
    ASSERT_EQ(p.kind, FrameKind::roce) << s.name << " " << name(p.validity);
    ASSERT_TRUE(icrc_ok(s.frame.data(), p)) << s.name;
  }
}

TEST(ParseProperty, TruncationAtEveryLengthStaysInBoundsAndBothPathsAgree) {
  for (const auto& s : all_samples()) {
    const auto whole = static_cast<std::uint32_t>(s.frame.size());
    for (std::uint32_t n = 0; n <= whole; ++n) {
      for (const std::uint32_t length : {n, whole}) {
        Parsed fast, slow;
        parse_both(s.frame, n, length, fast, slow);
        ASSERT_TRUE(same(fast, slow)) << s.name << " at " << n << " of " << length;
        expect_in_bounds(fast, n, length, s.name);
      }
    }
  }
}

// What it is there for takes the short way, and nothing else does.
TEST(ParseProperty, PlainTcpAndUdpTakeTheShortWay) {
  int taken = 0;
  for (const auto& s : all_samples()) {
    const Parsed p = parse(s.frame);
    const bool plain = (p.kind == FrameKind::udp || p.kind == FrameKind::tcp) && p.validity == Validity::ok &&
                       (p.flags & (ParsedFlag::ipv6 | ParsedFlag::vlan_tagged | ParsedFlag::ip_options)) == 0;
    const auto bytes = static_cast<std::uint32_t>(s.frame.size());
    Parsed out;
    EXPECT_EQ(parse_plain_ipv4(s.frame.data(), bytes, bytes, out), plain) << s.name;
    taken += plain ? 1 : 0;
  }
  EXPECT_GE(taken, 2);
}

TEST(ParseProperty, FastAndSlowPathAgreeOnEverySingleBitErrorOfPlainPackets) {
  for (const auto& s : all_samples()) {
    const FrameKind kind = parse(s.frame).kind;
    if (kind != FrameKind::udp && kind != FrameKind::tcp) continue;
    auto frame = s.frame;
    const auto bytes = static_cast<std::uint32_t>(frame.size());
    for (std::uint32_t bit = 0; bit < std::min<std::uint32_t>(bytes, 54) * 8; ++bit) {
      frame[bit / 8] = static_cast<std::uint8_t>(frame[bit / 8] ^ 1 << bit % 8);
      Parsed fast, slow;
      parse_both(frame, bytes, bytes, fast, slow);
      ASSERT_TRUE(same(fast, slow)) << s.name << " bit " << bit;
      frame[bit / 8] = static_cast<std::uint8_t>(frame[bit / 8] ^ 1 << bit % 8);
    }
  }
}

TEST(ParseProperty, FastAndSlowPathAgreeOnEverySingleBitError) {
  for (const auto& s : roce_samples()) {
    auto frame = s.frame;
    const auto bytes = static_cast<std::uint32_t>(frame.size());
    const std::uint32_t headers = std::min<std::uint32_t>(bytes, 110);
    for (std::uint32_t bit = 0; bit < headers * 8; ++bit) {
      frame[bit / 8] = static_cast<std::uint8_t>(frame[bit / 8] ^ 1 << bit % 8);
      Parsed fast, slow;
      parse_frame(frame.data(), bytes, bytes, fast);
      parse_frame_slow(frame.data(), bytes, bytes, slow);
      ASSERT_TRUE(same(fast, slow)) << s.name << " bit " << bit;
      frame[bit / 8] = static_cast<std::uint8_t>(frame[bit / 8] ^ 1 << bit % 8);
    }
  }
}

TEST(ParseProperty, FastAndSlowPathAgreeOnRandomEditsOfSamples) {
  TestRandom random;
  const auto samples = all_samples();
  for (int round = 0; round < 200'000; ++round) {
    const Sample& s = samples[random(static_cast<std::uint32_t>(samples.size()))];
    auto frame = s.frame;
    const std::uint32_t edits = 1 + random(4);
    for (std::uint32_t i = 0; i < edits; ++i) {
      const std::uint32_t at = random(std::min<std::uint32_t>(static_cast<std::uint32_t>(frame.size()), 90));
      // Small steps find the edges of length rules; whole bytes find everything else.
      const std::uint32_t how = random(3);
      const auto delta = static_cast<std::uint8_t>(how == 0 ? random.word() : how == 1 ? 1 : 0xff);
      frame[at] = static_cast<std::uint8_t>(frame[at] + delta);
    }
    if (random(4) == 0) frame.resize(frame.size() + random(20));
    const auto bytes = static_cast<std::uint32_t>(frame.size());
    const std::uint32_t contiguous = random(2) == 0 ? bytes : std::min(bytes, 54 + random(80));
    Parsed fast, slow;
    parse_both(frame, contiguous, bytes, fast, slow);
    ASSERT_TRUE(same(fast, slow)) << s.name << " round " << round << " seed " << random.seed();
    expect_in_bounds(fast, contiguous, bytes, s.name);
  }
}

TEST(ParseProperty, EveryFieldSurvivesBuildingAndParsing) {
  TestRandom random;
  for (int round = 0; round < 20'000; ++round) {
    const bool v6 = random(2) == 0, tagged = random(2) == 0;
    std::uint8_t opcode = 0;
    do {
      opcode = static_cast<std::uint8_t>(random(256));
    } while (!opcode_info(opcode).known());
    const OpcodeInfo& row = opcode_info(opcode);
    const std::uint32_t source = random.word(), destination = random.word();
    const auto tos = static_cast<std::uint8_t>(random(256)), ttl = static_cast<std::uint8_t>(random(256));
    const auto port = static_cast<std::uint16_t>(random(65536)), vid = static_cast<std::uint16_t>(random(4096));
    const Qpn qp(1 + random(0xffffff));
    const Psn psn(random(0x1000000));
    const bool ack = random(2) == 0, se = random(2) == 0, fecn = random(2) == 0, becn = random(2) == 0;
    const std::uint32_t payload = row.may_carry_payload() ? 1 + random(300) : 0;
    const auto syndrome = static_cast<std::uint8_t>(random(256));
    FrameBuilder b;
    if (tagged) b.vlan(vid);
    if (v6) {
      b.ipv6("2001:db8::1", "2001:db8::2");
    } else {
      b.ipv4(source, destination);
    }
    b.tos(tos).ttl(ttl).udp(port).bth(opcode, qp, psn).ack_req(ack).solicited(se).fecn(fecn).becn(becn);
    b.aeth(Syndrome(syndrome), 1).payload(payload);
    const auto frame = b.build();
    const Parsed p = parse(frame);
    ASSERT_EQ(p.kind, FrameKind::roce);
    ASSERT_TRUE(icrc_ok(frame.data(), p));
    ASSERT_EQ(p.opcode, opcode);
    ASSERT_EQ(p.tos, tos);
    ASSERT_EQ(p.ttl, ttl);
    ASSERT_EQ(p.source_port, port);
    ASSERT_EQ(p.dest_qp, qp);
    ASSERT_EQ(p.psn, psn);
    ASSERT_EQ(p.payload_bytes, payload);
    ASSERT_EQ(p.syndrome, row.has(HeaderMask::aeth) ? syndrome : 0);
    ASSERT_EQ(p.has(ParsedFlag::ack_req), ack);
    ASSERT_EQ(p.has(ParsedFlag::solicited), se);
    ASSERT_EQ(p.has(ParsedFlag::fecn), fecn);
    ASSERT_EQ(p.has(ParsedFlag::becn), becn);
    ASSERT_EQ(p.has(ParsedFlag::ipv6), v6);
    ASSERT_EQ(p.has(ParsedFlag::vlan_tagged), tagged);
    ASSERT_EQ(p.vlan_tci, tagged ? vid : 0);
    if (!v6) {
      ASSERT_EQ(p.address_key, std::uint64_t{source} << 32 | destination);
    }
  }
}

}  // namespace
}  // namespace weft::wire
