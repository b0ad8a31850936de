// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// pnp and what the stage telemetry has written into packets.
#include "switch/wire/telemetry.h"
#include "tests/switch/stages/pnp/rig.h"

namespace weft::stages::testing {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

wire::IntPath collected() {
  wire::IntPath path;
  path.hops = 2;
  path.path = 0x33;
  path.hop[0] = {10, 100, 90, 7};
  path.hop[1] = {12, 5, 4, 0};
  return path;
}

FrameBuilder with_records(wire::IntKind kind = wire::IntKind::collects, Ecn ecn = Ecn::ect0) {
  Bytes option(wire::kIntOptionBytes);
  wire::write_int(option.data(), kind, collected());
  return data(ecn).ip_options(option);
}

const std::uint8_t* option_of(const Bytes& frame) {
  return wire::find_int_option(frame.data() + parsed_of(frame).l3_offset);
}

void expect_right(const Bytes& frame) {
  const wire::Parsed parsed = parsed_of(frame);
  ASSERT_EQ(parsed.kind, wire::FrameKind::roce);
  EXPECT_TRUE(wire::icrc_ok(frame.data(), parsed));
  EXPECT_TRUE(wire::ipv4_checksum_ok(wire::header_at<wire::Ipv4Header>(frame.data() + parsed.l3_offset)));
}

class PnpTelemetryTest : public PnpStageTest {
 protected:
  PnpTelemetryTest() : PnpStageTest(kRemote + ", telemetry: true") {}
};

TEST_F(PnpTelemetryTest, RecordsGoBackToTheSourceOncePerInterval) {
  for (int i = 0; i < 10; ++i) {
    h.inject("in", with_records().build());
    h.advance_ns(1'000);
  }
  const auto forwarded = frames("wan");
  ASSERT_THAT(forwarded, SizeIs(10));
  for (const Bytes& frame : forwarded) {
    expect_right(frame);
    ASSERT_NE(option_of(frame), nullptr);
    EXPECT_EQ(wire::int_kind(option_of(frame)), wire::IntKind::collects);
    EXPECT_EQ(wire::read_int(option_of(frame)), wire::IntPath{});
  }
  const auto back = frames("in");
  ASSERT_THAT(back, SizeIs(2));
  for (const Bytes& frame : back) {
    expect_right(frame);
    const wire::Parsed parsed = parsed_of(frame);
    EXPECT_EQ(parsed.opcode, static_cast<std::uint8_t>(Opcode::CNP));
    EXPECT_EQ(parsed.dest_qp, kSource);
    ASSERT_NE(option_of(frame), nullptr);
    EXPECT_EQ(wire::int_kind(option_of(frame)), wire::IntKind::mirror);
    EXPECT_EQ(wire::read_int(option_of(frame)), collected());
  }
  EXPECT_EQ(counter("mirrors_sent"), 2u);
  EXPECT_EQ(counter("records_taken"), 10u);
  EXPECT_EQ(counter("cnps_sent"), 0u);
}

TEST_F(PnpTelemetryTest, OneCnpIsForTheMarkAndTheRecords) {
  h.inject("in", with_records(wire::IntKind::collects, Ecn::ce).build());
  h.inject("in", data().build());
  const auto forwarded = frames("wan");
  ASSERT_THAT(forwarded, SizeIs(2));
  for (const Bytes& frame : forwarded) {
    expect_right(frame);
    EXPECT_EQ(wire::ecn_of(parsed_of(frame).tos), Ecn::ect0);
  }
  EXPECT_EQ(wire::read_int(option_of(forwarded[0])), wire::IntPath{});
  const auto back = frames("in");
  ASSERT_THAT(back, SizeIs(1));
  EXPECT_EQ(wire::read_int(option_of(back[0])), collected());
  EXPECT_EQ(counter("mirrors_sent"), 1u);
  EXPECT_EQ(counter("records_taken"), 1u);
  EXPECT_EQ(counter("cnps_sent"), 0u);
  EXPECT_EQ(counter("marked"), 2u);
  EXPECT_EQ(counter("marks_cleared"), 2u);
}

class PnpTelemetryAnySourceTest : public PnpStageTest {
 protected:
  PnpTelemetryAnySourceTest() : PnpStageTest(kRemote + ", telemetry: true, sources: any") {}
};

// They tell of another data centre's ports.
TEST_F(PnpTelemetryAnySourceTest, RecordsOfPacketsFromElsewhereGoOn) {
  h.inject("wan", with_records()
                      .eth(beyond_mac(1), port_mac(1))
                      .ipv4("10.2.0.1", "10.1.0.1")
                      .bth(Opcode::RC_SEND_MIDDLE, kSource, Psn(5))
                      .build());
  const auto forwarded = frames("in");
  ASSERT_THAT(forwarded, SizeIs(1));
  EXPECT_EQ(wire::read_int(option_of(forwarded[0])), collected());
  EXPECT_EQ(counter("records_taken") + counter("mirrors_sent"), 0u);
}

TEST_F(PnpTelemetryTest, WhatIsNotForItIsLeftAlone) {
  Bytes empty(wire::kIntOptionBytes);
  wire::begin_int(empty.data(), wire::IntKind::collects);
  const Bytes other{148, 4, 0, 0};  // router alert
  for (auto& packet : {with_records(wire::IntKind::echo), with_records(wire::IntKind::mirror), data(Ecn::ect0),
                       data(Ecn::ect0).ip_options(empty), data(Ecn::ect0).ip_options(other)}) {
    FrameBuilder builder = packet;
    const Bytes sent = builder.build();
    h.inject("in", sent);
    const auto forwarded = frames("wan");
    ASSERT_THAT(forwarded, SizeIs(1));
    const std::size_t at = sizeof(wire::EthernetHeader) + sizeof(wire::Ipv4Header);
    EXPECT_TRUE(std::equal(sent.begin() + at, sent.end(), forwarded[0].begin() + at, forwarded[0].end()));
  }
  // A queue pair that is not known, and hosts of one data centre.
  h.inject("in", with_records().bth(Opcode::RC_SEND_MIDDLE, Qpn(35), Psn(5)).build());
  EXPECT_EQ(wire::read_int(option_of(frames("wan").at(0))), collected());
  EXPECT_EQ(counter("unknown_qp"), 1u);
  h.inject("in", with_records().ipv4("10.1.0.1", "10.1.0.9").build());
  EXPECT_EQ(wire::read_int(option_of(frames("in").at(0))), collected());
  EXPECT_THAT(frames("in"), IsEmpty());
  EXPECT_EQ(counter("records_taken") + counter("mirrors_sent"), 0u);
}

TEST_F(PnpStageTest, WithoutItsOptionRecordsGoOn) {
  h.inject("in", with_records().build());
  EXPECT_EQ(wire::read_int(option_of(frames("wan").at(0))), collected());
  EXPECT_THAT(frames("in"), IsEmpty());
}

}  // namespace
}  // namespace weft::stages::testing
