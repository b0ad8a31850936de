// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/pipeline/set_words.h"

#include <gtest/gtest.h>

#include <vector>

namespace weft::pipeline {
namespace {

using Key = config::Schema::Key;

config::Schema schema() {
  return config::Schema::map(
      {Key::with_default("enabled", config::Schema::boolean(), config::Value(true), "Whether it does anything."),
       Key::with_default("guard_us", config::Schema::integer(0, 100), config::Value(10), "How long."),
       Key::optional_key("weights", config::Schema::dictionary(config::Schema::integer(1, 64)), "Shares.")});
}

// What no schema can say: an odd guard is wrong.
void check(const config::Value& options, const SwitchInfo&, config::Diagnostics& diagnostics) {
  if (options["guard_us"].integer() % 2 != 0) diagnostics.error({}, "guard_us: must be even");
}

config::Value defaults() {
  config::Diagnostics diagnostics;
  return config::validate(schema(), config::DocumentNode(config::DocumentNode::Kind::map), "stage", nullptr,
                          diagnostics);
}

OptionChange set(const config::Value& options, const std::vector<std::string>& words) {
  return set_by_words("stage", schema(), check, options, SwitchInfo{}, words);
}

TEST(SetWords, ChangesWhatTheyNameAndLeaveTheRest) {
  const OptionChange once = set(defaults(), {"guard_us=20", "weights.s1=3"});
  EXPECT_EQ(once.error, "");
  EXPECT_EQ(once.done, "stage guard_us=20 weights.s1=3");
  EXPECT_TRUE(once.remake);
  EXPECT_EQ(once.options["guard_us"].integer(), 20);
  EXPECT_EQ(once.options["weights"]["s1"].integer(), 3);
  EXPECT_TRUE(once.options["enabled"].boolean());
  const OptionChange twice = set(once.options, {"off", "weights=", "guard_us="});
  EXPECT_EQ(twice.error, "");
  EXPECT_FALSE(twice.options["enabled"].boolean());
  EXPECT_FALSE(twice.options.has("weights"));
  EXPECT_EQ(twice.options["guard_us"].integer(), 10) << "its default";
  EXPECT_TRUE(set(twice.options, {"on"}).options["enabled"].boolean());
}

TEST(SetWords, SayWhatIsWrong) {
  EXPECT_EQ(set(defaults(), {}).error, "stage takes what to change: KEY=VALUE");
  EXPECT_EQ(set(defaults(), {"guard_u=5"}).error, "unknown key 'guard_u'; did you mean 'guard_us'?");
  EXPECT_EQ(set(defaults(), {"of"}).error, "'of' is neither on, nor off, nor KEY=VALUE");
  EXPECT_EQ(set(defaults(), {"=5"}).error, "'=5' is neither on, nor off, nor KEY=VALUE");
  EXPECT_EQ(set(defaults(), {"guard_us=200"}).error, "guard_us: expected an integer from 0 to 100, found 200");
  EXPECT_EQ(set(defaults(), {"guard_us=5"}).error, "guard_us: must be even");
  config::DocumentNode map(config::DocumentNode::Kind::map);
  const config::Schema bare =
      config::Schema::map({Key::optional_key("policy", config::Schema::one_of({"a", "b"}), "Which.")});
  EXPECT_EQ(apply_word(map, "off", bare), "'off' is not KEY=VALUE") << "there is nothing to switch off";
}

}  // namespace
}  // namespace weft::pipeline
