// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include <algorithm>
#include <nlohmann/json.hpp>

#include "switch/config/config.h"
#include "tests/switch/stages/nack_filter/rig.h"

namespace weft::stages::testing {
namespace {

using ::testing::HasSubstr;

constexpr unsigned kUplinks = 4;
const std::string kLetFlow = "{ policy: letflow, letflow: { gap_us: 100, age_us: 2000, max_flows: 64 } }";

class LbLetFlow : public ::testing::Test {
 protected:
  explicit LbLetFlow(const std::string& lb = kLetFlow)
      : h(weft::testing::all_stages(), leaf_yaml(1, {.uplinks = kUplinks, .lb = lb})) {}

  unsigned way(const FrameBuilder& frame) {
    h.inject("h1", frame.build());
    unsigned taken = kUplinks;
    for (unsigned i = 0; i < kUplinks; ++i) {
      if (!h.take("s" + std::to_string(i + 1)).empty()) taken = i;
    }
    return taken;
  }
  unsigned way(std::uint16_t source_port = 50000) { return way(data(1).udp(source_port)); }
  // Ways of `count` flowlets of one flow.
  std::array<int, kUplinks> flowlets(int count) {
    std::array<int, kUplinks> taken{};
    for (int i = 0; i < count; ++i) {
      ++taken.at(way());
      h.advance_ns(101 * kUs);
    }
    return taken;
  }
  std::uint64_t counter(const char* name) const { return h.counter("lb", name); }

