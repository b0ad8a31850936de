// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/pipeline/registry.h"

#include <gtest/gtest.h>

#include <functional>

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

// A registry of stages `a`, `b` and `holder` without options, after `change` has been made to `b`.
std::string order_with(const std::function<void(StageType&)>& change, const std::vector<std::string>& stages) {
  Registry registry;
  for (const std::string name : {"a", "b", "holder"}) {
    StageType type{.name = name, .summary = "", .options = config::Schema::map({}), .make = {}};
    type.holds_packets = name == "holder";
    if (name == "a") type.provides = {"letters"};
    if (name == "b") change(type);
    registry.add(std::move(type));
  }
  std::vector<StageSpec> specs;
  for (std::size_t i = 0; i < stages.size(); ++i) {
    specs.push_back({stages[i], config::Value(config::Value::Map{}), {"f", static_cast<int>(i) + 1, 5}});
  }
  config::Diagnostics diagnostics;
  check_order(registry, specs, diagnostics);
  return diagnostics.to_string();
}

TEST(CheckOrder, AStageStandsBeforeThoseThatItNames) {
  const auto before = [](StageType& type) { type.before = {{"a", "it goes first"}}; };
  EXPECT_EQ(order_with(before, {"b", "a"}), "");
  EXPECT_EQ(order_with(before, {"b"}), "");
  EXPECT_EQ(order_with(before, {"holder", "a", "b"}), "f:3:5: stage 'b' must stand before 'a': it goes first\n");
}

TEST(CheckOrder, AStageThatMustBeThereIsMissedWhereverItShouldStand) {
  const auto before = [](StageType& type) { type.before = {{"a", "it goes first", true}}; };
  EXPECT_EQ(order_with(before, {"b", "a"}), "");
  EXPECT_EQ(order_with(before, {"holder", "b"}),
            "f:2:5: stage 'b' must stand before 'a', which the pipeline does not have: it goes first\n");
  EXPECT_EQ(order_with(before, {"b", "aa"}), "f:2:5: unknown stage 'aa'; did you mean 'a'?\n")
      << "the one that is missing, misspelt";
  const auto after = [](StageType& type) { type.after = {{"a", "", true}}; };
  EXPECT_EQ(order_with(after, {"a", "b"}), "");
  EXPECT_EQ(order_with(after, {"b"}), "f:1:5: stage 'b' must stand after 'a', which the pipeline does not have\n");
}

TEST(CheckOrder, AnOptionExcludesStagesWhereverTheyStand) {
  const auto excludes = [](StageType& type) {
    type.option_order = [](const config::Value&) -> std::vector<OptionOrder> {
      return {{.what = "mode x", .excludes = {{"a", "it hides packets"}}}};
    };
  };
  EXPECT_EQ(order_with(excludes, {"b"}), "");
  EXPECT_EQ(order_with(excludes, {"b", "a"}),
            "f:2:5: stage 'a' cannot stand in one pipeline with mode x: it hides packets\n");
  EXPECT_EQ(order_with(excludes, {"a", "b"}),
            "f:1:5: stage 'a' cannot stand in one pipeline with mode x: it hides packets\n");
}

TEST(CheckOrder, AStageStandsAfterThoseThatItNames) {
  const auto after = [](StageType& type) { type.after = {{"a", ""}}; };
  EXPECT_EQ(order_with(after, {"a", "b"}), "");
  EXPECT_EQ(order_with(after, {"b"}), "");
  EXPECT_EQ(order_with(after, {"b", "holder", "a"}), "f:1:5: stage 'b' must stand after 'a'\n");
}

TEST(CheckOrder, NothingThatHoldsPacketsStandsBetweenAdjacentStages) {
  const auto adjacent = [](StageType& type) { type.adjacent = {{"a", "its letters are of the moment"}}; };
  EXPECT_EQ(order_with(adjacent, {"a", "b", "holder"}), "");
  EXPECT_EQ(order_with(adjacent, {"holder", "a", "b"}), "");
  EXPECT_EQ(order_with(adjacent, {"holder", "b"}), "");
  EXPECT_EQ(order_with(adjacent, {"a", "holder", "b"}),
            "f:2:5: stage 'holder' may hold packets, so it cannot stand between 'a' and 'b': its letters are of the "
            "moment; expected before 'a' or after 'b'\n");
}

TEST(CheckOrder, TheValueOfAnOptionMayAskForMore) {
  const auto option = [](StageType& type) {
    type.option_order = [](const config::Value&) -> std::vector<OptionOrder> {
      std::vector<OptionOrder> order(1);
      order[0].mark = {"f", 9, 7};
      order[0].what = "mode quick";
      order[0].needs = {"letters"};
      order[0].after = {{"holder", "it decides"}};
      return order;
    };
  };
  EXPECT_EQ(order_with(option, {"a", "holder", "b"}), "");
  EXPECT_EQ(order_with(option, {"b", "a"}), "f:9:7: mode quick needs a before it, not after it\n");
  EXPECT_EQ(order_with(option, {"a", "b", "holder"}), "f:9:7: mode quick needs stage 'b' after 'holder': it decides\n");
}

TEST(OrderMistakes, AreThoseOfTheOtherOptions) {
  Registry registry;
  registry.add({.name = "a",
                .summary = "",
                .option_order = [](const config::Value& options) -> std::vector<OptionOrder> {
                  std::vector<OptionOrder> order(options["picky"].boolean() ? 1 : 0);
                  for (OptionOrder& picky : order) {
                    picky.what = "picky";
                    picky.needs = {"letters"};
                  }
                  return order;
                },
                .options = config::Schema(),
                .make = {}});
  const auto options = [](bool picky) { return config::Value(config::Value::Map{{"picky", config::Value(picky)}}); };
  const std::vector<StageSpec> stages{{"a", options(false), {"f", 1, 1}}};
  EXPECT_EQ(order_mistakes(registry, stages, 0, options(false)), "");
  EXPECT_EQ(order_mistakes(registry, stages, 0, options(true)), "picky needs 'letters', which no stage provides");
}

}  // namespace
}  // namespace weft::pipeline
