// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/config/schema/value_json.h"

#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>

namespace weft::config {
namespace {

TEST(ValueJson, HasEveryKindOfValueAndKeysInTheirOrder) {
  Value inner;
  inner.set("z", Value(true));
  inner.set("a", Value(0.5));
  Value value;
  value.set("text", Value("a \"quoted\" word"));
  value.set("least", Value(std::numeric_limits<std::int64_t>::min()));
  value.set("list", Value(Value::List{Value("parse"), inner, Value(Value::List{})}));
  EXPECT_EQ(to_json(value).dump(),
            R"({"text":"a \"quoted\" word","least":-9223372036854775808,"list":["parse",{"z":true,"a":0.5},[]]})");
}

TEST(ValueJson, NullStaysNullInAMapAndInAList) {
  EXPECT_EQ(to_json(Value()).dump(), "null");
  EXPECT_EQ(to_json(Value(Value::Map{{"lb", Value()}})).dump(), R"({"lb":null})");
  EXPECT_EQ(to_json(Value(Value::List{Value()})).dump(), "[null]");
}

}  // namespace
}  // namespace weft::config
