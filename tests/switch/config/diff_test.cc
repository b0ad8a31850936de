// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/config/diff.h"

#include <gmock/gmock.h>

#include <map>
#include <nlohmann/json.hpp>

#include "tests/support/config_mistakes.h"

namespace weft::testing {
namespace {

using config::config_changes;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<std::string> changes(const std::string& from, const std::string& to) {
  std::vector<std::string> out;
  const auto registry = config_registry();
  for (const auto& change : config_changes(expect_accepted(from), expect_accepted(to), registry)) {
    out.push_back(config::to_string(change) + (change.refused.empty() ? "" : " (refused)"));
  }
  return out;
}

// A file with the ports and the pipeline of a bridge.
std::string bridge(const std::string& ports, const std::string& pipeline = "[parse, l2]",
                   const std::string& more = "") {
  return "switches:\n  - name: s1\n    ports: [" + ports + "]\n    pipeline: " + pipeline + "\n" + more;
}
const std::string kP1 = "{ name: p1, type: null }";
const std::string kP2 = "{ name: p2, type: null }";

TEST(ConfigDiff, FilesThatMeanTheSameDoNotDiffer) {
  EXPECT_THAT(changes(bridge(kP1 + "," + kP2), bridge("{ type: null, name: p1, rate_mbps: 0 }, # the first\n" + kP2,
                                                      "[parse: {}, l2: { ageing_s: 300 }]")),
              IsEmpty());
}

TEST(ConfigDiff, PortsAreMatchedByName) {
  EXPECT_THAT(
      changes(bridge(kP1 + "," + kP2), bridge("{ name: p2, type: null, rate_mbps: 7 }, { name: p3, type: null }")),
      ElementsAre("s1: port p2 rate_mbps: 0 -> 7", "s1: port p3 added", "s1: port p1 removed"));
}

TEST(ConfigDiff, KeysOfMapsAreNamedByTheirPath) {
  EXPECT_THAT(changes(bridge("{ name: p1, type: null, trunk: { vlans: [2, 3] } }"),
                      bridge("{ name: p1, type: null, trunk: { vlans: [2, 4], native: 9 } }")),
              ElementsAre("s1: port p1 trunk.vlans: [2,3] -> [2,4]", "s1: port p1 trunk.native: not set -> 9"));
}

TEST(ConfigDiff, TheKernelComesChangesAndGoesAsAnythingElse) {
  const std::string few = "    kernel: { packets_per_s: 5 }\n";
  EXPECT_THAT(changes(bridge(kP1), bridge(kP1, "[parse, l2]", few)), ElementsAre(::testing::StartsWith("s1: kernel")));
  EXPECT_THAT(changes(bridge(kP1, "[parse, l2]", few), bridge(kP1, "[parse, l2]", "    kernel: { prefix: x }\n")),
              ElementsAre("s1: kernel prefix:  -> x", "s1: kernel packets_per_s: 5 -> 10000"));
  EXPECT_THAT(changes(bridge(kP1, "[parse, l2]", few), bridge(kP1 + "," + kP2, "[parse, l2]", few)),
              ElementsAre("s1: port p2 added"));
}

TEST(ConfigDiff, QosChangesButNeitherComesNorGoes) {
  const auto qos = [](const std::string& speed) { return "    qos: { PORT: { all: { speed: " + speed + " } } }\n"; };
  EXPECT_THAT(changes(bridge(kP1, "[parse, l2]", qos("1000")), bridge(kP1, "[parse, l2]", qos("2000"))),
              ElementsAre("s1: qos PORT.all.speed: 1000 -> 2000"));
  EXPECT_THAT(changes(bridge(kP1), bridge(kP1, "[parse, l2]", "    qos: {}\n")),
              ElementsAre(::testing::EndsWith(" (refused)")));
  EXPECT_THAT(changes(bridge(kP1, "[parse, l2]", "    qos: {}\n"), bridge(kP1)),
              ElementsAre(::testing::EndsWith(" (refused)")));
}

TEST(ConfigDiff, StagesAreMatchedByNameAndTheirOrderCounts) {
  const std::string mangle = "mangle: { rules: [] }";
  EXPECT_THAT(changes(bridge(kP1, "[parse, " + mangle + ", l2]"), bridge(kP1, "[parse, l2: { ageing_s: 5 }]")),
              ElementsAre("s1: stage l2 ageing_s: 300 -> 5", "s1: stage mangle removed"));
  EXPECT_THAT(changes(bridge(kP1, "[parse, l2, " + mangle + "]"), bridge(kP1, "[parse, " + mangle + ", l2]")),
              ElementsAre("s1: pipeline: [\"parse\",\"l2\",\"mangle\"] -> [\"parse\",\"mangle\",\"l2\"]"));
}

TEST(ConfigDiff, RoutesAndAddressesAreMatchedByWhatTheyAreFor) {
  const auto with = [](const std::string& routes) { return router_with("    routes: [" + routes + "]\n"); };
  EXPECT_THAT(changes(with("{ prefix: 20.0.0.0/8, via: [10.0.1.2] }, { prefix: 30.0.0.0/8, blackhole: true }"),
                      with("{ prefix: 40.0.0.0/8, blackhole: true }, { prefix: 20.0.0.0/8, via: [10.0.2.2] }")),
              ElementsAre("s1: route 40.0.0.0/8 added", "s1: route 20.0.0.0/8 via: [\"10.0.1.2\"] -> [\"10.0.2.2\"]",
                          "s1: route 30.0.0.0/8 removed"));
}

TEST(ConfigDiff, SwitchesComeAndGo) {
  const std::string second = "  - { name: s2, ports: [{ name: p1, type: null }], pipeline: [parse, l2] }\n";
  EXPECT_THAT(changes(bridge(kP1), bridge(kP1, "[parse, l2]", second)), ElementsAre("s2: switch added"));
  EXPECT_THAT(changes(bridge(kP1, "[parse, l2]", second), bridge(kP1)), ElementsAre("s2: switch removed"));
}

TEST(ConfigDiff, WhatOnlyARestartChangesIsRefused) {
  EXPECT_THAT(changes(bridge(kP1), "eal: { burst: 8 }\nsteer: qp\nlog: { level: debug }\nidle: poll\n" + bridge(kP1)),
              ElementsAre("eal burst: 32 -> 8 (refused)", "steer: ip_pair -> qp (refused)", "log level: info -> debug",
                          "idle: adaptive -> poll"));
}

TEST(ConfigDiff, APortKeepsItsWorker) {
  const std::string workers = "eal: { workers: [0, 1] }\n";
  EXPECT_THAT(
      changes(workers + bridge("{ name: p1, type: null, worker: 0 }"),
              workers + bridge("{ name: p1, type: null, worker: 1, queue_packets: 7 }")),
      ::testing::UnorderedElementsAre("s1: port p1 queue_packets: 1024 -> 7", "s1: port p1 worker: 0 -> 1 (refused)"));
}

TEST(ConfigDiff, OptionsThatAStageCallsFixedAreRefused) {
  const pipeline::Registry all = config_registry();
  pipeline::Registry registry;
  for (pipeline::StageType type : all.types()) {
    if (type.name == "l2") type.fixed_options = {"ageing_s"};
    registry.add(std::move(type));
  }
  const auto found = config_changes(expect_accepted(bridge(kP1)),
                                    expect_accepted(bridge(kP1, "[parse, l2: { ageing_s: 5 }]")), registry);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].refused, "cannot change while weft runs; restart it");
  EXPECT_EQ(found[0].mark.line, 4);
  EXPECT_EQ(found[0].mark.column, 39);
}

