// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/config/config.h"
#include "tests/switch/stages/nack_filter/rig.h"

namespace weft::stages::testing {
namespace {

using ::testing::HasSubstr;

std::string mistakes(const std::string& filter, const std::string& pipeline = "parse, rdma_track, ") {
  config::Diagnostics diagnostics;
  const std::string yaml =
      "name: s\nports: [ { name: p1, type: \"null\" }, { name: p2, type: \"null\" } ]\npipeline: [ " + pipeline +
      "nack_filter: { " + filter + " }, l2 ]\n";
  EXPECT_FALSE(config::load_switch(yaml, weft::testing::all_stages(), diagnostics).has_value());
  return diagnostics.to_string();
}

TEST(NackFilterConfig, NamesEveryMistakeWithItsPlace) {
  EXPECT_THAT(mistakes(""), HasSubstr("uplinks"));
  EXPECT_THAT(mistakes("uplinks: [p9]"), HasSubstr("3:57: uplinks: the switch has no port 'p9'"));
  EXPECT_THAT(mistakes("uplinks: [p1, p1]"), HasSubstr("uplinks: port 'p1' stands twice"));
  EXPECT_THAT(mistakes("uplinks: [p2, p1]"), HasSubstr("3:56: uplinks: every port of the switch is named"));
  EXPECT_THAT(mistakes("uplinks: [p1], weights: { p2: 2 }"), HasSubstr("weights: 'p2' is not among the uplinks"));
  EXPECT_THAT(mistakes("uplinks: [p1], window_psns: 100"), HasSubstr("window_psns: must be a power of two"));
  EXPECT_THAT(mistakes("uplinks: [p1], ring_entry_bits: 16"), HasSubstr("ring_entry_bits: must be 8 or 24"));
  EXPECT_THAT(mistakes("uplinks: [p1], ring_entries: 128"), HasSubstr("entries of 8 bits tell at most 127 PSNs apart"));
  EXPECT_THAT(mistakes("uplinks: [p1]", "parse, "), HasSubstr("stage 'nack_filter' needs rdma_track before it"));
  EXPECT_THAT(mistakes("uplinks: [p1], check: exact"), HasSubstr("check"));
}

TEST(NackFilterConfig, StandsBeforeTheStageThatForwards) {
  config::Diagnostics diagnostics;
  const std::string yaml =
      "name: s\nports: [ { name: p1, type: \"null\" }, { name: p2, type: \"null\" } ]\npipeline: [ parse, rdma_track, "
      "l2, nack_filter: { uplinks: [p1] } ]\n";
  EXPECT_FALSE(config::load_switch(yaml, weft::testing::all_stages(), diagnostics).has_value());
  EXPECT_THAT(diagnostics.to_string(), HasSubstr("stage 'nack_filter' must stand before 'l2'"));
}

TEST(NackFilterConfig, PathsAreTheSumOfTheWeightsUnlessTheyAreGiven) {
  const auto paths = [](const std::string& filter) {
    ReceiverLeaf leaf({.uplinks = 3, .filter = filter});
    return leaf.h.rows("nack_filter")[0]["paths"].get<int>();
  };
  EXPECT_EQ(paths(""), 3);
  EXPECT_EQ(paths(", weights: { s2: 4 }"), 6);
  EXPECT_EQ(paths(", arrival_check: off, paths: 16"), 16);
}

TEST(NackFilterConfig, PathsShrinkByTheWeightsOfExcludedUplinks) {
  NackRules rules;
  rules.uplinks = 3;
  rules.weights = {1, 4, 1};
  rules.paths = 6;
  EXPECT_EQ(rules.paths_without(0b000), 6u);
  EXPECT_EQ(rules.paths_without(0b001), 5u);
  EXPECT_EQ(rules.paths_without(0b110), 1u);
  EXPECT_EQ(rules.paths_without(0b111), 6u) << "no mapping has no paths";
  rules.paths = 24;
  EXPECT_EQ(rules.paths_without(0b010), 8u) << "four paths above every uplink";
  rules.paths = 7;
  EXPECT_EQ(rules.paths_without(0b010), 7u) << "they are not those of these uplinks";
}

}  // namespace
}  // namespace weft::stages::testing
