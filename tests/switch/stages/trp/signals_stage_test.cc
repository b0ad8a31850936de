// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// trp with receivers that send no CNPs: what they send back of ports, and how long they take to answer.
#include "switch/wire/telemetry.h"
#include "tests/switch/stages/trp/rig.h"

namespace weft::stages::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr char kLoop[] = ", loop_mbps: 100000, loop_delay_ns: 1000";
constexpr std::uint16_t kLongQueue = 400;  // 205 kB

Bytes option_with(wire::IntKind kind, std::initializer_list<std::uint16_t> queues) {
  wire::IntPath path;
  for (const std::uint16_t queue : queues) path.hop[path.hops++] = {10, 1, 1, queue};
  Bytes option(wire::kIntOptionBytes);
  wire::write_int(option.data(), kind, path);
  return option;
}

FrameBuilder ack(std::uint32_t psn, wire::Syndrome syndrome = wire::Syndrome::ack(), bool ipv6 = false) {
  FrameBuilder frame;
  frame.eth(beyond_mac(0), port_mac(0));
  ipv6 ? frame.ipv6("fd01::1", "fd02::1") : frame.ipv4("10.1.0.1", "10.2.0.1");
  return frame.udp(50000).bth(Opcode::RC_ACKNOWLEDGE, kSource, Psn(psn)).aeth(syndrome, psn);
}

struct TrpTelemetryTest : TrpStageTest {
  TrpTelemetryTest() : TrpStageTest(kRemote + kLoop + ", signals: [telemetry]") {}

  /// A packet that has passed one port comes, and the receiver sends back these queues.
  void tell(std::uint32_t psn, std::initializer_list<std::uint16_t> queues) {
    h.inject("wan", data(psn).ip_options(option_with(wire::IntKind::collects, {0})).build());
    h.inject("in", ack(psn).ip_options(option_with(wire::IntKind::echo, queues)).build());
  }
};

TEST_P(TrpTelemetryTest, ALongQueueBehindTheSwitchSlowsItsFlowDown) {
  tell(1, {kLongQueue, 0});
  tell(2, {0, 100});
  EXPECT_THAT(psns(), ElementsAre(1, 2)) << "in front of the switch, and a short one";
  EXPECT_EQ(counter("signals_seen"), 0u);
  tell(3, {0, 0, kLongQueue});
  EXPECT_THAT(psns(), ElementsAre(3));
  EXPECT_EQ(counter("signals_seen"), 1u);
  h.inject("wan", data(4).build());
  EXPECT_EQ(h.held(), 1u);
  EXPECT_THAT(h.take("wan"), SizeIs(3)) << "what the receiver says goes on";
  h.advance_ns(2 * kUs);
  EXPECT_THAT(psns(), ElementsAre(4));
}

TEST_P(TrpTelemetryTest, CnpsAndOthersOptionsSayNothing) {
  tell(1, {0});
  h.inject("in", cnp().build());
  h.inject("in", ack(1).ip_options(option_with(wire::IntKind::collects, {0, kLongQueue})).build());
  h.inject("in", ack(1).ip_options(Bytes{148, 4, 0, 0}).build());
  h.inject("in", ack(1)
                     .bth(Opcode::RC_ACKNOWLEDGE, Qpn(99), Psn(1))
                     .ip_options(option_with(wire::IntKind::echo, {0, kLongQueue}))
                     .build());
  h.inject("wan", ack(1)
                      .eth(beyond_mac(1), port_mac(1))
                      .ipv4("10.2.0.1", "10.1.0.1")
                      .bth(Opcode::RC_ACKNOWLEDGE, kDestination, Psn(1))
                      .ip_options(option_with(wire::IntKind::echo, {0, kLongQueue}))
                      .build());
  h.inject("wan", data(2).build());
  EXPECT_EQ(h.held(), 0u);
  EXPECT_EQ(counter("signals_seen") + counter("cnps_seen"), 0u);
}
INSTANTIATE_TEST_SUITE_P(One, TrpTelemetryTest, ::testing::Values(false));

struct TrpRttTest : TrpStageTest {
  TrpRttTest() : TrpStageTest(kRemote + kLoop + ", signals: [cnp, rtt], signal_rtt_us: 20") {}