TEST(ConfigDiff, RowsSayWhatWasWrittenAndNoDefaults) {
  const auto registry = config_registry();
  const auto found = config_changes(expect_accepted(bridge(kP1)), expect_accepted(bridge(kP1 + "," + kP2)), registry);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(config::change_row(found[0]).dump(),
            R"({"switch":"s1","change":"added","what":"port p2","key":"","from":null,)"
            R"("to":{"type":"null","name":"p2"},"refused":""})");
}

TEST(ConfigDiff, TheTableOfAConfigurationHasEveryValue) {
  const auto rows =
      config::config_rows(expect_accepted(router_with("    routes: [{ prefix: 20.0.0.0/8, blackhole: true }]\n")));
  std::map<std::string, std::string> values;
  for (const auto& row : rows)
    values[row["switch"].get<std::string>() + "|" + row["key"].get<std::string>()] = row["value"].dump();
  EXPECT_EQ(values["|eal.burst"], "32");
  EXPECT_EQ(values["s1|ports[p2].type"], "\"null\"");
  EXPECT_EQ(values["s1|addresses[p2 10.0.2.1/24].port"], "\"p2\"");
  EXPECT_EQ(values["s1|routes[20.0.0.0/8].blackhole"], "true");
  EXPECT_EQ(values["s1|pipeline[2].lb.policy"], "\"ecmp\"");
}

}  // namespace
}  // namespace weft::testing
