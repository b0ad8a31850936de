// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/pipeline/registry.h"

#include <gtest/gtest.h>

#include "tests/support/config_registry.h"

namespace weft::pipeline {
namespace {

// Mistakes in the order of `stages`, whose i-th stands in line i.
std::string order_of(const std::vector<std::string>& stages) {
  std::vector<StageSpec> specs;
  for (std::size_t i = 0; i < stages.size(); ++i) {
    specs.push_back({stages[i], config::Value(config::Value::Map{}), {"f", static_cast<int>(i) + 1, 5}});
  }
  config::Diagnostics diagnostics;
  check_order(testing::config_registry(), specs, diagnostics);
  return diagnostics.to_string();
}

TEST(Registry, FindsWhatWasAddedAndNothingElse) {
  const Registry registry = testing::config_registry();
  ASSERT_NE(registry.find("l2"), nullptr);
  EXPECT_EQ(registry.find("l2")->name, "l2");
  EXPECT_EQ(registry.find("l4"), nullptr);
  EXPECT_EQ(registry.find(""), nullptr);
  EXPECT_EQ(registry.names(), (std::vector<std::string>{"parse", "mangle", "l2", "l3", "lb"}));
}

TEST(RegistryDeathTest, ASecondStageOfTheSameNameAborts) {
  Registry registry = testing::config_registry();
  EXPECT_DEATH(registry.add({.name = "l2", .summary = "", .options = config::Schema(), .make = {}}),
               "'l2' is registered twice");
}

TEST(CheckOrder, AcceptsEveryOrderInWhichNeedsComeFirst) {
  EXPECT_EQ(order_of({"parse", "l2"}), "");
  EXPECT_EQ(order_of({"parse", "mangle", "l3", "lb"}), "");
  EXPECT_EQ(order_of({"parse", "l3", "mangle", "lb"}), "");
  EXPECT_EQ(order_of({}), "");
}

TEST(CheckOrder, ReportsANeedThatNoEarlierStageProvides) {
  EXPECT_EQ(order_of({"l2"}), "f:1:5: stage 'l2' needs parse before it\n");
  EXPECT_EQ(order_of({"parse", "lb"}), "f:2:5: stage 'lb' needs l3 before it\n");
}

TEST(CheckOrder, SaysThatTheNeededStageComesTooLate) {
  EXPECT_EQ(order_of({"l2", "parse"}), "f:1:5: stage 'l2' needs parse before it, not after it\n");
}

TEST(CheckOrder, ReportsEachStageThatStandsTwiceAtItsSecondPlace) {
  EXPECT_EQ(order_of({"parse", "l2", "parse"}), "f:3:5: stage 'parse' stands twice in the pipeline, first at line 1\n");
}

TEST(CheckOrder, ReportsUnknownStagesAndNoNeedsThatTheyMayProvide) {
  EXPECT_EQ(order_of({"prase", "l2"}), "f:1:5: unknown stage 'prase'; did you mean 'parse'?\n");
}

TEST(CheckOrder, ReportsANeedThatNoStageOfTheProgramProvides) {
  Registry registry;
  registry.add({.name = "inc", .summary = "", .needs = {"groups"}, .options = config::Schema(), .make = {}});
  config::Diagnostics diagnostics;
  check_order(registry, {{"inc", config::Value(config::Value::Map{}), {"f", 1, 1}}}, diagnostics);
  EXPECT_EQ(diagnostics.to_string(), "f:1:1: stage 'inc' needs 'groups', which no stage provides\n");
}

}  // namespace
}  // namespace weft::pipeline
