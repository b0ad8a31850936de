// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Reports of queue lengths: who sends them, and who believes them.
#include "switch/stages/lb_tag/gemma.h"

#include "tests/switch/stages/lb_tag/reporting.h"

namespace weft::stages::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class GemmaReporting : public ::testing::Test {
 protected:
  explicit GemmaReporting(const std::string& yaml = aggregation_yaml()) : h(weft::testing::all_stages(), yaml) {}

  // The newest report that has left through the port; empty when none has.
  std::vector<GemmaEntry> told(const char* port) {
    std::vector<GemmaEntry> entries;
    for (const auto& frame : h.take(port)) entries = told_by(frame.bytes);
    return entries;
  }
  std::size_t reports(const char* port) { return h.take(port).size(); }
  // 100 packets of 1 KB more wait in the queue to leaf 2.
  void fill_l2() {
    h.block_device("l2", true);
    FrameBuilder frame = packet(1, 2);
    frame.eth(other_mac(1), leaf_mac(0)).payload(1024 - 58);
    const std::size_t before = h.pipeline().queue_depth(h.port("l2").index);
    for (int i = 0; i < 200 && h.pipeline().queue_depth(h.port("l2").index) < before + 100; ++i) {
      h.inject("l1", frame.build());
    }
  }
  std::uint64_t counter(const char* name) const { return h.counter("lb_tag", name); }

  Harness h;
};

TEST_F(GemmaReporting, LeavesHearOfAllQueuesButTheirOwn) {
  h.advance_ns(1);
  EXPECT_THAT(told("l1"), ElementsAre(GemmaEntry{2, 0}, GemmaEntry{3, 0}));
  EXPECT_THAT(told("l2"), ElementsAre(GemmaEntry{1, 0}, GemmaEntry{3, 0}));
  EXPECT_EQ(counter("gemma_reports_sent"), 4u);
  EXPECT_EQ(counter("gemma_bytes_sent"), 4u * report_bytes(2));
}

TEST_F(GemmaReporting, SwitchesAboveHearOfTheQueuesToLeaves) {
  fill_l2();
  h.advance_ns(50 * kUs);
  for (const char* port : {"c1", "c2"}) {
    const auto entries = told(port);
    ASSERT_EQ(entries.size(), 2u) << "not of leaf 3, which is above";
    EXPECT_EQ(entries[0], (GemmaEntry{1, 0}));
    EXPECT_GE(entries[1].bytes, 100u * 1024 - 256);
  }
  h.block_device("l2", false);
  h.reload(aggregation_yaml(", up: false"));
  h.take("c1");
  h.advance_ns(100 * kUs);
  EXPECT_EQ(reports("c1"), 0u);
  EXPECT_GT(reports("l1"), 0u);
}

