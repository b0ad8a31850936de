// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// What the search finds in the slot rules of SwitchML and ATP. The same faults find nothing in weft's engine:
// tests/collectives/engine/exhaustive_test.cc has its Mode II with packets in any order and timeouts at any time.
#include <gtest/gtest.h>

#include <cstdio>

#include "tests/collectives/comparators/atp.h"
#include "tests/collectives/comparators/switchml.h"

namespace weft::inc::comparators {
namespace {

template <class Model>
Found explore(const char* name, Model model) {
  const Found found = Search<Model>(std::move(model)).run();
  std::printf("%s: %llu states, %llu transitions; %s\n", name, static_cast<unsigned long long>(found.states),
              static_cast<unsigned long long>(found.transitions),
              found.violation.empty() ? "nothing found" : found.violation.c_str());
  return found;
}

TEST(SwitchMlSlots, SurviveLossesAndTimeoutsWhilePacketsKeepTheirOrder) {
  EXPECT_EQ(explore("two losses", SwitchMl({.losses = 2})).violation, "");
  EXPECT_EQ(explore("a loss, timeouts too early", SwitchMl({.losses = 1, .early_timeouts = 2})).violation, "");
  EXPECT_EQ(explore("a duplicate next to its like", SwitchMl({.losses = 1, .duplicates = 1})).violation, "");
}

TEST(SwitchMlSlots, SurviveAnyOrderWhileNothingIsSentTwice) {
  EXPECT_EQ(explore("any order", SwitchMl({.any_order = true})).violation, "");
}

TEST(SwitchMlSlots, TakeAnOldPacketForANewOne) {
  const Found doubled = explore("any order, a duplicate", SwitchMl({.duplicates = 1, .any_order = true}));
  EXPECT_TRUE(doubled.violation.starts_with("a result is not what a single machine would add up"));
  // The loss makes both workers send again, also the one whose packet waits in the switch.
  const Found lost = explore("any order, a loss", SwitchMl({.losses = 1, .any_order = true}));
  EXPECT_TRUE(lost.violation.starts_with("a result is not what a single machine would add up"));
  const Found early = explore("any order, a timeout too early", SwitchMl({.early_timeouts = 1, .any_order = true}));
  EXPECT_TRUE(early.violation.starts_with("a result is not what a single machine would add up"));
}

TEST(AtpAggregators, ResultsAreRight) {
  EXPECT_EQ(explore("two losses", Atp({.losses = 2}, false)).violation, "");
  EXPECT_EQ(explore("any order, a loss", Atp({.losses = 1, .any_order = true}, false)).violation, "");
  EXPECT_EQ(explore("any order, a duplicate", Atp({.duplicates = 1, .any_order = true}, false)).violation, "");
  EXPECT_EQ(explore("a loss, a timeout too early", Atp({.losses = 1, .early_timeouts = 1}, false)).violation, "");
}

TEST(AtpAggregators, AreAllFreeAtTheEndWhilePacketsKeepTheirOrder) {
  EXPECT_EQ(explore("no fault", Atp({}, true)).violation, "");
  EXPECT_EQ(explore("a loss", Atp({.losses = 1}, true)).violation, "");
}

TEST(AtpAggregators, StayClaimedByAPacketThatComesTooLate) {
  const Found late = explore("any order, a duplicate", Atp({.duplicates = 1, .any_order = true}, true));
  EXPECT_TRUE(late.violation.starts_with("an aggregator is never freed"));
}

}  // namespace
}  // namespace weft::inc::comparators
