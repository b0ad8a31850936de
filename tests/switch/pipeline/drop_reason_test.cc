// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/pipeline/drop_reason.h"

#include <gmock/gmock.h>

#include <set>
#include <string>

#include "switch/stages/impair/drops.h"
#include "tests/support/all_stages.h"

namespace weft::pipeline {
namespace {

TEST(DropReason, EveryReasonIsFoundByItsName) {
  const DropReasons& reasons = testing::all_stages().drop_reasons();
  ASSERT_GT(reasons.all().size(), kEngineDrops.size());
  for (const DropReason reason : reasons.all()) EXPECT_EQ(reasons.find(reasons[reason].name), reason);
  EXPECT_EQ(reasons.find("no_such_reason"), std::nullopt);
  EXPECT_EQ(reasons.find(""), std::nullopt);
  EXPECT_EQ(reasons[DropReason::shutdown].name, "shutdown");
  EXPECT_EQ(reasons[stages::ImpairDrop::impair_rate].name, "impair_rate");
}

TEST(DropReason, NamesAreLowerCaseWordsAndTextsAreSentences) {
  const DropReasons& reasons = testing::all_stages().drop_reasons();
  for (const DropReason reason : reasons.all()) {
    const auto& [name, severity, text] = reasons[reason];
    EXPECT_THAT(std::string(name), ::testing::MatchesRegex("[a-z][a-z0-9_]*"));
    ASSERT_GT(text.size(), 10u) << name;
    const bool capital = text.front() >= 'A' && text.front() <= 'Z';
    EXPECT_TRUE(capital || text.starts_with("weft")) << name;
    EXPECT_EQ(text.back(), '.') << name;
  }
}

TEST(DropReason, ABinaryWithoutAModuleDoesNotKnowItsReasons) {
  const DropReasons engine;
  EXPECT_EQ(engine.all().size(), kEngineDrops.size());
  EXPECT_EQ(engine.find("impair_loss"), std::nullopt);
  EXPECT_EQ(engine[stages::ImpairDrop::impair_loss].name, "undeclared");
  EXPECT_EQ(engine[stages::ImpairDrop::impair_loss].severity, Severity::error);
}

constexpr std::array kOther{DropReasonInfo{"group_unknown", Severity::warning, "The packet names no known group."}};

TEST(DropReason, AModuleOfAnotherFolderAddsItsOwn) {
  DropReasons reasons;
  reasons.add({"inc", 160, kOther});
  reasons.add({"inc", 160, kOther});
  EXPECT_EQ(reasons.find("group_unknown"), DropReason{160});
  EXPECT_EQ(reasons.all().size(), kEngineDrops.size() + 1);
}

TEST(DropReasonDeathTest, TwoModulesMayNotClaimTheSameValueOrName) {
  DropReasons reasons;
  reasons.add({"inc", 160, kOther});
  EXPECT_DEATH(reasons.add({"other", 160, kOther}), "'group_unknown' of module 'other'.*taken by module 'inc'");
  EXPECT_DEATH(reasons.add({"other", 176, kOther}), "'group_unknown' of module 'other'.*taken by module 'inc'");
  EXPECT_DEATH(reasons.add({"other", 0, kOther}), "taken by module 'pipeline'");
}

TEST(DropReason, SeveritiesHaveNames) {
  EXPECT_EQ(to_string(Severity::info), "info");
  EXPECT_EQ(to_string(Severity::warning), "warning");
  EXPECT_EQ(to_string(Severity::error), "error");
}

}  // namespace
}  // namespace weft::pipeline
