// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/stages/nack_filter/frame.h"

#include <gtest/gtest.h>

#include <vector>

#include "switch/wire/builder.h"
#include "switch/wire/icrc.h"
#include "tests/support/parsed.h"

namespace weft::stages {
namespace {

using weft::testing::parsed_of;
using wire::FrameBuilder;
using wire::Psn;
using Bytes = std::vector<std::uint8_t>;

FrameBuilder nack(std::uint32_t psn, std::uint32_t msn) {
  return FrameBuilder()
      .ipv4("10.0.3.2", "10.0.1.2")
      .udp(50001)
      .bth(wire::Opcode::RC_ACKNOWLEDGE, wire::Qpn(17), Psn(psn))
      .aeth(wire::Syndrome::nak(wire::NakCode::psn_sequence_error), msn);
}

std::vector<std::uint64_t> state_of(const NackFrame& frame) {
  std::vector<std::uint64_t> words;
  frame.hash_state([&](std::uint64_t word) { words.push_back(word); });
  return words;
}

TEST(NackFilterFrame, SaysWhatItIsToldAndNotWhatItWasMadeFrom) {
  const auto over_ipv6 = [](FrameBuilder f) { return f.ipv6("fd00::3", "fd00::1").with_udp_checksum(); };
  const auto with_vlan = [](FrameBuilder f) { return f.vlan(7); };
  const auto plain = [](FrameBuilder f) { return f; };
  const auto check = [](auto&& shape) {
    const Bytes model = shape(nack(0xfffffe, 0xabcdef)).build();
    const Bytes wanted = shape(nack(3, 77)).build();
    NackFrame frame;
    EXPECT_FALSE(frame.known());
    ASSERT_TRUE(frame.become(model.data(), parsed_of(model)));
    EXPECT_TRUE(frame.known());
    ASSERT_EQ(frame.bytes(), wanted.size());
    for (const wire::IcrcMode mode : {wire::IcrcMode::incremental, wire::IcrcMode::full}) {
      Bytes written(frame.bytes());
      wire::Parsed parsed;
      frame.write(written.data(), Psn(3), 77, mode, parsed);
      EXPECT_EQ(written, wanted);
      EXPECT_EQ(parsed.psn, Psn(3));
      EXPECT_EQ(parsed.dest_qp, wire::Qpn(17));
    }
  };
  check(plain);
  check(with_vlan);
  check(over_ipv6);
}

TEST(NackFilterFrame, IsTheSameWhicheverNackItWasMadeFrom) {
  NackFrame one, other;
  const Bytes first = nack(2, 5).build(), second = nack(9, 6).build();
  ASSERT_TRUE(one.become(first.data(), parsed_of(first)));
  ASSERT_TRUE(other.become(second.data(), parsed_of(second)));
  EXPECT_EQ(state_of(one), state_of(other));
}

TEST(NackFilterFrame, PaddingBehindTheIcrcIsNoPartOfIt) {
  const Bytes wanted = nack(3, 77).build();
  Bytes padded = wanted;
  padded.resize(wanted.size() + 10);
  NackFrame frame;
  ASSERT_TRUE(frame.become(padded.data(), parsed_of(padded)));
  EXPECT_EQ(frame.bytes(), wanted.size());
}

TEST(NackFilterFrame, AFrameThatDoesNotFitChangesNothing) {
  const Bytes model = nack(2, 5).build();
  const Bytes longer = nack(4, 5).payload(64).build();
  NackFrame frame;
  ASSERT_TRUE(frame.become(model.data(), parsed_of(model)));
  const auto before = state_of(frame);
  EXPECT_FALSE(frame.become(longer.data(), parsed_of(longer)));
  EXPECT_EQ(state_of(frame), before);
}

TEST(NackFilterFrame, TheMarkIsNotCoveredByTheIcrcAndGoesWithoutTrace) {
  for (const bool ipv6 : {false, true}) {
    const FrameBuilder f = nack(2, 5);
    const Bytes before = (ipv6 ? FrameBuilder(f).ipv6("fd00::3", "fd00::1").with_udp_checksum() : f).build();
    const wire::Parsed parsed = parsed_of(before);
    Bytes frame = before;
    EXPECT_FALSE(has_in_order_mark(frame.data(), parsed));
    set_in_order_mark(frame.data(), parsed, true);
    EXPECT_TRUE(has_in_order_mark(frame.data(), parsed));
    EXPECT_TRUE(wire::icrc_ok(frame.data(), parsed));
    EXPECT_EQ(parsed_of(frame).dest_qp, wire::Qpn(17));
    const auto& udp = wire::header_at<wire::UdpHeader>(frame.data() + parsed.l4_offset);
    const auto& was = wire::header_at<wire::UdpHeader>(before.data() + parsed.l4_offset);
    EXPECT_EQ(udp.checksum.value() != was.checksum.value(), ipv6);
    set_in_order_mark(frame.data(), parsed, false);
    EXPECT_EQ(frame, before);
  }
}

}  // namespace
}  // namespace weft::stages
