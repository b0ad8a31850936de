// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include <array>
#include <map>

#include "switch/stages/lb_tag/shared.h"
#include "tests/switch/stages/lb_tag/rig.h"

namespace weft::stages::testing {
namespace {

using ::testing::HasSubstr;

class LbConga : public ::testing::Test {
 protected:
  LbConga() : h(weft::testing::all_stages(), conga_yaml({})) {}

  // The uplink that the packet took, kUplinks when it took none.
  unsigned way(std::uint16_t source_port = 50000, unsigned to = 2) {
    h.inject("h1", packet(1, to, source_port).build());
    const auto sent = upwards(h);
    return sent.empty() ? kUplinks : sent[0].uplink;
  }
  void told(std::uint8_t path, std::uint8_t metric, std::size_t leaf = 1) {
    ASSERT_TRUE(h.shared<LbTagShared>("lb_tag").congestion().on_feedback(leaf, path, metric, h.now()));
  }

  Harness h;
};

TEST_F(LbConga, FlowsTakeTheLeastCongestedPath) {
  for (const std::uint8_t path : {0, 1, 3}) told(path, 4);
  told(2, 3);
  for (std::uint16_t flow = 0; flow < 20; ++flow) EXPECT_EQ(way(flow), 2u);
  std::array<int, kUplinks> to_other{};
  for (std::uint16_t flow = 0; flow < 400; ++flow) ++to_other.at(way(flow, 3));
  for (const int count : to_other) EXPECT_NEAR(count, 100, 35) << "of the other leaf nothing is known";
}

TEST_F(LbConga, TheSwitchesOwnLinksCount) {
  auto& congestion = h.shared<LbTagShared>("lb_tag").congestion();
  for (const std::size_t port : {1, 2, 4}) congestion.on_sent(0, port, h.now(), 12'500 * 250);
  for (std::uint16_t flow = 0; flow < 20; ++flow) EXPECT_EQ(way(flow), 2u);
}

TEST_F(LbConga, AFlowMovesWithItsNextFlowletAndOnlyToWhatIsBetter) {
  const unsigned first = way();
  told(static_cast<std::uint8_t>(first), 5);
  EXPECT_EQ(way(), first) << "within the flowlet";
  h.advance_ns(101 * kUs);
  told(static_cast<std::uint8_t>(first), 0);
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(way(), first) << "nothing is better";
    h.advance_ns(101 * kUs);
  }
  told(static_cast<std::uint8_t>(first), 1);
  EXPECT_NE(way(), first);
  EXPECT_EQ(h.counter("lb", "flowlets_moved"), 1u);
}

TEST_F(LbConga, WhatWasToldLongAgoDoesNotCount) {
  for (std::uint8_t path = 0; path < 3; ++path) told(path, 7);
  EXPECT_EQ(way(1), 3u);
  h.advance_ns(501 * kUs);
  std::map<unsigned, int> taken;
  for (std::uint16_t flow = 100; flow < 140; ++flow) ++taken[way(flow)];
  EXPECT_EQ(taken.size(), 4u);
}

TEST_F(LbConga, APathThatIsDownIsNotTaken) {
  told(0, 1);
  told(1, 1);
  h.set_link("s3", false);
  h.set_link("s4", false);
  std::array<int, kUplinks + 1> taken{};
  for (std::uint16_t flow = 0; flow < 100; ++flow) ++taken.at(way(flow));
  EXPECT_EQ(taken[0] + taken[1], 100);
  EXPECT_GT(taken[0], 20);
  h.set_link("s1", false);
  h.set_link("s2", false);
  EXPECT_EQ(way(), kUplinks);
}

TEST_F(LbConga, FlowletsStayWhenThePolicyChangesBetweenThoseThatHaveThem) {
  std::array<unsigned, 16> before{};
  for (std::uint16_t flow = 0; flow < 16; ++flow) before[flow] = way(flow);
  for (const char* policy : {"letflow", "conga"}) {
    ASSERT_EQ(h.set("lb", {std::string("policy=") + policy}), "");
    for (std::uint16_t flow = 0; flow < 16; ++flow) EXPECT_EQ(way(flow), before[flow]) << policy;
  }
  EXPECT_EQ(h.rows("flowlets").size(), 16u);
}

TEST(LbCongaConfig, MistakesAreNamed) {
  std::string yaml = conga_yaml({});
  const std::size_t at = yaml.find("uplinks: [s1, s2, s3, s4]");
  ASSERT_NE(at, std::string::npos);
  yaml.replace(at, 25, "uplinks: [s1, s2, s3]");
  EXPECT_THAT(mistakes(yaml), HasSubstr("policy conga: the group of 10.0.0.0/16 has port 's4', which is none of the "
                                        "uplinks of lb_tag"));
  EXPECT_THAT(mistakes(yaml), ::testing::ContainsRegex(":[0-9]+:[0-9]+: policy conga")) << "line and column";
  std::string without = conga_yaml({});
  const std::size_t tag = without.find("  - lb_tag");
  without.erase(tag, without.find('\n', tag) + 1 - tag);
  EXPECT_THAT(mistakes(without), HasSubstr("policy conga needs"));
}

}  // namespace
}  // namespace weft::stages::testing
