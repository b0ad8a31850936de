// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// What a host asks of a pipeline: a worker that ends, or the simulator.
#include <gmock/gmock.h>

#include <vector>

#include "tests/switch/pipeline/rig.h"

namespace weft::pipeline {
namespace {

using testing::ElementsAre;

TEST(Pipeline, PacketsOfSeveralPortsAreOneBurst) {
  std::vector<PortIndex> ports;
  Rig rig({{"look",
            {.ingress =
                 [&](Context&, Batch& batch) {
                   for (std::uint16_t i = 0; i < batch.size; ++i) ports.push_back(meta(batch.packet[i]).in_port);
                 }}},
           {"fwd", forward()}});
  rte_mbuf* packets[] = {rig.packet({1, 0, 2}), rig.packet({2, 0, 3}), rig.packet({3, 0, 2})};
  for (PortIndex port = 0; port < 3; ++port) meta(packets[port]).in_port = static_cast<PortIndex>(3 - port);
  rig.pipelines[0]->receive_mixed(rig.now, packets, 3);
  rig.run_until_quiet();
  EXPECT_THAT(ports, ElementsAre(3, 2, 1));
  EXPECT_EQ(rig.pipelines[0]->ingress_totals(0).bursts.value(), 1u);
  EXPECT_EQ(rig.pipelines[0]->port_totals(2).rx.value(), 1u);
  EXPECT_EQ(rig.pipelines[0]->totals().rx_bytes.value(), 3u * 64);
  EXPECT_THAT(rig.devices[2]->ids(), ElementsAre(1, 3));
}

TEST(Pipeline, AHostIsToldWhichPortsGotPackets) {
  std::uint64_t admitted = 0;
  Rig rig({{"fwd", forward()}}, {.admitted = &admitted});
  rig.receive(0, {{1, 0, 1}, {2, 0, 3}, {3, 0, 9}});
  EXPECT_EQ(admitted, 0b1010u) << "a packet without an egress is in no queue";
}

TEST(Pipeline, PacketsResumedByAListenerDuringDropQueuedAreDroppedToo) {
  std::vector<rte_mbuf*> kept;
  Rig rig({{"hold",
            {.ingress =
                 [&](Context&, Batch& batch) {
                   for (std::uint16_t i = 0; i < batch.size; ++i) {
                     if (label_of(batch.packet[i]).id < 10) continue;
                     batch.remove(i);
                     kept.push_back(batch.packet[i]);
                   }
                 },
             .drop =
                 [&](Context& context, const rte_mbuf*, DropReason) {
                   if (kept.empty()) return;
                   context.resume(kept.back());
                   kept.pop_back();
                 },
             .held = [&](std::uint16_t) { return kept.size(); }}},
           {"fwd", forward()}},
          {.delay_ns = 1});
  rig.receive(0, {{1, 0, 1}, {10, 0, 1}, {11, 0, 0}});
  rig.pipelines[0]->drop_queued(rig.now);
  EXPECT_EQ(rig.pipelines[0]->held(), 0u);
  EXPECT_EQ(rig.dropped(DropReason::shutdown), 3u);
}

}  // namespace
}  // namespace weft::pipeline
