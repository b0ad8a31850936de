// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/stages/lb_tag/options.h"

#include "tests/switch/stages/lb_tag/rig.h"

namespace weft::stages::testing {
namespace {

using ::testing::HasSubstr;

std::string replaced(std::string yaml, const std::string& what, const std::string& by) {
  const std::size_t at = yaml.find(what);
  EXPECT_NE(at, std::string::npos) << what;
  if (at != std::string::npos) yaml.replace(at, what.size(), by);
  return yaml;
}
// The leaf's configuration with one thing changed.
std::string told_about(const std::string& what, const std::string& by) {
  return mistakes(replaced(conga_yaml({}), what, by));
}

TEST(LbTagOptions, AGoodConfigurationHasNoMistakes) {
  EXPECT_EQ(mistakes(conga_yaml({})), "");
  EXPECT_EQ(mistakes(conga_yaml({.tag = ", dre_period_us: 20, dre_alpha: 0.5, clamp: false, age_us: 10000"})), "");
}

TEST(LbTagOptions, LeafAndUplinksBelongTogether) {
  EXPECT_THAT(told_about("leaf: 1, ", ""), HasSubstr("uplinks: a switch without 'leaf' has none"));
  EXPECT_THAT(told_about("leaf: 1, ", ""), HasSubstr("leaves: only a switch with 'leaf' uses them"));
  EXPECT_THAT(told_about("uplinks: [s1, s2, s3, s4], ", ""), HasSubstr("leaf: a leaf needs uplinks"));
  EXPECT_THAT(told_about("leaf: 1,", "leaf: 9,"), HasSubstr("leaf: 9 is none of 'leaves'"));
  EXPECT_THAT(told_about("[s1, s2, s3, s4]", "[s1, s2, s3, s4, s9]"), HasSubstr("the switch has no port 's9'"));
  EXPECT_THAT(told_about("[s1, s2, s3, s4]", "[s1, s2, s3, s4, s4]"), HasSubstr("port 's4' stands twice"));
}

TEST(LbTagOptions, AnAddressIsBehindOneLeaf) {
  EXPECT_THAT(told_about("id: 2,", "id: 1,"), HasSubstr("leaves: leaf 1 stands twice"));
  EXPECT_THAT(told_about("10.0.2.0/24", "10.0.2.1/24"), HasSubstr("expected 10.0.2.0/24, found 10.0.2.1/24"));
  EXPECT_THAT(told_about("[10.0.2.0/24]", "[10.0.1.128/25]"),
              HasSubstr("prefixes: 10.0.1.128/25 overlaps 10.0.1.0/24 of leaf 1"));
  EXPECT_THAT(told_about("[10.0.2.0/24]", "[10.0.0.0/16]"), HasSubstr("overlaps"));
}

TEST(LbTagOptions, LinksHaveARate) {
  EXPECT_THAT(told_about("link_mbps: 100000, ", ""), HasSubstr("port 's1' has no rate_mbps"));
}

TEST(LbTagOptions, WhoWouldSeeTagsIsNamed) {
  EXPECT_THAT(told_about("  - rdma_track\n", "  - rdma_track\n  - pnp: { remote: [10.9.0.0/16] }\n"),
              HasSubstr("stage 'pnp' cannot stand in one pipeline with tags of lb_tag"));
  EXPECT_THAT(mistakes(conga_yaml({.mtu = 4200})),
              HasSubstr("has mtu_bytes 4200: packets of hosts above 4184 bytes leave without a tag"));
}

TEST(LbTagOptions, ItStandsInFrontOfWhatReadsRoce) {
  std::string yaml = conga_yaml({});
  yaml.erase(yaml.find("  - rdma_track\n"), 15);
  EXPECT_THAT(mistakes(replaced(yaml, "  - parse\n", "  - parse\n  - rdma_track\n")),
              HasSubstr("it reads packets without their tag"));
}

TEST(LbTagOptions, AreRead) {
  config::Diagnostics diagnostics;
  const auto info = config::load_switch(conga_yaml({.number = 2, .tag = ", dre_alpha: 0.5, clamp: false, age_us: 70"}),
                                        weft::testing::all_stages(), diagnostics);
  ASSERT_TRUE(info) << diagnostics.to_string();
  const LbTagOptions options = lb_tag_options(info->pipeline[1].options, *info);
  EXPECT_EQ(options.leaf, 2);
  EXPECT_EQ(options.uplinks, (std::vector<pipeline::PortIndex>{1, 2, 3, 4}));
  ASSERT_EQ(options.leaves.size(), 3u);
  EXPECT_EQ(options.leaves[2].prefixes[0].to_string(), "10.0.3.0/24");
  EXPECT_EQ(options.link_mbps, 100'000u);
  EXPECT_EQ(options.rules.alpha, 0.5);
  EXPECT_FALSE(options.rules.clamped);
  EXPECT_EQ(options.rules.age_ns, 70'000u);
  EXPECT_EQ(options.rules.period_ns, 50'000u);
}

}  // namespace
}  // namespace weft::stages::testing
