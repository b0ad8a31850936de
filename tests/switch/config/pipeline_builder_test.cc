// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include <gtest/gtest.h>

#include "switch/config/switch_builder.h"
#include "tests/support/config_mistakes.h"

namespace weft::config {
namespace {

using testing::bridge_with;
using testing::expect_accepted;
using testing::expect_mistakes;

// A switch with the port p1 whose pipeline is `items` and whose further keys are `rest`.
std::string with_pipeline(const std::string& items, const std::string& rest = "") {
  return "switches:\n"
         "  - name: s1\n"
         "    ports: [ { name: p1, type: null } ]\n"
         "    pipeline: " +
         items + "\n" + rest;
}

const char* const kAddress = "    addresses: [ { port: p1, address: 10.0.1.1/24 } ]\n";

TEST(PipelineOf, ASwitchKeepsOrderOptionsAndPositions) {
  const auto config = expect_accepted(with_pipeline("[ parse, mangle: { rules: [], rate: 2 }, l2 ]"));
  const auto& stages = config.switches.at(0).pipeline;
  ASSERT_EQ(stages.size(), 3u);
  EXPECT_EQ(stages[1].name, "mangle");
  EXPECT_EQ(stages[1].options["rate"].integer(), 2);
  EXPECT_TRUE(stages[1].options["learn"].boolean());
  EXPECT_EQ(stages[1].mark.line, 4);
  EXPECT_EQ(stages[1].mark.column, 24);
  EXPECT_EQ(stages[2].options["ageing_s"].integer(), 300);
}

TEST(PipelineOf, ASwitchHasAtLeastOneStage) {
  expect_mistakes(with_pipeline("@[]"), {"pipeline: expected at least 1 item, found 0"});
}

TEST(PipelineOf, ASwitchIsInAnOrderThatMeetsEveryNeed) {
  expect_mistakes(with_pipeline("[ @l2, parse ]"), {"stage 'l2' needs parse before it, not after it"});
  expect_mistakes(with_pipeline("[ parse, @lb, l3 ]", kAddress), {"stage 'lb' needs l3 before it, not after it"});
  expect_mistakes(with_pipeline("[ parse, l2, @l2 ]"), {"stage 'l2' stands twice in the pipeline, first at line 4"});
}

TEST(PipelineOf, ASwitchHasExactlyOneStageThatForwards) {
  expect_mistakes(with_pipeline("@[ parse ]"), {"pipeline: no stage decides where packets go; expected l2 or l3"});
  expect_mistakes(with_pipeline("[ parse, l2, @l3 ]", kAddress),
                  {"stage 'l3' forwards, and 'l2' does already; expected one of l2 or l3"});
}

TEST(PipelineOf, AProgramWithoutForwardingStagesNeedsNone) {
  pipeline::Registry registry;
  registry.add({.name = "parse", .summary = "", .options = Schema(), .make = {}});
  Diagnostics diagnostics;
  EXPECT_TRUE(load_config(with_pipeline("[ parse ]"), "f", registry, diagnostics).has_value());
  EXPECT_EQ(diagnostics.to_string(), "");
}

TEST(PipelineOf, ARouterHasAddresses) {
  expect_mistakes(with_pipeline("[ parse, @l3 ]"), {"stage 'l3' needs 'addresses' of the switch, found none"});
  expect_accepted(with_pipeline("[ parse, l3 ]", kAddress));
}

TEST(PipelineOf, ABridgeHasNoSectionsOfARouter) {
  expect_mistakes(bridge_with("    addresses: @[ { port: p1, address: 10.0.1.1/24 } ]\n"
                              "    neighbours: @[ { port: p1, address: 10.0.1.2, mac: 02:00:00:00:00:02 } ]\n"
                              "    routes: @[ { prefix: 10.0.2.0/24, blackhole: true } ]\n"),
                  {"addresses: the pipeline has no stage l3, which alone uses them",
                   "neighbours: the pipeline has no stage l3, which alone uses them",
                   "routes: the pipeline has no stage l3, which alone uses them"});
  expect_accepted(bridge_with("    addresses: []\n    routes: []\n"));
}

TEST(PipelineOf, ARouterHasNoSectionOfABridge) {
  expect_mistakes(testing::router_with("    static_macs: @[ { mac: 02:00:00:00:00:09, port: p1 } ]\n"),
                  {"static_macs: the pipeline has no stage l2, which alone uses them"});
}

TEST(PipelineOf, ARouterWithEqualCostRoutesHasAStageThatChooses) {
  const std::string route = "    routes: [ { prefix: 10.9.0.0/16, via: @[10.0.1.2, 10.0.1.3] } ]\n";
  expect_mistakes(with_pipeline("[ parse, l3 ]", kAddress + route),
                  {"via: 2 next hops need stage lb in the pipeline, after 'l3'"});
  expect_accepted(with_pipeline("[ parse, l3 ]",
                                std::string(kAddress) + "    routes: [ { prefix: 10.9.0.0/16, via: [10.0.1.2] } ]\n"));
  const std::string unmarked = "    routes: [ { prefix: 10.9.0.0/16, via: [10.0.1.2, 10.0.1.3] } ]\n";
  expect_accepted(with_pipeline("[ parse, l3, lb ]", kAddress + unmarked));
}

TEST(PipelineOf, ASwitchRunsTheChecksOfItsStages) {
  expect_mistakes(with_pipeline("[ parse, mangle: { rules: [], rate: @13 }, l2 ]"), {"rate: unlucky"});
}

TEST(PipelineOf, AStageWithWrongOptionsIsNotAskedForMore) {
  expect_mistakes(with_pipeline("[ parse, mangle: { rules: @5, rate: 13 }, l2 ]"), {"rules: expected a list, found 5"});
}

TEST(PipelineOf, ASwitchReportsMistakesInNestedOptionsWhereTheyStand) {
  expect_mistakes(R"(
switches:
  - name: s1
    ports: [ { name: p1, type: null } ]
    pipeline:
      - parse
      - mangle:
          rules:
            - { action: drop, ratio: @1.5 }
            - { action: @drp, ratio: 0.5 }
            - @{ action: delay }
            - { @delay_ns: 5, action: drop, ratio: 0 }
          learn: @yes
          @rat: 5
      - l2: @[]
)",
                  {"ratio: expected a number from 0 to 1, found 1.5",
                   "action: expected one of drop, delay, found 'drp'; did you mean 'drop'?",
                   "rules[2]: missing key 'delay_ns' (an integer from 0 to 1000)",
                   "rules[3]: unknown key 'delay_ns'; known: ratio, action",
                   "learn: expected true or false, found 'yes'; write true",
                   "mangle: unknown key 'rat'; did you mean 'rate'?", "l2: expected a map, found a list"});
}

TEST(PipelineOf, ADefaultThatAStageRefusesIsReportedAtTheStage) {
  auto registry = testing::config_registry();
  registry.add({.name = "picky",
                .summary = "",
                .options = Schema::map({Schema::Key::with_default("n", Schema::integer(0, 9), Value(1), "")}),
                .check =
                    [](const Value& options, const pipeline::SwitchInfo& info, Diagnostics& found) {
                      found.error(options["n"].mark(), "n: not with " + std::to_string(info.ports.size()) + " port");
                      found.note(options["n"].mark(), "n: really");
                    },
                .make = {}});
  Diagnostics diagnostics;
  EXPECT_FALSE(load_config(with_pipeline("[ parse, picky, l2 ]"), "f", registry, diagnostics).has_value());
  EXPECT_EQ(diagnostics.to_string(), "f:4:24: n: not with 1 port\nf:4:24: note: n: really\n");
}

}  // namespace
}  // namespace weft::config
