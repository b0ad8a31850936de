// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include <gmock/gmock.h>

#include <vector>

#include "tests/switch/pipeline/rig.h"

namespace weft::pipeline {
namespace {

using testing::ElementsAre;

TEST(PipelineLinks, StagesHearOfLinksOnceForEveryChangeWithoutAnyPacket) {
  std::vector<bool> heard;
  Rig rig({{"look", {.links = [&](Context& context) { heard.push_back(context.link_up(2)); }}}, {"fwd", forward()}});
  rig.run_until_quiet();
  EXPECT_THAT(heard, ElementsAre()) << "all links are up";
  EXPECT_EQ(rig.pipelines[0]->stage_deadline(), kNever);
  rig.state->set_link(2, false);
  EXPECT_EQ(rig.pipelines[0]->stage_deadline(), 0u) << "a sleeping worker wakes up";
  rig.run_until_quiet();
  rig.run_until_quiet();
  rig.state->set_link(2, true);
  rig.run_until_quiet();
  EXPECT_THAT(heard, ElementsAre(false, true));
}

TEST(PipelineLinks, EveryChangeOfALinkOrAnExclusionIsCounted) {
  Links links(2);
  EXPECT_FALSE(links.set_excluded(1, false)) << "it is not";
  const std::uint32_t before = links.generation();
  EXPECT_TRUE(links.set_excluded(1, true));
  EXPECT_NE(links.generation(), before);
  EXPECT_TRUE(links.set_up(1, false));
  EXPECT_TRUE(links.set_excluded(1, false));
  EXPECT_FALSE(links.all_paths_up()) << "its link is down";
  EXPECT_TRUE(links.set_up(1, true));
  EXPECT_TRUE(links.all_paths_up());
}

TEST(PipelineLinks, WhatAStageSendsWhenALinkChangesGoesOn) {
  Rig rig({{"tell",
            {.links =
                 [](Context& context) {
                   if (context.link_up(2)) return;
                   rte_mbuf* m = context.generate();
                   const Label label{7, 0, 1};
                   std::memcpy(rte_pktmbuf_append(m, 64), &label, sizeof label);
                   context.resume(m);
                 }}},
           {"fwd", forward()}});
  rig.run_until_quiet();
  rig.state->set_link(2, false);
  rig.run_until_quiet();
  EXPECT_THAT(rig.devices[1]->ids(), ElementsAre(7u));
}

TEST(PipelineLinks, ALinkThatComesBackTakesPacketsAgain) {
  Rig rig({{"fwd", forward()}});
  rig.state->set_link(1, false);
  rig.receive(0, {{1, 0, 1}});
  rig.run_until_quiet();
  EXPECT_THAT(rig.devices[1]->ids(), ElementsAre());
  rig.state->set_link(1, true);
  rig.receive(0, {{2, 0, 1}});
  rig.run_until_quiet();
  EXPECT_THAT(rig.devices[1]->ids(), ElementsAre(2u));
}

}  // namespace
}  // namespace weft::pipeline