// A core, or a spine above leaves that are switches of this kind themselves.
TEST(GemmaCore, AddsWhatSwitchesBelowHaveToldToItsOwnQueues) {
  Harness h(weft::testing::all_stages(), aggregation_yaml("", "uplinks: []"));
  h.advance_ns(1);
  h.take("l1");
  h.inject("l2", report_of({{2, 51'200}, {1, 25'600}}));
  EXPECT_EQ(h.counter("lb_tag", "gemma_reports"), 1u);
  EXPECT_EQ(h.counter("lb_tag", "gemma_unknown_leaves"), 1u) << "leaf 1 is not behind l2";
  EXPECT_EQ(h.take("l1").size(), 0u) << "a report ends here";
  h.advance_ns(50 * kUs);
  const auto sent = h.take("l1");
  ASSERT_FALSE(sent.empty());
  EXPECT_THAT(told_by(sent.back().bytes), ElementsAre(GemmaEntry{2, 51'200}));
  // What hosts send, or who is no downlink, tells nothing.
  Bytes routed = report_of({{2, 0}});
  routed[14 + 8] = 254;  // TTL
  h.inject("l2", routed);
  EXPECT_EQ(h.counter("lb_tag", "gemma_strangers"), 1u);
  h.inject("c1", report_of({{2, 0}}));
  EXPECT_EQ(h.counter("lb_tag", "gemma_reports"), 1u);
  h.advance_ns(50 * kUs);
  EXPECT_THAT(told_by(h.take("l1").back().bytes), ElementsAre(GemmaEntry{2, 51'200}));
}

TEST_F(GemmaReporting, QueuesAreToldAndWhatIsAboveByTheBestWayThere) {
  h.inject("c1", report_of({{3, 51'200}}));
  h.inject("c2", report_of({{3, 25'600}}));
  fill_l2();
  h.take("l1");
  h.advance_ns(50 * kUs);
  const auto entries = told("l1");
  ASSERT_EQ(entries.size(), 2u);
  EXPECT_EQ(entries[0].leaf, 2);
  EXPECT_GE(entries[0].bytes, 100u * 1024 - 256);
  EXPECT_EQ(entries[1], (GemmaEntry{3, 25'600}));
  ASSERT_EQ(h.exclude("c2", true), "");
  h.advance_ns(50 * kUs);
  EXPECT_EQ(told("l1").at(1), (GemmaEntry{3, 51'200}));
  h.block_device("l2", false);
}

TEST_F(GemmaReporting, ReportsAreRareWhileQueuesAreShortAndFrequentWhenOneIsLong) {
  h.advance_ns(500 * kUs);
  reports("l1");
  h.advance_ns(400 * kUs);
  EXPECT_EQ(reports("l1"), 10u);
  fill_l2();
  h.advance_ns(5 * kUs);
  EXPECT_GE(reports("l1"), 1u) << "at the next look";
  for (int look = 0; look < 20; ++look) {
    h.advance_ns(5 * kUs);
    EXPECT_EQ(reports("l1"), 1u) << look;
  }
  h.block_device("l2", false);
}

TEST_F(GemmaReporting, ALinkThatIsDownIsTheLongestQueue) {
  h.set_link("l2", false);
  h.advance_ns(50 * kUs);
  EXPECT_EQ(told("l1").at(0), (GemmaEntry{2, 0xffff * kReportUnitBytes}));
}

TEST_F(GemmaReporting, ShowsWhatItTellsAndWasTold) {
  h.inject("c2", report_of({{3, 25'600}, {77, 0}}));
  h.advance_ns(50 * kUs);
  const auto rows = h.rows("gemma");
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[0]["direction"], "told");
  EXPECT_EQ(rows[0]["port"], "c2");
  EXPECT_EQ(rows[0]["leaves"], nlohmann::ordered_json::array({3}));
  EXPECT_EQ(rows[0]["bytes"], 25'600);
  EXPECT_EQ(rows[1]["direction"], "tells");
  EXPECT_EQ(rows[1]["port"], "l1");
  EXPECT_GT(rows[1]["interval_us"], 5);
  EXPECT_EQ(counter("gemma_unknown_leaves"), 1u);
}

TEST_F(GemmaReporting, AReloadKeepsWhatIsKnown) {
  h.inject("c1", report_of({{3, 25'600}}));
  h.inject("c2", report_of({{3, 25'600}}));
  h.advance_ns(100 * kUs);
  h.reload(aggregation_yaml());
  h.take("l1");
  h.advance_ns(60 * kUs);
  EXPECT_EQ(told("l1").at(1), (GemmaEntry{3, 25'600}));
  h.reload(aggregation_yaml(", period_us: 10"));
  h.take("l1");
  h.advance_ns(100 * kUs);
  EXPECT_EQ(told("l1").at(1), (GemmaEntry{3, 0})) << "with other options it is told anew";
}

TEST_F(GemmaReporting, OnlyReportsOfNeighboursAboveAreTakenOut) {
  const auto known = [&] { return h.shared<LbTagShared>("lb_tag").downlinks().age(2, 0, h.now()) != kNever; };
  h.inject("l1", report_of({{3, 25'600}}));
  EXPECT_FALSE(known()) << "from below";
  EXPECT_EQ(counter("gemma_unknown_leaves"), 1u);
  Bytes routed = report_of({{3, 25'600}});
  routed[14 + 8] = 254;  // TTL
  h.inject("c1", routed);
  EXPECT_FALSE(known());
  EXPECT_EQ(counter("gemma_strangers"), 1u);
  Bytes lies = report_of({{3, 25'600}});
  lies[14 + 20 + 8 + 9 + 1] = 200;  // entries
  h.inject("c1", lies);
  EXPECT_FALSE(known());
  EXPECT_EQ(counter("malformed"), 1u);
  h.inject("c1", report_of({{3, 25'600}}));
  EXPECT_TRUE(known());
  EXPECT_EQ(counter("gemma_reports"), 2u);
}

// A report has no number: who sends an old one again is on the link itself. The next one corrects it.
TEST_F(GemmaReporting, AReplayedReportCountsUntilTheNextOne) {
  const auto told = [&] {
    h.advance_ns(10 * kUs);
    const auto& table = h.shared<LbTagShared>("lb_tag").downlinks();
    return table.bytes(2, 0, h.now());
  };
  const Bytes old = report_of({{3, 25'600}});
  h.inject("c1", old);
  EXPECT_EQ(told(), 25'600u);
  h.inject("c1", report_of({{3, 0}}));
  EXPECT_EQ(told(), 0u);
  h.inject("c1", old);
  EXPECT_EQ(told(), 25'600u);
  h.inject("c1", report_of({{3, 0}}));
  EXPECT_EQ(told(), 0u);
}

class GemmaLeafTest : public GemmaReporting {
 protected:
  GemmaLeafTest() : GemmaReporting(conga_yaml(gemma_leaf(1))) {}
};

TEST_F(GemmaLeafTest, ATagThatAHostForgesGetsOneAroundIt) {
  const Bytes report = report_of({{2, 500'000}});
  h.inject("h1", report);
  EXPECT_EQ(counter("forged"), 1u);
  EXPECT_EQ(counter("gemma_reports"), 0u);
  FrameBuilder forged = packet(1, 2);
  Bytes frame = forged.build();
  frame[14 + 20 + 2] = kTagUdpPort >> 8;
  frame[14 + 20 + 3] = kTagUdpPort & 0xff;
  h.inject("h1", frame);
  const auto sent = upwards(h);
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(tag_of(sent[0].bytes).leaf, 1);
  EXPECT_EQ(counter("put_on"), 1u);
}

TEST_F(GemmaLeafTest, TagsOfALeafWithoutGemmaAreTakenOff) {
  h.inject("s1", tagged(packet(2, 1), {.leaf = 2}));
  const auto out = h.take("h1");
  ASSERT_EQ(out.size(), 1u);
  EXPECT_EQ(parsed_of(out[0].bytes).kind, wire::FrameKind::roce);
}

TEST(GemmaWithout, ALeafWithoutItDoesNotBelieveReports) {
  Harness h(weft::testing::all_stages(), conga_yaml({}));
  h.inject("s1", report_of({{2, 500'000}}));
  EXPECT_EQ(h.counter("lb_tag", "unknown_version"), 1u);
  EXPECT_EQ(h.take("h1").size(), 0u);
}

TEST(GemmaOptions, MistakesAreNamed) {
  EXPECT_EQ(mistakes(aggregation_yaml()), "");
  EXPECT_THAT(mistakes(conga_yaml(gemma_leaf(1))), HasSubstr("policy gemma: without the stage reorder"));
  EXPECT_THAT(mistakes(conga_yaml({.lb = "{ policy: gemma }"})),
              ::testing::ContainsRegex(":[0-9]+:[0-9]+: policy gemma: lb_tag needs its option 'gemma', on all sw"));
  EXPECT_THAT(mistakes(conga_yaml(gemma_leaf(1, "{}, conweave: {}"))),
              HasSubstr("gemma: a switch has either this or conweave"));
  EXPECT_THAT(mistakes(conga_yaml(gemma_leaf(1, "{ most_us: 4 }"))),
              HasSubstr("most_us must be at least period_us, 5"));
  EXPECT_THAT(mistakes(conga_yaml(gemma_leaf(1, "{ downlinks: [{ port: h1, leaves: [1] }] }"))),
              HasSubstr("downlinks: a leaf has hosts below"));
  EXPECT_THAT(mistakes(conga_yaml(gemma_leaf(1, "{}", "{ max_flows: 6 }"))),
              HasSubstr("gemma: max_flows must be a multiple of 4"));
  EXPECT_THAT(mistakes(aggregation_yaml("", "uplinks: [c1, c2]")),
              HasSubstr("leaves: a switch that chooses among uplinks needs them"));
  EXPECT_THAT(
      mistakes(aggregation_yaml("", "uplinks: [l1], leaves: [{ id: 1, prefixes: [10.0.1.0/24] }]")),
      ::testing::AllOf(HasSubstr("port 'l1' stands twice, or is an uplink"), HasSubstr("leaf 2 is none of 'leaves'")));
  std::string none = aggregation_yaml();
  const std::size_t at = none.find("downlinks: ["), end = none.find(" } }\n", at);
  none.replace(at, end - at, "period_us: 5");
  EXPECT_THAT(mistakes(none), HasSubstr("a switch without 'leaf' needs downlinks"));
  std::string elsewhere = aggregation_yaml();
  elsewhere.replace(elsewhere.find("port: l1, leaves"), 8, "port: border");
  EXPECT_THAT(mistakes(elsewhere), HasSubstr("port: unknown port 'border'; known: l1, l2, c1, c2"));
}

}  // namespace
}  // namespace weft::stages::testing
