// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/capture/capture_tap.h"

#include <gmock/gmock.h>

#include "switch/stages/impair/drops.h"
#include "switch/wire/builder.h"
#include "tests/switch/pipeline/rig.h"

namespace weft::capture {
namespace {

using pipeline::Batch;
using pipeline::Context;
using pipeline::DropReason;
using pipeline::Label;
using pipeline::Rig;
using testing::ElementsAre;
using testing::IsEmpty;

pipeline::Script lose_odd() {
  return {.ingress = [](Context& context, Batch& batch) {
    for (std::uint16_t i = 0; i < batch.size; ++i) {
      if (pipeline::label_of(batch.packet[i]).id % 2 == 1) context.drop(batch, i, stages::ImpairDrop::impair_loss);
    }
  }};
}

class CaptureTapTest : public testing::Test {
 protected:
  CaptureTapTest() { reasons.add(stages::ImpairDrop::block()); }
  void attach(const PacketFilter& filter, std::uint32_t snaplen = 65535) {
    tap = std::make_unique<CaptureTap>(ring, filter, std::uint8_t{0}, snaplen);
    ASSERT_TRUE(rig.pipelines[0]->add_tap(*tap));
  }
  pipeline::DropReasons reasons;
  // "rx 1", "tx 1", "drop 1 impair_loss", with the label of each packet.
  std::vector<std::string> captured() {
    std::vector<std::string> out;
    while (const Record* r = ring.front()) {
      Label label;
      std::memcpy(&label, packet_of(*r), sizeof label);
      std::string line = r->kind == RecordKind::rx ? "rx " : r->kind == RecordKind::tx ? "tx " : "drop ";
      line += std::to_string(label.id);
      if (r->kind == RecordKind::drop) line += " " + std::string(reasons[r->reason].name);
      if (r->refused != 0) line += " refused " + std::to_string(r->refused);
      out.push_back(line);
      ring.pop();
    }
    return out;
  }
  static PacketFilter drops(DropReason reason) {
    PacketFilter filter;
    filter.drops.set(static_cast<std::size_t>(reason));
    return filter;
  }

