// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/api/caller.h"

#include <gtest/gtest.h>

namespace weft::api {
namespace {

const Operators kNobody = std::vector<std::string>{};

TEST(Caller, OfTheUnixSocketMayDoEverything) {
  EXPECT_TRUE(Caller{}.is_operator(std::nullopt));
  EXPECT_TRUE(Caller{}.is_operator(kNobody));
  EXPECT_EQ(Caller{}.text(), "");
}

TEST(Caller, WithACertificateMayDoEverythingWhereNoOperatorsAreNamed) {
  EXPECT_TRUE((Caller{true, {"h1"}}.is_operator(std::nullopt)));
  EXPECT_TRUE((Caller{true, {}}.is_operator(std::nullopt)));
}

TEST(Caller, IsAnOperatorByAnyOfItsNamesAsTheyAre) {
  const Operators operators = std::vector<std::string>{"alice", "bob.example"};
  EXPECT_TRUE((Caller{true, {"alice"}}.is_operator(operators)));
  EXPECT_TRUE((Caller{true, {"h1", "bob.example"}}.is_operator(operators)));
  for (const char* name : {"h1", "Alice", "alice2", "alic", "*.example", ""}) {
    EXPECT_FALSE((Caller{true, {name}}.is_operator(operators))) << name;
  }
  EXPECT_FALSE((Caller{true, {}}.is_operator(operators)));
  EXPECT_FALSE((Caller{true, {"alice"}}.is_operator(kNobody))) << "an empty list has nobody";
}

TEST(Caller, TextListsItsNamesAndNobodyForNone) {
  EXPECT_EQ((Caller{true, {"h1", "h1.example"}}.text()), "h1,h1.example");
  EXPECT_EQ((Caller{true, {}}.text()), "(nobody)");
}

}  // namespace
}  // namespace weft::api
