// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Copies and packets of the switch's own.
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

}  // namespace
}  // namespace weft::pipeline
