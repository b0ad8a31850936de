// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "tools/weft-inc/child.h"

#include <gmock/gmock.h>

namespace weft::inc_tool {
namespace {

using testing::HasSubstr;

constexpr std::chrono::milliseconds kPatience{20'000};

std::optional<std::string> shell(const std::string& text, std::string& error,
                                 std::chrono::milliseconds limit = kPatience, std::size_t most = 1000) {
  return output_of({"sh", "-c", text}, limit, most, error);
}

TEST(Child, WhatItPrintsIsReturned) {
  std::string error;
  EXPECT_EQ(shell("echo a; sleep 0.05; echo b", error), "a\nb\n");
  EXPECT_EQ(shell(":", error), "");
  EXPECT_EQ(shell("printf %1000s", error)->size(), 1000u);
  EXPECT_EQ(error, "");
}

TEST(Child, WhatFailsIsSaid) {
  std::string error;
  EXPECT_EQ(shell("echo a; exit 3", error), std::nullopt);
  EXPECT_EQ(error, "sh failed");
  EXPECT_EQ(shell("kill -9 $$", error), std::nullopt);
  EXPECT_EQ(output_of({"/no/such/program"}, kPatience, 10, error), std::nullopt);
  EXPECT_THAT(error, HasSubstr("cannot start /no/such/program"));
}

TEST(Child, NoneIsWaitedForTooLong) {
  std::string error;
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(shell("exec sleep 60", error, std::chrono::milliseconds(50)), std::nullopt);
  EXPECT_THAT(error, HasSubstr("in time"));
  EXPECT_EQ(shell("exec >&-; exec sleep 60", error, std::chrono::milliseconds(50)), std::nullopt);
  EXPECT_THAT(error, HasSubstr("does not end"));
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(30));
}

TEST(Child, NonePrintsWithoutEnd) {
  std::string error;
  EXPECT_EQ(shell("exec cat /dev/zero", error), std::nullopt);
  EXPECT_THAT(error, HasSubstr("more than 1000 bytes"));
}

}  // namespace
}  // namespace weft::inc_tool
