// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Between admission and a device: what passes by its queue, and what waits.
#include <gmock/gmock.h>

#include "tests/switch/pipeline/rig.h"

namespace weft::pipeline {
namespace {

using testing::ElementsAre;

TEST(Pipeline, AnEmptyQueueThatEmulatesNothingIsPassedBy) {
  Rig rig({{"fwd", forward()}});
  rig.receive(0, {{1, 0, 1}, {2, 0, 1}});
  EXPECT_THAT(rig.devices[1]->ids(), ElementsAre(1, 2));
  EXPECT_EQ(rig.pipelines[0]->held(), 0u);
}

TEST(Pipeline, PacketsThatABusyDeviceLeftGoBeforeThoseThatComeLater) {
  Rig rig({{"fwd", forward()}});
  rig.devices[1]->behaviour = [&rig](rte_mbuf** packets, std::uint16_t) { return rig.devices[1]->take(packets, 1); };
  rig.receive(0, {{1, 0, 1}, {2, 0, 1}, {3, 0, 1}});
  EXPECT_THAT(rig.devices[1]->ids(), ElementsAre(1));
  EXPECT_EQ(rig.pipelines[0]->held(), 2u);
  rig.receive(0, {{4, 0, 1}, {5, 0, 1}, {6, 0, 1}});
  EXPECT_THAT(rig.devices[1]->ids(), ElementsAre(1)) << "they wait behind what the device left";
  rig.run_until_quiet();
  EXPECT_THAT(rig.devices[1]->ids(), ElementsAre(1, 2, 3, 4, 5, 6));
}

}  // namespace
}  // namespace weft::pipeline
