// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/config/schema/schema.h"

#include <gtest/gtest.h>

#include "switch/config/schema/schema_node.h"

namespace weft::config {
namespace {

using Key = Schema::Key;

TEST(SchemaDeathTest, ADefaultThatItsSchemaRefusesAborts) {
  EXPECT_DEATH(Key::with_default("n", Schema::integer(0, 9), Value(10), ""),
               "expected an integer from 0 to 9, found 10");
  EXPECT_DEATH(Key::with_default("n", Schema::integer(0, 9), Value("1"), ""), "found the text '1'");
}

TEST(ValueDeathTest, ReadingAnotherTypeThanPromisedAborts) {
  EXPECT_DEATH((void)Value(1).string(), "read as a type");
  EXPECT_DEATH((void)Value("1").integer(), "read as a type");
  EXPECT_DEATH((void)Value().list(), "read as a type");
}

TEST(Value, ALiteralIsAStringAndAnyIntegerAnInteger) {
  EXPECT_EQ(Value("ecmp").string(), "ecmp");
  EXPECT_EQ(Value(5u).integer(), 5);
  EXPECT_EQ(Value(std::uint16_t{5}).unsigned_integer(), 5u);
  EXPECT_DOUBLE_EQ(Value(5).number(), 5.0);
  EXPECT_TRUE(Value(true).boolean());
}

TEST(Value, SetAddsAndReplacesChildren) {
  Value value;
  value.set("a", Value(1));
  value.set("b", Value(2));
  value.set("a", Value(3));
  EXPECT_EQ(value["a"].integer(), 3);
  EXPECT_EQ(value.map().size(), 2u);
  EXPECT_TRUE(value["c"].is_null());
}

TEST(Diagnostics, AreListedInTheOrderOfTheFileAndOnceEach) {
  Diagnostics diagnostics;
  diagnostics.error({"f", 10, 1}, "third");
  diagnostics.error({"f", 2, 9}, "second");
  diagnostics.note({"f", 1, 1}, "a thought");
  diagnostics.error({"f", 2, 3}, "first");
  diagnostics.error({"f", 2, 9}, "second");
  diagnostics.error({"f", 0, 0}, "whole file");
  EXPECT_EQ(diagnostics.to_string(),
            "f: whole file\nf:2:3: first\nf:2:9: second\nf:10:1: third\nf:1:1: note: a thought\n");
  EXPECT_FALSE(diagnostics.ok());
}

TEST(Diagnostics, NotesAloneAreNoMistake) {
  Diagnostics diagnostics;
  diagnostics.note({"f", 1, 1}, "a thought");
  EXPECT_TRUE(diagnostics.ok());
}

TEST(Schema, NamesAreLettersFirst) {
  EXPECT_TRUE(is_name("a"));
  EXPECT_TRUE(is_name("Tor-1.x_y"));
  EXPECT_FALSE(is_name(""));
  EXPECT_FALSE(is_name("1a"));
  EXPECT_FALSE(is_name("a/b"));
  EXPECT_FALSE(is_name(std::string(kMaxNameLength + 1, 'a')));
}

TEST(Schema, ByDefaultIsAMapWithoutKeys) {
  EXPECT_EQ(Schema().node().kind, Schema::Node::Kind::map);
  EXPECT_TRUE(Schema().node().keys.empty());
}

TEST(Schema, DescribesWhatItExpects) {
  EXPECT_EQ(describe(Schema::one_of({"any"})), "'any'");
  EXPECT_EQ(describe(Schema::number(0, 0.5)), "a number from 0 to 0.5");
  EXPECT_EQ(describe(Schema::either(Schema::boolean(), Schema::list(Schema::ip()))), "true or false, or a list");
}

TEST(Value, EqualIsWhatTheFileMeansWhereverItStands) {
  Value map(Value::Map{{"a", Value(1)}, {"b", Value(Value::List{Value("x")})}, {"none", Value()}});
  map.set_mark({"f", 7, 3});
  EXPECT_TRUE(equal(map, Value(Value::Map{{"b", Value(Value::List{Value("x")})}, {"a", Value(1)}})));
  EXPECT_FALSE(equal(map, Value(Value::Map{{"a", Value(1)}})));
  EXPECT_FALSE(equal(Value(Value::Map{{"a", Value(1)}}), map));
  EXPECT_FALSE(equal(Value(1), Value(true)));
  EXPECT_FALSE(equal(Value(Value::List{Value(1), Value(2)}), Value(Value::List{Value(2), Value(1)})));
  EXPECT_TRUE(equal(Value(), Value()));
}

}  // namespace
}  // namespace weft::config