  /// A packet passes that asks for an ACK, which comes after so long.
  void answered_after(std::uint32_t psn, TimeNs rtt) {
    h.inject("wan", data(psn, GetParam()).ack_req().build());
    h.advance_ns(rtt);
    h.inject("in", ack(psn, wire::Syndrome::ack(), GetParam()).build());
  }
};

TEST_P(TrpRttTest, ALongRoundTripSlowsItsFlowDown) {
  answered_after(1, 19 * kUs);
  answered_after(2, 19 * kUs);
  EXPECT_THAT(psns(), ElementsAre(1, 2));
  EXPECT_EQ(counter("signals_seen"), 0u);
  answered_after(3, 21 * kUs);
  EXPECT_THAT(psns(), ElementsAre(3));
  EXPECT_EQ(counter("signals_seen"), 1u);
  h.inject("wan", data(4, GetParam()).build());
  EXPECT_EQ(h.held(), 1u);
  h.advance_ns(2 * kUs);
  EXPECT_THAT(psns(), ElementsAre(4));
}

// Its own loop must not look like congestion, or a flow would be slowed down for ever.
TEST_P(TrpRttTest, TheTimeInItsOwnLoopDoesNotCount) {
  EXPECT_EQ(set({"loop_delay_ns=30000"}), "");
  h.inject("in", cnp(GetParam()).build());
  h.inject("wan", data(1, GetParam()).ack_req().build());
  EXPECT_EQ(h.held(), 1u);
  h.advance_ns(31 * kUs);
  EXPECT_THAT(psns(), ElementsAre(1));
  h.advance_ns(10 * kUs);
  h.inject("in", ack(1, wire::Syndrome::ack(), GetParam()).build());
  EXPECT_EQ(counter("signals_seen"), 0u);
  EXPECT_EQ(counter("cnps_seen"), 1u) << "both kinds count";
}

TEST_P(TrpRttTest, WhatWasSentAgainOrRefusedSaysNothing) {
  answered_after(1, 10 * kUs);
  h.inject("wan", data(2, GetParam()).ack_req().build());
  h.advance_ns(30 * kUs);
  h.inject("wan", data(2, GetParam()).ack_req().build());
  h.inject("in", ack(2, wire::Syndrome::ack(), GetParam()).build());
  h.inject("wan", data(3, GetParam()).ack_req().build());
  h.advance_ns(30 * kUs);
  h.inject("in", ack(3, wire::Syndrome::rnr_nak(1), GetParam()).build());
  h.inject("wan",
           data(4, GetParam()).bth(Opcode::RC_RDMA_READ_REQUEST, kDestination, Psn(4)).ack_req().payload(0).build());
  h.advance_ns(30 * kUs);
  h.inject("in", ack(4, wire::Syndrome::ack(), GetParam()).build());
  EXPECT_EQ(counter("signals_seen"), 0u);
}

TEST_P(TrpRttTest, AReloadGoesOnTiming) {
  h.inject("wan", data(1, GetParam()).ack_req().build());
  h.reload(yaml(kRemote + kLoop + ", signals: [cnp, rtt], signal_rtt_us: 20"));
  h.advance_ns(30 * kUs);
  h.inject("in", ack(1, wire::Syndrome::ack(), GetParam()).build());
  EXPECT_EQ(counter("signals_seen"), 1u);
}
INSTANTIATE_TEST_SUITE_P(Ip, TrpRttTest, ::testing::Bool());

struct TrpCnpAloneTest : TrpStageTest {};

TEST_P(TrpCnpAloneTest, WithoutTheOptionNothingElseCounts) {
  h.inject("wan", data(1).ip_options(option_with(wire::IntKind::collects, {0})).ack_req().build());
  h.advance_ns(1'000 * kUs);
  h.inject("in", ack(1).ip_options(option_with(wire::IntKind::echo, {0, kLongQueue})).build());
  h.inject("wan", data(2).build());
  EXPECT_THAT(psns(), ElementsAre(1, 2));
  EXPECT_EQ(counter("signals_seen"), 0u);
}
INSTANTIATE_TEST_SUITE_P(One, TrpCnpAloneTest, ::testing::Values(false));

}  // namespace
}  // namespace weft::stages::testing