  Harness h;
};

TEST_F(LbLetFlow, AFlowKeepsItsPathUntilItPauses) {
  const unsigned first = way();
  for (int i = 0; i < 200; ++i) {
    h.advance_ns(100 * kUs);
    ASSERT_EQ(way(), first) << "a pause of exactly the gap";
  }
  EXPECT_EQ(counter("flowlets"), 1u);
  const auto taken = flowlets(400);
  for (const int count : taken) EXPECT_NEAR(count, 100, 35);
  EXPECT_EQ(counter("flowlets"), 400u) << "the first packet came within the gap";
  EXPECT_NEAR(static_cast<double>(counter("flowlets_moved")), 300, 40);
  EXPECT_EQ(counter("flowlets_cut"), 0u);
}

TEST_F(LbLetFlow, FlowsOfDifferentSendersHaveFlowletsOfTheirOwn) {
  for (int i = 0; i < 30; ++i) way(data(1).ipv4("10.0.1." + std::to_string(2 + i), "10.0.3.2"));
  EXPECT_EQ(counter("flowlets"), 30u);
}

TEST_F(LbLetFlow, AFlowWhosePathGoesAwayMovesAtOnceAndOthersStay) {
  std::array<unsigned, 16> before{};
  for (std::uint16_t i = 0; i < 16; ++i) before[i] = way(i);
  h.set_link("s2", false);
  unsigned cut = 0;
  for (std::uint16_t i = 0; i < 16; ++i) {
    const unsigned now = way(i);
    if (before[i] == 1) {
      EXPECT_NE(now, 1u);
      ++cut;
    } else {
      EXPECT_EQ(now, before[i]);
    }
    EXPECT_EQ(way(i), now) << "and stays there";
  }
  EXPECT_GT(cut, 0u);
  EXPECT_EQ(counter("flowlets_cut"), cut);
  for (const char* port : {"s1", "s3", "s4"}) h.set_link(port, false);
  EXPECT_EQ(way(), kUplinks);
  h.set_link("s3", true);
  EXPECT_EQ(way(), 2u);
}

TEST_F(LbLetFlow, ChangesUnderTrafficForgetNoFlowlet) {
  std::array<unsigned, 16> before{};
  for (std::uint16_t i = 0; i < 16; ++i) before[i] = way(i);
  const auto all_stay = [&](const char* what) {
    for (std::uint16_t i = 0; i < 16; ++i) EXPECT_EQ(way(i), before[i]) << what;
  };
  ASSERT_EQ(h.set("lb", {"letflow.gap_us=200"}), "");
  all_stay("another gap");
  h.advance_ns(150 * kUs);
  all_stay("and it holds");
  ASSERT_EQ(h.set("lb", {"letflow.max_flows=128"}), "");
  all_stay("a table of another size");
  // The uplinks get other numbers, and the group another order.
  std::string yaml = leaf_yaml(1, {.uplinks = kUplinks, .lb = kLetFlow});
  const std::string port = "  - { name: s1, type: \"null\", mtu_bytes: 4200 }\n";
  yaml.erase(yaml.find(port), port.size());
  yaml.insert(yaml.find("addresses:"), port);
  const std::string hop = "10.1.1.254, ";
  yaml.erase(yaml.rfind(hop), hop.size());
  yaml.insert(yaml.rfind("] }\npipeline"), ", 10.1.1.254");
  h.reload(yaml);
  all_stay("ports renumbered");
  EXPECT_EQ(counter("flowlets"), 16u);
  EXPECT_EQ(h.dropped_total(), 0u);
}

TEST_F(LbLetFlow, PoliciesChangeUnderTraffic) {
  for (const char* policy : {"drill", "ecmp", "random", "adaptive", "psn", "letflow", "drill", "letflow"}) {
    ASSERT_EQ(h.set("lb", {"policy=" + std::string(policy)}), "");
    EXPECT_EQ(h.rows("lb")[0]["policy"], policy);
    for (std::uint16_t i = 0; i < 32; ++i) EXPECT_LT(way(i), kUplinks) << policy;
  }
  EXPECT_EQ(h.dropped_total(), 0u);
}

TEST_F(LbLetFlow, ShowsItsFlowlets) {
  way();
  h.advance_ns(500 * kUs);
  const unsigned taken = way();
  h.advance_ns(30 * kUs);
  way(1);
  const auto rows = h.rows("flowlets");
  ASSERT_EQ(rows.size(), 2u);
  const auto row = std::find_if(rows.begin(), rows.end(), [](const auto& r) { return r["flowlets"] == 2; });
  ASSERT_NE(row, rows.end());
  EXPECT_EQ((*row)["flow"], "addresses 0a0001020a000302 protocol 17 ports 50000 4791");
  EXPECT_EQ((*row)["port"], "s" + std::to_string(taken + 1));
  EXPECT_EQ((*row)["silent_us"], 30);
  h.advance_ns(3000 * kUs);
  way(2);
  EXPECT_EQ(h.rows("flowlets").size(), 1u) << "the others have aged";
}

TEST_F(LbLetFlow, AFullTableLetsGoOfTheFlowThatWasSilentLongest) {
  for (std::uint16_t i = 0; i < 200; ++i) way(i);
  EXPECT_GT(counter("flows_evicted"), 100u);
  EXPECT_LE(h.rows("flowlets").size(), 64u);
}

class LbLetFlowWeights : public LbLetFlow {
 protected:
  LbLetFlowWeights() : LbLetFlow("{ policy: letflow, weights: { s2: 5 } }") {}
};

TEST_F(LbLetFlowWeights, FlowletsFollowTheWeights) {
  EXPECT_NEAR(flowlets(800)[1], 500, 60);
}

std::string told_about(const std::string& lb) {
  config::Diagnostics diagnostics;
  static_cast<void>(config::load_switch(leaf_yaml(1, {.lb = lb}), weft::testing::all_stages(), diagnostics));
  return diagnostics.to_string();
}

TEST(LbLetFlowConfig, MistakesAreNamed) {
  EXPECT_THAT(told_about("{ policy: letflow, letflow: { gap_us: 500, age_us: 400 } }"),
              HasSubstr("letflow: age_us must be at least gap_us, 500"));
  EXPECT_THAT(told_about("{ letflow: { max_flows: 66 } }"), HasSubstr("letflow: max_flows must be a multiple of 4"));
  EXPECT_THAT(told_about("{ letflow: { gap: 5 } }"), HasSubstr("unknown key 'gap'"));
  EXPECT_THAT(told_about("{ drill: { d: 0 } }"), HasSubstr("d: expected"));
  EXPECT_EQ(told_about("{ policy: drill, drill: { d: 1, m: 0 }, letflow: { gap_us: 50 } }"), "");
}

}  // namespace
}  // namespace weft::stages::testing
