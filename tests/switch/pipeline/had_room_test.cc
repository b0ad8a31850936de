// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// A lossless packet that had room in the shared buffer, gives it back, and is charged again a moment later keeps it,
// even if its group would not get as much any more.
#include "tests/switch/pipeline/qos_rig.h"

namespace weft::pipeline {
namespace {

constexpr unsigned kLossless = 3;
constexpr std::size_t kFrameBytes = 1100;
constexpr TimeNs kLong = 100'000'000;

// Room for 400 packets beside reserves and headroom, of which the first group that asks may have half.
qos::Settings room_for_400() {
  qos::Settings s = plain_qos(4);
  for (qos::PortSettings& port : s.ports) {
    port.group[kLossless].dynamic_th = 0;
    port.group[kLossless].headroom_bytes = 5 * kFrameBytes;
  }
  s.pool_bytes = qos::own_bytes(s) + 400 * kFrameBytes;
  return s;
}

void expect_nothing_lost(const Rig& rig) {
  for (const DropReason reason : {DropReason::buffer_ingress, DropReason::buffer_egress, DropReason::headroom_full}) {
    EXPECT_EQ(rig.dropped(reason), 0u);
  }
  EXPECT_EQ(rig.imbalance(), "");
}

// Packets of port 1 for port 2, which is paused, fill the buffer.
void fill_from_port_1(QosRig& rig, const qos::SharedBuffer& buffer) {
  while (!buffer.xoff(buffer.group(1, kLossless))) {
    rig.arrive(1, QosRig::roce(2, kLossless, wire::Ecn::ect0, kFrameBytes));
  }
}

TEST(HadRoom, WhatWaitedInAStageIsNotLostThoughItsGroupMayHaveLessByNow) {
  Holder holder{.from = 0};
  QosRig rig({{"parse", parse_and_forward()}, {"holder", holder.script()}}, qos_options(room_for_400()));
  const qos::SharedBuffer& buffer = *rig.state->buffer();
  const auto& group = buffer.group(0, kLossless);
  rig.pfc_arrives(2, 1u << kLossless, 0xffff);
  std::uint32_t psn = 0;
  while (!buffer.xoff(group)) rig.arrive(0, QosRig::roce(2, kLossless, wire::Ecn::ect0, kFrameBytes, psn++));
  const std::uint64_t before = charged(group);
  fill_from_port_1(rig, buffer);
  ASSERT_GT(before, buffer.threshold(group.limit) + group.limit.reserve + group.headroom_limit + kFrameBytes)
      << "this test would show nothing";

  holder.go = true;
  rig.pipelines[0]->change_stage(1, [](Stage&) {});
  rig.advance_to(rig.now + 1000);
  EXPECT_TRUE(holder.held.empty());
  EXPECT_EQ(charged(group), before) << "they stand in the queue";
  EXPECT_LE(group.headroom.value(), group.headroom_limit);
  EXPECT_TRUE(buffer.xoff(group)) << "their host stays paused";

  rig.advance_to(rig.now + kLong);
  expect_nothing_lost(rig);
  std::uint32_t next = 0;
  for (const auto& f : rig.data(2)) {
    if (f.parsed.psn.value() == next) ++next;
  }
  EXPECT_EQ(next, psn) << "in their order";
  EXPECT_EQ(buffer.shared_used(), 0u);
}

TEST(HadRoom, OneThatNeverWaitedIsStillRefusedBeyondTheHeadroom) {
  QosRig rig(qos_options(room_for_400()));
  const qos::SharedBuffer& buffer = *rig.state->buffer();
  rig.pfc_arrives(2, 1u << kLossless, 0xffff);
  fill_from_port_1(rig, buffer);
  for (int i = 0; i < 1000; ++i) rig.arrive(1, QosRig::roce(2, kLossless, wire::Ecn::ect0, kFrameBytes));
  EXPECT_GT(rig.dropped(DropReason::headroom_full), 0u);
  EXPECT_LE(buffer.group(1, kLossless).headroom.value(), buffer.group(1, kLossless).headroom_limit);
  rig.advance_to(rig.now + kLong);
  EXPECT_EQ(rig.imbalance(), "");
}

}  // namespace
}  // namespace weft::pipeline
