// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/config/yaml_reader.h"

#include <gtest/gtest.h>

#include "tests/support/config_mistakes.h"

namespace weft::config {
namespace {

using Kind = DocumentNode::Kind;

DocumentNode read(std::string_view text) {
  Diagnostics diagnostics;
  auto node = read_yaml(text, "f", diagnostics);
  EXPECT_EQ(diagnostics.to_string(), "") << text;
  return node.value_or(DocumentNode{});
}

// Expects the given mistake at the '@' of the text.
void expect_refused(std::string_view marked, const std::string& mistake) {
  const auto stripped = testing::strip_marks(marked, "f");
  Diagnostics diagnostics;
  const auto node = read_yaml(stripped.text, "f", diagnostics);
  EXPECT_EQ(diagnostics.to_string(), testing::expected_lines(stripped, {mistake})) << marked;
}

std::string place(const Mark& mark) {
  return std::to_string(mark.line) + ":" + std::to_string(mark.column);
}

TEST(YamlReader, KeepsStyleAndPositionOfEveryNode) {
  const auto root = read("a: 1\nb:\n  - 'x'\n  - {c: \"y\", d: z}\n");
  ASSERT_EQ(root.entries.size(), 2u);
  EXPECT_EQ(place(root.mark), "1:1");
  EXPECT_EQ(root.entries[0].key, "a");
  EXPECT_EQ(place(root.entries[0].mark), "1:1");
  EXPECT_EQ(root.entries[0].value.kind, Kind::plain);
  EXPECT_EQ(place(root.entries[0].value.mark), "1:4");
  const auto& list = root.entries[1].value;
  ASSERT_EQ(list.kind, Kind::list);
  EXPECT_EQ(place(list.mark), "3:3");
  EXPECT_EQ(list.items[0].kind, Kind::quoted);
  EXPECT_EQ(place(list.items[0].mark), "3:5");
  EXPECT_EQ(place(list.items[1].entries[1].mark), "4:14");
  EXPECT_EQ(list.items[1].entries[0].value.kind, Kind::quoted);
  EXPECT_EQ(list.items[1].entries[1].value.kind, Kind::plain);
}

TEST(YamlReader, ColumnsCountCharactersNotBytes) {
  const auto root = read("a: ['\xc3\xa9\xe2\x82\xac', b]\n");
  EXPECT_EQ(place(root.entries[0].value.items[1].mark), "1:11");
}

TEST(YamlReader, TextOfEveryLengthOfUtf8IsAccepted) {
  for (const char* text : {"\xc2\x80", "\xdf\xbf", "\xe0\xa0\x80", "\xed\x9f\xbf", "\xef\xbf\xbd", "\xf0\x90\x80\x80",
                           "\xf4\x8f\xbf\xbf"}) {
    EXPECT_EQ(read(std::string("a: '") + text + "'\n").entries[0].value.text, text);
  }
}

TEST(YamlReader, AbsentValuesAreNullAtTheirKeyAndWrittenNullsKeepTheirText) {
  const auto root = read("a:\nb: null\nc: ~\nd: [null]\ne:\n");
  EXPECT_EQ(root.entries[0].value.kind, Kind::null);
  EXPECT_EQ(root.entries[0].value.text, "");
  EXPECT_EQ(place(root.entries[0].value.mark), "1:1");
  EXPECT_EQ(root.entries[1].value.text, "null");
  EXPECT_EQ(place(root.entries[1].value.mark), "2:4");
  EXPECT_EQ(root.entries[2].value.text, "~");
  EXPECT_EQ(root.entries[3].value.items[0].text, "null");
  EXPECT_EQ(root.entries[4].value.text, "");
  EXPECT_EQ(place(root.entries[4].value.mark), "5:1");
}

TEST(YamlReader, SwitchWordsAreTextNotBooleans) {
  const auto root = read("a: off\nb: on\n");
  EXPECT_EQ(root.entries[0].value.text, "off");
  EXPECT_EQ(root.entries[1].value.text, "on");
}

TEST(YamlReader, JsonIsYaml) {
  const auto root = read("{\"a\": [1, true, null],\n \"b\": {\"c\": \"\"}}");
  EXPECT_EQ(root.entries[0].value.items.size(), 3u);
  EXPECT_EQ(root.entries[1].value.entries[0].value.kind, Kind::quoted);
}

TEST(YamlReader, AnEmptyTextIsNull) {
  for (const char* text : {"", "\n\n", "# nothing\n", "---\n"}) {
    EXPECT_EQ(read(text).kind, Kind::null) << text;
    EXPECT_EQ(place(read(text).mark).substr(0, 1) == "0", false) << text;
  }
}

TEST(YamlReader, ByteOrderMarkAndWindowsLineEndsAreAccepted) {
  const auto root = read(
      "\xef\xbb\xbf"
      "a: 1\r\nb: 2\r\n");
  EXPECT_EQ(root.entries[0].value.text, "1");
  EXPECT_EQ(root.entries[1].key, "b");
  EXPECT_EQ(place(root.entries[1].value.mark), "2:4");
}

TEST(YamlReader, DuplicateKeysAreReportedAtTheSecond) {
  expect_refused("a: 1\nb: 2\n@a: 3\n", "key 'a' stands twice, first at line 1");
  expect_refused("a: {b: 1, @'b': 2}\n", "key 'b' stands twice, first at line 1");
}

TEST(YamlReader, TheSameKeyInTwoMapsIsNoDuplicate) {
  EXPECT_EQ(read("a: {k: 1}\nb: {k: 2}\n").entries.size(), 2u);
}

TEST(YamlReader, AliasesAreReplacedByWhatTheyMean) {
  const auto root = read("a: &x {k: [1, 2]}\nb: *x\nc: [*x, *x]\n");
  EXPECT_EQ(root.entries[1].value.entries[0].value.items[1].text, "2");
  EXPECT_EQ(place(root.entries[1].value.entries[0].value.items[1].mark), "1:15");
  EXPECT_EQ(root.entries[2].value.items.size(), 2u);
}

TEST(YamlReader, AnAliasInsideOfItsOwnAnchorIsRefused) {
  expect_refused("a: &x [1, @*x]\n", "an alias inside of what it stands for");
}

TEST(YamlReader, AnAliasBombIsRefusedQuickly) {
  std::string text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 20; ++i) {
    const std::string before = "*a" + std::to_string(i - 1);
    text += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [";
    for (int k = 0; k < 10; ++k) text += before + ", ";
    text += "x]\n";
  }
  Diagnostics diagnostics;
  EXPECT_FALSE(read_yaml(text, "f", diagnostics).has_value());
  EXPECT_NE(diagnostics.to_string().find("more than 100000 values"), std::string::npos) << diagnostics.to_string();
}

TEST(YamlReader, AnAliasBombOfLongTextsIsRefused) {
  std::string text = "a: &a " + std::string(500'000, 'x') + "\nb: [";
  for (int i = 0; i < 100; ++i) text += "*a, ";
  Diagnostics diagnostics;
  EXPECT_FALSE(read_yaml(text + "x]\n", "f", diagnostics).has_value());
  EXPECT_NE(diagnostics.to_string().find("bytes of text"), std::string::npos) << diagnostics.to_string();
}

TEST(YamlReader, DepthIsLimited) {
  const std::string open(kMaxYamlDepth, '[');
  const std::string close(kMaxYamlDepth, ']');
  EXPECT_EQ(read(open + close).kind, Kind::list);
  expect_refused(open + "@[" + close + "]", "nested more than 32 levels deep");
}

TEST(YamlReader, DepthThatWouldOverflowAStackIsRefused) {
  for (const char* unit : {"[", "{a: ", "- ", "? "}) {
    std::string text;
    while (text.size() < 200'000) text += unit;
    Diagnostics diagnostics;
    EXPECT_FALSE(read_yaml(text, "f", diagnostics).has_value()) << unit;
    EXPECT_FALSE(diagnostics.ok()) << unit;
  }
}

TEST(YamlReader, TextsOfMoreThanAMebibyteAreRefused) {
  const std::string most = "a: 1\n#" + std::string(kMaxYamlBytes - 6, 'x');
  EXPECT_EQ(read(most).entries.size(), 1u);
  Diagnostics diagnostics;
  EXPECT_FALSE(read_yaml(most + "x", "f", diagnostics).has_value());
  EXPECT_EQ(diagnostics.to_string(), "f: the file is larger than 1048576 bytes\n");
}

TEST(YamlReader, OtherLimitsAreKept) {
  const auto expect = [](const std::string& text, const std::string& mistake) {
    Diagnostics diagnostics;
    const YamlLimits limits{.bytes = 40, .nodes = 8, .expanded_bytes = 20};
    EXPECT_EQ(read_yaml(text, "f", diagnostics, limits).has_value(), mistake.empty()) << text;
    EXPECT_EQ(diagnostics.to_string(), mistake);
  };
  expect("a: [1, 2, 3, 4, 5]\n", "");
  expect("a: [1, 2, 3, 4, 5, 6, 7, 8]\n", "f:1:26: more than 8 values, aliases counted as what they mean\n");
  expect("a: &a [1, 2]\nb: 3\n", "f:2:4: more than 8 values, aliases counted as what they mean\n");
  expect("a: " + std::string(21, 'x'), "f:1:4: more than 20 bytes of text, aliases counted as what they mean\n");
  expect(std::string(41, '#'), "f: the file is larger than 40 bytes\n");
}

TEST(YamlReader, BytesThatAreNoTextAreRefusedWhereTheyStand) {
  const std::string no_text = "expected UTF-8 text, found a byte that is none";
  expect_refused("a: 1\nb: @\xff\n", no_text);
  expect_refused(std::string("a: @\0b\n", 7), no_text);
  expect_refused("a: @\x1b[2J\n", no_text);
  expect_refused("a: @\xc0\xaf\n", no_text);
  expect_refused("a: @\xed\xa0\x80\n", no_text);
  expect_refused("a: @\xf4\x90\x80\x80\n", no_text);
  expect_refused("a: @\xe2\x82", no_text);
}

TEST(YamlReader, TagsAreRefused) {
  expect_refused("a: @!!int 5\n", "tag 'tag:yaml.org,2002:int'; tags are not supported");
  expect_refused("a: @!!map {b: 1}\n", "tag 'tag:yaml.org,2002:map'; tags are not supported");
  expect_refused("a: @!x [1]\n", "tag '!x'; tags are not supported");
}

TEST(YamlReader, ASecondDocumentIsRefused) {
  expect_refused("a: 1\n@---\nb: 2\n", "a second YAML document; expected one");
}

TEST(YamlReader, KeysThatAreNoWordAreRefused) {
  expect_refused("? @[a]\n: 1\n", "expected a key, found a list");
  expect_refused("? @{a: 1}\n: 1\n", "expected a key, found a map");
}

TEST(YamlReader, WhatIsNotYamlIsReportedWhereItStopsBeingYaml) {
  expect_refused("a: b@: c\n", "not valid YAML: illegal map value");
  expect_refused("a: [1, 2\n@", "not valid YAML: end of sequence flow not found");
}

}  // namespace
}  // namespace weft::config
