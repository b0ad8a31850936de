// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "tests/switch/stages/nack_filter/rig.h"

namespace weft::stages::testing {
namespace {

TEST(NackFilter, KnowsAPairThatAnAgentHasToldOf) {
  for (const bool told : {false, true}) {
    ReceiverLeaf leaf({.qps = ""});
    if (told) tell_as_agent(leaf.h);
    leaf.arrive({0, 1, 3});
    leaf.say(nack(2));
    EXPECT_EQ(leaf.nacks().size(), told ? 0u : 1u);
    EXPECT_EQ(leaf.counter("nacks_blocked"), told ? 1u : 0u);
  }
}

}  // namespace
}  // namespace weft::stages::testing
