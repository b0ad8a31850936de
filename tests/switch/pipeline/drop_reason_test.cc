// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/pipeline/drop_reason.h"

#include <gmock/gmock.h>

#include <set>
#include <string>

namespace weft::pipeline {
namespace {

TEST(DropReason, EveryReasonIsFoundByItsName) {
  for (std::size_t i = 0; i < kDropReasonCount; ++i) {
    const auto reason = static_cast<DropReason>(i);
    EXPECT_EQ(drop_reason_from(info(reason).name), reason) << info(reason).name;
  }
  EXPECT_EQ(drop_reason_from("no_such_reason"), std::nullopt);
  EXPECT_EQ(drop_reason_from(""), std::nullopt);
  EXPECT_EQ(info(DropReason::shutdown).name, "shutdown");
}

TEST(DropReason, NamesAreUniqueLowerCaseWords) {
  std::set<std::string_view> names;
  for (const DropReasonInfo& reason : kDropReasons) {
    EXPECT_TRUE(names.insert(reason.name).second) << reason.name;
    EXPECT_THAT(std::string(reason.name), testing::MatchesRegex("[a-z][a-z0-9_]*"));
  }
}

TEST(DropReason, TextsAreSentences) {
  for (const DropReasonInfo& reason : kDropReasons) {
    ASSERT_GT(reason.text.size(), 10u) << reason.name;
    const bool capital = reason.text.front() >= 'A' && reason.text.front() <= 'Z';
    EXPECT_TRUE(capital || reason.text.starts_with("weft")) << reason.name;
    EXPECT_EQ(reason.text.back(), '.') << reason.name;
  }
}

TEST(DropReason, SeveritiesHaveNames) {
  EXPECT_EQ(to_string(Severity::info), "info");
  EXPECT_EQ(to_string(Severity::warning), "warning");
  EXPECT_EQ(to_string(Severity::error), "error");
}

}  // namespace
}  // namespace weft::pipeline
