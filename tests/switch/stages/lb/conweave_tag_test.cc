// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/stages/lb/conweave_tag.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "switch/wire/builder.h"
#include "switch/wire/headers.h"
#include "tests/support/parsed.h"

namespace weft::stages {
namespace {

using weft::testing::parsed_of;
using wire::FrameBuilder;
using Bytes = std::vector<std::uint8_t>;
using Kind = ConweaveReply::Kind;

FrameBuilder data(bool ipv6 = false) {
  FrameBuilder frame;
  frame.eth(wire::MacAddress::from_u64(0x0200000000a1), wire::MacAddress::from_u64(0x0200000000b2));
  frame.ipv4("10.0.1.2", "10.0.3.2");
  if (ipv6) frame.ipv6("fd00::1", "fd00::2");
  return frame.ecn(wire::Ecn::ce)
      .udp(50000)
      .bth(wire::Opcode::RC_SEND_MIDDLE, wire::Qpn(34), wire::Psn(7))
      .payload(256);
}
Bytes tagged(const Bytes& frame, const ConweaveLabel& label) {
  Bytes out(kTagBytes + frame.size());
  std::copy(frame.begin(), frame.end(), out.begin() + kTagBytes);
  put_tag_on(out.data(), parsed_of(frame), label);
  return out;
}
Bytes answer_to(const Bytes& frame, const ConweaveAnswer& answer) {
  Bytes out(kMaxReplyBytes);
  out.resize(write_answer(out, frame.data(), parsed_of(frame), answer, 48));
  return out;
}
TagValidity validity(const Bytes& frame) {
  return tag_validity(frame.data(), static_cast<std::uint32_t>(frame.size()), parsed_of(frame));
}

TEST(ConweaveLabels, SayWhatTheyAreGivenAndComeOff) {
  const std::array<ConweaveTag, 3> tags{{
      {.epoch = 255, .request = true, .sent = ConweaveTime::from_ticks(0xabcdef)},
      {.epoch = 1, .tail = true, .sent = ConweaveTime::from_ticks(1)},
      {.epoch = 2,
       .rerouted = true,
       .sent = ConweaveTime::from_ticks(0xffffff),
       .tail_sent = ConweaveTime::from_ticks(0x123456)},
  }};
  for (const ConweaveTag& tag : tags) {
    const Bytes plain = data().build();
    Bytes with = tagged(plain, {.leaf = 0x1234, .path = 5, .tag = tag});
    ASSERT_EQ(validity(with), TagValidity::ok);
    EXPECT_EQ(tag_kind(with.data(), parsed_of(with)), TagKind::conweave);
    const ConweaveLabel label = read_conweave(tag_header(with.data(), parsed_of(with)));
    EXPECT_EQ(label, (ConweaveLabel{.leaf = 0x1234, .path = 5, .tag = tag}));
    take_tag_off(with.data(), parsed_of(with));
    EXPECT_EQ(Bytes(with.begin() + kTagBytes, with.end()), plain);
  }
}

TEST(ConweaveLabels, ATailIsNeverOnTheNewPath) {
  Bytes with = tagged(data().build(), {.tag = {.rerouted = true}});
  with[43] |= ConweaveContent::kTail;
  const ConweaveTag tag = read_conweave(tag_header(with.data(), parsed_of(with))).tag;
  EXPECT_TRUE(tag.rerouted);
  EXPECT_FALSE(tag.tail);
}

TEST(ConweaveAnswers, GoBackToTheSenderAndNameItsFlow) {
  for (const bool ipv6 : {false, true}) {
    for (const bool vlan : {false, true}) {
      FrameBuilder frame = data(ipv6);
      if (vlan) frame.vlan(7);
      const Bytes to = frame.build();
      const ConweaveAnswer answer{.leaf = 3, .path = 2, .reply = {Kind::clear, 77}};
      const Bytes out = answer_to(to, answer);
      const wire::Parsed parsed = parsed_of(out), asked = parsed_of(to);
      ASSERT_EQ(validity(out), TagValidity::ok);
      EXPECT_EQ(tag_kind(out.data(), parsed), TagKind::conweave_reply);
      EXPECT_EQ(read_answer(tag_header(out.data(), parsed)), answer);
      EXPECT_EQ(answered_flow(out.data(), parsed), FlowKey::of_qp(asked));
      EXPECT_EQ(answered_flow(out.data(), parsed).qp(), wire::Qpn(34));
      EXPECT_EQ(parsed.pair_hash(), asked.pair_hash()) << "the same worker";
      EXPECT_EQ(parsed.validity, wire::Validity::ok);
      EXPECT_EQ(parsed.vlan_tci, asked.vlan_tci);
      EXPECT_EQ(parsed.tos, 48 << 2);
      EXPECT_EQ(parsed.ttl, 64);
      EXPECT_GE(out.size(), 60u);
      const auto& eth = wire::header_at<wire::EthernetHeader>(out.data());
      EXPECT_EQ(eth.destination, wire::MacAddress::from_u64(0x0200000000a1));
      EXPECT_EQ(eth.source, wire::MacAddress::from_u64(0x0200000000b2));
    }
  }
}

TEST(ConweaveAnswers, OfNoKnownKindAreNone) {
  Bytes out = answer_to(data().build(), {.reply = {Kind::notify, 1}});
  EXPECT_TRUE(read_answer(tag_header(out.data(), parsed_of(out))));
  out[43] = 3;
  EXPECT_FALSE(read_answer(tag_header(out.data(), parsed_of(out))));
}

TEST(ConweaveAnswers, AreNotWrittenWhereThereIsNoRoom) {
  const Bytes to = data().build();
  Bytes out(59);
  EXPECT_EQ(write_answer(out, to.data(), parsed_of(to), {}, 48), 0u);
}

}  // namespace
}  // namespace weft::stages
