// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/stages/lb/flow_key.h"

#include <gtest/gtest.h>

#include "switch/wire/builder.h"
#include "tests/support/parsed.h"

namespace weft::stages {
namespace {

wire::FrameBuilder packet() {
  wire::FrameBuilder frame;
  return frame.ipv4("10.0.1.2", "10.0.3.2").udp(50000).payload(8);
}

TEST(FlowKeys, AreThe5TupleAndShownInWords) {
  const FlowKey key = FlowKey::of(weft::testing::parsed_of(packet().build()));
  EXPECT_EQ(key.to_string(), "addresses 0a0001020a000302 protocol 17 ports 50000 4791");
  EXPECT_NE(key, FlowKey::of(weft::testing::parsed_of(packet().udp(50001).build())));
}

TEST(FlowKeys, AFlowHasItsPlacesInOneSet) {
  std::vector<int> entries(16);
  const auto set = flow_set(entries, {1, 2});
  EXPECT_EQ(set.data(), flow_set(entries, {1, 2}).data());
  EXPECT_EQ(static_cast<std::size_t>(set.data() - entries.data()) % kFlowWays, 0u);
  std::vector<int> least(kFlowWays);
  EXPECT_EQ(flow_set(least, {3, 4}).data(), least.data());
}

}  // namespace
}  // namespace weft::stages
