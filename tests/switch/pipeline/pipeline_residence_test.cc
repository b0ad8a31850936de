// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// How long packets stay, as the engine samples it.
#include <gmock/gmock.h>

#include <map>

#include "tests/switch/pipeline/qos_rig.h"
#include "tests/switch/pipeline/rig.h"

namespace weft::pipeline {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;
using Buckets = Residence::Buckets;

// What has been sampled of a queue, by bucket.
std::map<std::size_t, std::uint64_t> sampled(const Rig& rig, PortIndex port, unsigned queue = 0,
                                             std::uint16_t worker = 0) {
  std::map<std::size_t, std::uint64_t> found;
  const Residence* residence = rig.pipelines[worker]->residence(port, queue);
  for (std::size_t b = 0; b < Buckets::kCount; ++b) {
    if (residence->count(b) != 0) found[b] = residence->count(b);
  }
  return found;
}

TEST(PipelineResidence, OneBurstInSixteenIsSampled) {
  Rig rig({{"fwd", forward()}});
  for (std::uint32_t i = 0; i < 2 * Residence::kSampleEvery; ++i) {
    rig.receive(0, {{i, 0, 1}, {i, 0, 1}, {i, 0, 1}});
    rig.run_until_quiet();
  }
  EXPECT_THAT(sampled(rig, 1), ElementsAre(Pair(0, 2 * 3)));
  EXPECT_THAT(sampled(rig, 0), IsEmpty());
}

TEST(PipelineResidence, TimeInStagesAndOnAnEmulatedWireCounts) {
  rte_mbuf* kept = nullptr;
  Script hold;
  hold.ingress = [&](Context&, Batch& batch) {
    batch.remove(0);
    kept = batch.packet[0];
  };
  hold.held = [&](std::uint16_t) { return kept != nullptr ? 1 : 0; };
  hold.flush = [&](Context& context) {
    if (kept != nullptr) context.resume(std::exchange(kept, nullptr));
  };
  Rig rig({{"hold", hold}, {"fwd", forward()}}, {.delay_ns = 4000});
  rig.receive(0, {{1, 0, 1}});
  rig.now += 700;
  rig.pipelines[0]->flush_stages(rig.now);
  rig.advance_to(rig.now + 5000);
  EXPECT_THAT(sampled(rig, 1), ElementsAre(Pair(Buckets::of(4700), 1)));
  EXPECT_EQ(rig.pipelines[0]->residence(1, 0)->sum_ns(), 4700u);
}

TEST(PipelineResidence, WhatADeviceDoesNotTakeIsStillIn) {
  Rig rig({{"fwd", forward()}});
  rig.devices[1]->behaviour = [&](rte_mbuf** packets, std::uint16_t) { return rig.devices[1]->take(packets, 1); };
  rig.receive(0, {{1, 0, 1}, {2, 0, 1}, {3, 0, 1}});
  EXPECT_THAT(sampled(rig, 1), ElementsAre(Pair(0, 1)));
}

TEST(PipelineResidence, EachClassQueueHasItsOwn) {
  Rig rig({{"fwd", forward()}}, qos_options(plain_qos(4)));
  rig.receive(0, {{1, 0, 1}});
  rig.now += 300;
  rig.run_until_quiet();
  std::uint64_t all = 0;
  for (unsigned queue = 0; queue < qos::kClasses; ++queue) {
    for (const auto& [bucket, count] : sampled(rig, 1, queue)) {
      EXPECT_EQ(bucket, Buckets::of(300));
      all += count;
    }
  }
  EXPECT_EQ(all, 1u);
}

}  // namespace
}  // namespace weft::pipeline