  RecordRing ring{65536};
  std::unique_ptr<CaptureTap> tap;
  Rig rig{{{"lose", lose_odd()}, {"fwd", pipeline::forward()}}};
};

TEST_F(CaptureTapTest, CopiesWhatComesLeavesAndIsDropped) {
  PacketFilter filter = drops(stages::ImpairDrop::impair_loss);
  filter.rx = filter.tx = true;
  attach(filter);
  rig.receive(0, {{1, 0, 3}, {2, 0, 3}});
  rig.run_until_quiet();
  EXPECT_THAT(captured(), ElementsAre("rx 1", "rx 2", "drop 1 impair_loss", "tx 2"));
}

TEST_F(CaptureTapTest, OnlyTheReasonThatWasAskedFor) {
  attach(drops(DropReason::no_egress));
  rig.receive(0, {{1, 0, 3}, {2, 0, 9}});
  rig.run_until_quiet();
  EXPECT_THAT(captured(), ElementsAre("drop 2 no_egress"));
}

TEST_F(CaptureTapTest, APortIsWhereAPacketCameOrWhereItWasToGo) {
  PacketFilter filter = drops(stages::ImpairDrop::impair_loss);
  filter.rx = filter.tx = true;
  filter.ports = {false, true, false, false};
  attach(filter);
  rig.receive(0, {{2, 0, 1}, {4, 0, 2}});
  rig.receive(1, {{1, 0, 2}, {6, 0, 2}});
  rig.receive(2, {{3, 0, 1}});
  rig.run_until_quiet();
  EXPECT_THAT(captured(), ElementsAre("tx 2", "rx 1", "rx 6", "drop 1 impair_loss"));
}

TEST_F(CaptureTapTest, WhatABusyDeviceLeavesIsCopiedOnce) {
  PacketFilter filter;
  filter.tx = true;
  attach(filter);
  rig.devices[0]->behaviour = [](rte_mbuf**, std::uint16_t) { return pipeline::TxResult{}; };
  rig.receive(0, {{2, 0, 0}, {4, 0, 0}});
  rig.run_until_quiet();
  EXPECT_THAT(captured(), IsEmpty());
  rig.devices[0]->behaviour = [this](rte_mbuf** packets, std::uint16_t) { return rig.devices[0]->take(packets, 1); };
  rig.run_until_quiet();
  EXPECT_THAT(captured(), ElementsAre("tx 2", "tx 4"));
}

TEST_F(CaptureTapTest, RefusedBurstsAreMarkedOrTheOnlyThingCopied) {
  rig.devices[0]->behaviour = [this](rte_mbuf** packets, std::uint16_t count) {
    const bool refuse = pipeline::label_of(packets[0]).id == 2;
    pipeline::TxResult result = rig.devices[0]->take(packets, count);
    result.rejected = refuse ? 1 : 0;
    result.rejected_bytes = refuse ? 64 : 0;
    return result;
  };
  attach(drops(DropReason::tx_failed));
  PacketFilter leaving;
  leaving.tx = true;
  RecordRing second(65536);
  CaptureTap other(second, leaving, 0, 100);
  ASSERT_TRUE(rig.pipelines[0]->add_tap(other));
  rig.receive(0, {{2, 0, 0}, {4, 0, 0}});
  rig.run_until_quiet();
  rig.receive(0, {{6, 0, 0}});
  rig.run_until_quiet();
  EXPECT_THAT(captured(), ElementsAre("drop 2 tx_failed refused 1", "drop 4 tx_failed refused 1"));
  std::vector<int> refused;
  for (; second.front() != nullptr; second.pop()) refused.push_back(second.front()->refused);
  EXPECT_THAT(refused, ElementsAre(1, 1, 0));
  rig.pipelines[0]->remove_tap(other);
}

TEST_F(CaptureTapTest, SnaplenCutsAndChainsAreJoined) {
  PacketFilter filter;
  filter.rx = true;
  attach(filter, 100);
  rte_mbuf* m = rig.packet({2, 0, 0}, 90);
  rte_mbuf* tail = rig.packet({77, 0, 0}, 60);
  m->next = tail;
  m->nb_segs = 2;
  m->pkt_len = 150;
  rig.pipelines[0]->receive(rig.now, 0, &m, 1);
  const Record* r = ring.front();
  ASSERT_NE(r, nullptr);
  EXPECT_EQ(r->captured, 100U);
  EXPECT_EQ(r->length, 150U);
  EXPECT_EQ(packet_of(*r)[89], 0xa5);
  EXPECT_EQ(packet_of(*r)[90], 77);
  EXPECT_EQ(r->time, rig.now);
}

TEST_F(CaptureTapTest, AFullRingLosesCopiesAndNoPackets) {
  PacketFilter filter;
  filter.rx = filter.tx = true;
  attach(filter);
  std::vector<Label> many;
  for (std::uint64_t i = 0; i < 2000; ++i) many.push_back({2 * i, 0, 1});
  for (int round = 0; round < 2; ++round) {
    for (std::size_t first = 0; first < many.size(); first += 32) {
      rig.receive(0, {many.begin() + static_cast<std::ptrdiff_t>(first),
                      many.begin() + static_cast<std::ptrdiff_t>(std::min(first + 32, many.size()))});
      rig.run_until_quiet();
    }
  }
  EXPECT_EQ(rig.devices[1]->sent.size(), 4000U);
  const std::size_t kept = captured().size();
  EXPECT_EQ(kept, 65536U / 96);
  EXPECT_EQ(ring.lost(), 8000 - kept);
}

TEST(CaptureTapFilter, LooksAtHeadersBeforeAnyStageHas) {
  Rig rig({{"fwd", pipeline::forward()}});
  RecordRing ring(65536);
  PacketFilter filter;
  filter.rx = true;
  filter.dest_qps = {wire::Qpn(17)};
  CaptureTap tap(ring, filter, 0, 65535);
  ASSERT_TRUE(rig.pipelines[0]->add_tap(tap));
  for (const std::uint32_t qp : {16U, 17U}) {
    const auto bytes =
        wire::FrameBuilder().bth(wire::Opcode::RC_SEND_ONLY, wire::Qpn(qp), wire::Psn(1)).payload(8).build();
    rte_mbuf* m = rte_pktmbuf_alloc(rig.pool());
    std::memcpy(rte_pktmbuf_append(m, static_cast<std::uint16_t>(bytes.size())), bytes.data(), bytes.size());
    rig.pipelines[0]->receive(rig.now, 0, &m, 1);
  }
  const Record* r = ring.front();
  ASSERT_NE(r, nullptr);
  const std::string seen(reinterpret_cast<const char*>(packet_of(*r)), r->captured);
  EXPECT_NE(seen.find(std::string("\0\0\x11", 3)), std::string::npos);
  ring.pop();
  EXPECT_EQ(ring.front(), nullptr);
  rig.pipelines[0]->remove_tap(tap);
}

}  // namespace
}  // namespace weft::capture
