// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// pnp and requests that ask for an echo.
#include "switch/wire/rtt_echo.h"

#include "switch/wire/telemetry.h"
#include "tests/switch/stages/pnp/rig.h"

namespace weft::stages::testing {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

const wire::Bth& bth_in(const Bytes& frame) {
  return wire::header_at<wire::Bth>(frame.data() + parsed_of(frame).l4_offset + sizeof(wire::UdpHeader));
}

Bytes asking(FrameBuilder builder) {
  Bytes frame = builder.build();
  auto& bth = wire::header_at<wire::Bth>(frame.data() + parsed_of(frame).l4_offset + sizeof(wire::UdpHeader));
  bth.fecn_becn |= wire::kRttEcho;
  return frame;
}

FrameBuilder over_ipv6() {
  return data(Ecn::ect0, 5).ipv6("fd01::1", "fd02::1");
}

void expect_echo(const Bytes& frame, std::uint32_t psn) {
  const wire::Parsed parsed = parsed_of(frame);
  ASSERT_EQ(parsed.kind, wire::FrameKind::roce);
  EXPECT_EQ(parsed.opcode, static_cast<std::uint8_t>(Opcode::CNP));
  EXPECT_EQ(parsed.dest_qp, kSource);
  EXPECT_EQ(parsed.psn, Psn(psn));
  EXPECT_TRUE(wire::is_rtt_echo(bth_in(frame)));
  EXPECT_FALSE(bth_in(frame).becn());
  EXPECT_TRUE(wire::icrc_ok(frame.data(), parsed));
}

class PnpEchoTest : public PnpStageTest {
 protected:
  PnpEchoTest() : PnpStageTest(kRemote + ", rtt_echo: true") {}
};

TEST_F(PnpEchoTest, EachRequestThatAsksIsAnsweredAtOnceAndGoesOnAsItIs) {
  for (const std::uint32_t psn : {5u, 6u}) {
    const Bytes sent = asking(data(Ecn::ect0, psn));
    h.inject("in", sent);
    const auto forwarded = frames("wan"), back = frames("in");
    ASSERT_THAT(forwarded, SizeIs(1));
    const std::size_t at = sizeof(wire::EthernetHeader) + sizeof(wire::Ipv4Header);
    EXPECT_TRUE(std::equal(sent.begin() + at, sent.end(), forwarded[0].begin() + at, forwarded[0].end()));
    ASSERT_THAT(back, SizeIs(1));
    expect_echo(back[0], psn);
  }
  EXPECT_EQ(counter("echoes_sent"), 2u);
  EXPECT_EQ(counter("cnps_sent") + counter("marked"), 0u);
}

TEST_F(PnpEchoTest, OverIpv6Too) {
  h.inject("in", asking(over_ipv6()));
  const auto back = frames("in");
  ASSERT_THAT(back, SizeIs(1));
  expect_echo(back[0], 5);
}

// The interval of CNPs is theirs alone: an echo neither waits for it nor begins it.
TEST_F(PnpEchoTest, AMarkIsToldBesides) {
  h.inject("in", asking(data(Ecn::ce, 5)));
  h.inject("in", asking(data(Ecn::ce, 6)));
  const auto back = frames("in");
  ASSERT_THAT(back, SizeIs(3));
  expect_echo(back[0], 5);
  EXPECT_TRUE(bth_in(back[1]).becn());
  EXPECT_FALSE(wire::is_rtt_echo(bth_in(back[1])));
  expect_echo(back[2], 6);
  for (const Bytes& frame : frames("wan")) EXPECT_EQ(wire::ecn_of(parsed_of(frame).tos), Ecn::ect0);
  EXPECT_EQ(counter("echoes_sent"), 2u);
  EXPECT_EQ(counter("cnps_sent"), 1u);
  EXPECT_EQ(counter("marks_cleared"), 2u);
}

TEST_F(PnpEchoTest, WhatIsNotForItIsLeftAlone) {
  h.inject("in", data(Ecn::ect0).build());
  h.inject("in", asking(data(Ecn::ect0).bth(Opcode::RC_RDMA_READ_RESPONSE_MIDDLE, kDestination, Psn(5))));
  h.inject("in", asking(data(Ecn::ect0).bth(Opcode::UC_SEND_MIDDLE, kDestination, Psn(5))));
  h.inject("in", asking(data(Ecn::ect0).bth(Opcode::RC_SEND_MIDDLE, Qpn(35), Psn(5))));
  EXPECT_THAT(frames("wan"), SizeIs(4));
  EXPECT_EQ(counter("unknown_qp"), 1u);
  // Of hosts of one data centre, and from another one.
  h.inject("in", asking(data(Ecn::ect0).ipv4("10.1.0.1", "10.1.0.9")));
  h.inject("wan", asking(data(Ecn::ect0)
                             .eth(beyond_mac(1), port_mac(1))
                             .ipv4("10.2.0.1", "10.1.0.1")
                             .bth(Opcode::RC_SEND_MIDDLE, kSource, Psn(5))));
  EXPECT_THAT(frames("in"), SizeIs(2));
  EXPECT_THAT(frames("wan"), IsEmpty());
  EXPECT_EQ(counter("echoes_sent"), 0u);
}

TEST_F(PnpStageTest, WithoutItsOptionNobodyIsEchoed) {
  h.inject("in", asking(data(Ecn::ect0)));
  EXPECT_THAT(frames("wan"), SizeIs(1));
  EXPECT_THAT(frames("in"), IsEmpty());
}

}  // namespace
}  // namespace weft::stages::testing
