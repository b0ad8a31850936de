// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// What all policies with flowlets share; more of it in letflow_test.cc.
#include "switch/stages/lb/flowlet_policy.h"

#include "tests/switch/stages/lb_tag/rig.h"

namespace weft::stages::testing {
namespace {

class FlowletPolicies : public ::testing::TestWithParam<const char*> {
 protected:
  FlowletPolicies()
      : h(weft::testing::all_stages(),
          conga_yaml({.lb = std::string("{ policy: ") + GetParam() + ", letflow: { gap_us: 10, max_flows: 64 } }"})) {}

  unsigned way(std::uint16_t source_port) {
    h.inject("h1", packet(1, 2, source_port).build());
    const auto sent = upwards(h);
    return sent.empty() ? kUplinks : sent[0].uplink;
  }

  Harness h;
};

TEST_P(FlowletPolicies, AFlowKeepsItsPathWithinAFlowlet) {
  const unsigned first = way(1);
  for (int i = 0; i < 50; ++i) {
    h.advance_ns(10 * kUs);
    ASSERT_EQ(way(1), first);
  }
  EXPECT_EQ(h.counter("lb", "flowlets"), 1u);
  h.advance_ns(11 * kUs);
  way(1);
  EXPECT_EQ(h.counter("lb", "flowlets"), 2u);
}

TEST_P(FlowletPolicies, AFlowWhosePathGoesAwayBeginsAFlowletAtOnce) {
  const unsigned first = way(1);
  h.set_link("s" + std::to_string(first + 1), false);
  const unsigned second = way(1);
  EXPECT_NE(second, first);
  EXPECT_EQ(way(1), second);
  EXPECT_EQ(h.counter("lb", "flowlets_cut"), 1u);
}

TEST_P(FlowletPolicies, ManyFlowsCostPathsAndNotPackets) {
  for (std::uint16_t flow = 0; flow < 300; ++flow) EXPECT_LT(way(flow), kUplinks);
  EXPECT_GT(h.counter("lb", "flows_evicted"), 100u);
  EXPECT_EQ(h.dropped_total(), 0u);
}

INSTANTIATE_TEST_SUITE_P(All, FlowletPolicies, ::testing::Values("letflow", "conga"));

}  // namespace
}  // namespace weft::stages::testing
