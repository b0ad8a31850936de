// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Copies and packets of the switch's own, and what a stage may say of all packets of a batch.
#include <gmock/gmock.h>

#include "switch/pipeline/pipeline.h"
#include "tests/switch/pipeline/rig.h"

namespace weft::pipeline {
namespace {

using testing::ElementsAre;

std::vector<Label> burst(std::uint64_t count) {
  std::vector<Label> labels;
  for (std::uint64_t i = 1; i <= count; ++i) labels.push_back({i, 0, 0});
  return labels;
}

TEST(PipelineContext, CopiesTakeTheRestOfThePipelineAndAreCounted) {
  Rig rig({{"copy",
            {.ingress =
                 [](Context& context, Batch& batch) {
                   for (std::uint16_t i = 0; i < batch.size; ++i) {
                     rte_mbuf* copy = context.replicate(batch.packet[i]);
                     rte_pktmbuf_mtod(copy, char*)[0] = 100;
                     context.resume(copy);
                   }
                 }}},
           {"fwd", forward()}});
  rig.receive(0, burst(2));
  rig.run_until_quiet();
  EXPECT_THAT(rig.devices[0]->ids(), ElementsAre(1, 2, 100, 100));
  EXPECT_EQ(rig.pipelines[0]->totals().replicated.value(), 2u);
}

TEST(PipelineContext, GeneratedPacketsArePastTheRemainingStages) {
  int later = 0;
  Rig rig({{"make",
            {.ingress =
                 [](Context& context, Batch&) {
                   rte_mbuf* m = context.generate();
                   EXPECT_EQ(meta(m).in_port, kNoPort);
                   EXPECT_EQ(meta(m).out_port, kNoPort);
                   EXPECT_EQ(m->pkt_len, 0u);
                   const Label label{99, 0, 3};
                   std::memcpy(rte_pktmbuf_append(m, 64), &label, sizeof label);
                   context.send(m, 3);
                 }}},
           {"later", {.ingress = [&](Context&, Batch& batch) { later += batch.size; }}},
           {"fwd", forward()}});
  rig.receive(0, burst(2));
  rig.run_until_quiet();
  EXPECT_THAT(rig.devices[3]->ids(), ElementsAre(99));
  EXPECT_EQ(later, 2);
  EXPECT_EQ(rig.pipelines[0]->totals().generated.value(), 1u);
}

TEST(PipelineContext, ManyPacketsAndCopiesGoOnWithTheNextStageEachWithAMetaOfItsOwn) {
  std::vector<std::uint32_t> hops;
  Rig rig({{"make",
            {.ingress =
                 [](Context& context, Batch& batch) {
                   rte_mbuf* made[3];
                   ASSERT_TRUE(context.generate(made, 3));
                   for (std::uint32_t i = 0; i < 3; ++i) {
                     const Label label{90 + i, 0, 1};
                     std::memcpy(rte_pktmbuf_append(made[i], 64), &label, sizeof label);
                   }
                   context.resume(made, 3);
                   rte_mbuf* copies[4];
                   ASSERT_TRUE(context.replicate(batch.packet[0], copies, 4));
                   for (std::uint32_t i = 0; i < 4; ++i) {
                     meta(copies[i]).next_hop = 100 + i;
                     rte_pktmbuf_mtod(copies[i], char*)[0] = static_cast<char>(10 + i);
                   }
                   context.resume(copies, 4);
                 }}},
           {"note",
            {.ingress =
                 [&](Context&, Batch& batch) {
                   for (std::uint16_t i = 0; i < batch.size; ++i) hops.push_back(meta(batch.packet[i]).next_hop);
                 }}},
           {"fwd", forward()}});
  rig.receive(0, burst(1));
  rig.run_until_quiet();
  EXPECT_THAT(rig.devices[1]->ids(), ElementsAre(90, 91, 92));
  EXPECT_THAT(rig.devices[0]->ids(), ElementsAre(1, 10, 11, 12, 13));
  EXPECT_THAT(hops, ElementsAre(0, 0, 0, 0, 100, 101, 102, 103));
  EXPECT_EQ(rig.pipelines[0]->totals().generated.value(), 3u);
  EXPECT_EQ(rig.pipelines[0]->totals().replicated.value(), 4u);
}

// More than a batch can hold: they run to their end in several.
TEST(PipelineContext, MorePacketsThanABatchHoldsGoOnFromATimer) {
  bool done = false;
  Rig rig({{"make",
            {.deadline = [&](std::uint16_t) { return done ? kNever : TimeNs{0}; },
             .timer =
                 [&](Context& context) {
                   done = true;
                   rte_mbuf* made[200];
                   ASSERT_TRUE(context.generate(made, 200));
                   for (std::uint32_t i = 0; i < 200; ++i) {
                     const Label label{i, 0, 2};
                     std::memcpy(rte_pktmbuf_append(made[i], 64), &label, sizeof label);
                   }
                   context.resume(made, 200);
                 }}},
           {"fwd", forward()}});
  rig.run_until_quiet();
  const auto ids = rig.devices[2]->ids();
  ASSERT_EQ(ids.size(), 200u);
  for (std::uint64_t i = 0; i < 200; ++i) EXPECT_EQ(ids[i], i);
}

TEST(PipelineContext, ManyAreMadeOrNone) {
  Rig rig({{"make",
            {.ingress =
                 [](Context& context, Batch& batch) {
                   rte_mbuf* packets[16];
                   EXPECT_FALSE(context.generate(packets, 16));
                   EXPECT_FALSE(context.replicate(batch.packet[0], packets, 16));
                 }}},
           {"fwd", forward()}},
          {.buffers = 15});
  rig.receive(0, burst(1));
  rig.run_until_quiet();
  EXPECT_EQ(rig.pipelines[0]->totals().made(), 0u);
  EXPECT_THAT(rig.devices[0]->ids(), ElementsAre(1));
}

TEST(PipelineContext, WithoutBuffersNothingIsGeneratedOrReplicated) {
  bool none = false;
  Rig rig({{"make",
            {.ingress =
                 [&](Context& context, Batch& batch) {
                   none = context.generate() == nullptr && context.replicate(batch.packet[0]) == nullptr;
                 }}},
           {"fwd", forward()}},
          {.buffers = 4});
  rig.receive(0, burst(4));
  EXPECT_TRUE(none);
  EXPECT_EQ(rig.pipelines[0]->totals().generated.value(), 0u);
  EXPECT_EQ(rig.pipelines[0]->totals().replicated.value(), 0u);
}

// Sends all packets to port 1, and says so.
Script depart() {
  return {.ingress = [](Context&, Batch& batch) {
    Departure all{.port = 1};
    for (std::uint16_t i = 0; i < batch.size; ++i) {
      meta(batch.packet[i]).out_port = 1;
      all.add(batch.packet[i]);
    }
    batch.depart(all);
  }};
}

TEST(PipelineContext, ABatchDepartsAsItsLastStageSays) {
  Rig rig({{"depart", depart()}});
  rig.receive(0, burst(3));
  rig.run_until_quiet();
  EXPECT_THAT(rig.devices[1]->ids(), ElementsAre(1, 2, 3));
  EXPECT_EQ(rig.pipelines[0]->port_totals(1).tx_bytes.value(), rig.pipelines[0]->totals().rx_bytes.value());
}

TEST(PipelineContext, ALaterStageMaySendAPacketOfADepartingBatchElsewhere) {
  const auto divert = [](Context&, Batch& batch) { meta(batch.packet[1]).out_port = 2; };
  Rig rig({{"depart", depart()}, {"divert", {.ingress = divert}}});
  rig.receive(0, burst(3));
  rig.run_until_quiet();
  EXPECT_THAT(rig.devices[1]->ids(), ElementsAre(1, 3));
  EXPECT_THAT(rig.devices[2]->ids(), ElementsAre(2));
}

}  // namespace
}  // namespace weft::pipeline
