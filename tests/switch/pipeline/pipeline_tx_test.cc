// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Ports through which every worker sends itself, with an egress queue and a transmit queue of its own.
#include <gmock/gmock.h>

#include <map>
#include <vector>

#include "tests/switch/pipeline/rig.h"

namespace weft::pipeline {
namespace {

using testing::ElementsAre;

// Flows are hashes here: the upper half belongs to worker 1 of two.
constexpr std::uint32_t kFlowOf0 = 0x10000000;
constexpr std::uint32_t kFlowOf1 = 0xf0000000;

// What a stage sees of port 1 when a packet passes.
struct Seen {
  std::uint32_t depth = 0;
  PortView view;
  std::uint64_t bytes = 0;
};
Script look_at_port_1(std::map<std::uint64_t, Seen>& seen) {
  return {.ingress = [&](Context& context, Batch& batch) {
    for (std::uint16_t i = 0; i < batch.size; ++i) {
      seen[label_of(batch.packet[i]).id] = {context.queue_depth(1), context.occupancy(1), context.queued_bytes(1)};
    }
  }};
}

// A device that has no room until it is told otherwise.
void stop(Rig& rig, PortIndex port) {
  rig.devices[port]->behaviour = [](rte_mbuf**, std::uint16_t) { return TxResult{}; };
}
void go_on(Rig& rig, PortIndex port) {
  rig.devices[port]->behaviour = nullptr;
}

TEST(PipelineTx, APacketLeavesFromTheWorkerThatHandlesIt) {
  Rig rig({{"parse", parse_label()}, {"fwd", forward()}}, {.workers = 2, .tx_per_worker = true});
  rig.receive(0, {{1, kFlowOf0, 1}, {2, kFlowOf1, 0}, {3, kFlowOf0, 0}});
  rig.run_until_quiet();
  EXPECT_THAT(rig.devices[0]->ids(), testing::UnorderedElementsAre(2, 3));
  EXPECT_THAT(rig.devices[1]->ids(), ElementsAre(1));
  // Packet 2 goes to its owner, and no packet to the owner of a port.
  EXPECT_EQ(rig.pipelines[0]->totals().handed_out.value(), 1u);
  EXPECT_EQ(rig.pipelines[1]->totals().handed_out.value(), 0u);
  EXPECT_EQ(rig.pipelines[0]->port_totals(1).tx.value(), 1u);
  EXPECT_EQ(rig.pipelines[1]->port_totals(0).tx.value(), 1u);
}

TEST(PipelineTx, TheEgressHalfRunsOnThatWorkerToo) {
  std::map<std::uint64_t, std::uint16_t> worker_of;
  Script note;
  note.egress = [&](Context& context, PortIndex, Batch& batch) {
    for (std::uint16_t i = 0; i < batch.size; ++i) worker_of[label_of(batch.packet[i]).id] = context.worker;
  };
  Rig rig({{"parse", parse_label()}, {"fwd", forward()}, {"note", note}}, {.workers = 2, .tx_per_worker = true});
  rig.receive(0, {{1, kFlowOf0, 1}, {2, kFlowOf1, 0}, {3, kFlowOf1, 1}});
  rig.run_until_quiet();
  EXPECT_THAT(worker_of, ElementsAre(std::pair(1, 0), std::pair(2, 1), std::pair(3, 1)));
}

TEST(PipelineTx, StagesSeeWhatAllWorkersHaveInTheirQueues) {
  std::map<std::uint64_t, Seen> seen;
  Rig rig({{"parse", parse_label()}, {"look", look_at_port_1(seen)}, {"fwd", forward()}, {"slow", {}}},
          {.workers = 2, .tx_per_worker = true});
  stop(rig, 1);
  // The first burst of each worker waits for the device behind the queue, the second one in it.
  for (std::uint64_t round = 0; round < 2; ++round) {
    rig.receive(0, {{10 + round, kFlowOf0, 1}});
    rig.receive(1, {{20 + round, kFlowOf1, 1}, {30 + round, kFlowOf1, 1}});
    rig.step(0);
    rig.step(1);
  }
  const std::uint32_t in_queues = rig.pipelines[0]->queue_depth(1) + rig.pipelines[1]->queue_depth(1);
  rig.now += 5;
  rig.receive(0, {{1, kFlowOf0, 0}});
  rig.receive(1, {{2, kFlowOf1, 0}});
  for (const std::uint64_t id : {1u, 2u}) {
    EXPECT_EQ(seen[id].depth, in_queues);
    EXPECT_EQ(seen[id].view.bytes(), 64u * in_queues);
    EXPECT_EQ(seen[id].bytes, 64u * in_queues);
    EXPECT_EQ(seen[id].view.tx_bytes, 0u);
    EXPECT_EQ(seen[id].view.as_of, rig.now);
  }
  go_on(rig, 1);
  rig.run_until_quiet();
  rig.receive(1, {{3, kFlowOf1, 0}});
  EXPECT_EQ(seen[3].depth, 0u);
  EXPECT_EQ(seen[3].bytes, 0u);
  EXPECT_EQ(seen[3].view.tx_bytes, 6u * 64u);
  EXPECT_EQ(rig.devices[1]->sent.size(), 6u);
}

TEST(PipelineTx, EachWorkerEmptiesItsQueueWhenTheLinkGoesDown) {
  Rig rig({{"parse", parse_label()}, {"fwd", forward()}}, {.workers = 2, .tx_per_worker = true});
  stop(rig, 1);
  rig.receive(0, {{1, kFlowOf0, 1}});
  rig.receive(1, {{2, kFlowOf1, 1}});
  rig.state->set_link(1, false);
  rig.run_until_quiet();
  for (const auto& p : rig.pipelines) {
    EXPECT_EQ(p->totals().dropped[static_cast<std::size_t>(DropReason::egress_down)].value(), 1u);
    EXPECT_EQ(p->port_totals(1).dropped.value(), 1u);
  }
}

TEST(PipelineTx, WhatWaitsGoesToTheOwnerInOrderWhenThatIsToSendAlone) {
  Rig rig({{"parse", parse_label()}, {"fwd", forward()}}, {.workers = 2, .tx_per_worker = true});
  stop(rig, 1);
  rig.receive(0, {{1, kFlowOf0, 1}, {2, kFlowOf0, 1}});
  rig.receive(0, {{3, kFlowOf0, 1}, {4, kFlowOf0, 1}});
  EXPECT_EQ(rig.pipelines[0]->held(), 4u);
  rig.pipelines[1]->leave_to_owner(rig.now, 1);
  EXPECT_TRUE(rig.pipelines[1]->sends(1)) << "an owner cannot leave its port to somebody else";
  rig.pipelines[0]->leave_to_owner(rig.now, 1);
  EXPECT_FALSE(rig.pipelines[0]->sends(1));
  EXPECT_EQ(rig.pipelines[0]->held(), 0u);
  rig.receive(0, {{5, kFlowOf0, 1}});
  go_on(rig, 1);
  rig.run_until_quiet();
  EXPECT_THAT(rig.devices[1]->ids(), ElementsAre(1, 2, 3, 4, 5));
  EXPECT_EQ(rig.pipelines[1]->port_totals(1).tx.value(), 5u);
  EXPECT_EQ(rig.pipelines[0]->serve_port(rig.now, 1), 0u);
}

}  // namespace
}  // namespace weft::pipeline
