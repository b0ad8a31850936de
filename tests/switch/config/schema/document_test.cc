// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/config/schema/document.h"

#include <gtest/gtest.h>

namespace weft::config {
namespace {

TEST(Document, PlainScalarsResolveAsInYaml12) {
  for (const char* text : {"true", "False", "TRUE"}) EXPECT_EQ(resolve_plain(text), ScalarKind::boolean) << text;
  for (const char* text : {"0", "-17", "+3", "007", "0x1F", "0o17"})
    EXPECT_EQ(resolve_plain(text), ScalarKind::integer) << text;
  for (const char* text : {"1.5", ".5", "5.", "1e3", "-1.5E-3", ".inf", "-.INF", ".nan"}) {
    EXPECT_EQ(resolve_plain(text), ScalarKind::number) << text;
  }
  for (const char* text :
       {"yes", "off", "on", "1:30", "1_000", "0b1", "0x", "1e", ".", "-", "+", "e3", "10.0.0.1", "tRUE"}) {
    EXPECT_EQ(resolve_plain(text), ScalarKind::text) << text;
  }
}

TEST(Document, IsWhatAValueWouldBeReadFrom) {
  Value map;
  map.set("flag", Value(true));
  map.set("count", Value(-7));
  map.set("ratio", Value(0.25));
  map.set("word", Value("5"));
  map.set("list", Value(Value::List{Value(1), Value()}));
  const DocumentNode node = to_document(map);
  ASSERT_EQ(node.kind, DocumentNode::Kind::map);
  ASSERT_EQ(node.entries.size(), 5u);
  const auto child = [&](std::size_t i) -> const DocumentNode& { return node.entries[i].value; };
  EXPECT_EQ(node.entries[0].key, "flag");
  EXPECT_EQ(child(0).text, "true");
  EXPECT_EQ(child(1).text, "-7");
  EXPECT_EQ(child(2).text, "0.25");
  EXPECT_EQ(child(2).kind, DocumentNode::Kind::plain);
  EXPECT_EQ(child(3).text, "5");
  EXPECT_EQ(child(3).kind, DocumentNode::Kind::quoted);
  ASSERT_EQ(child(4).items.size(), 2u);
  EXPECT_EQ(child(4).items[1].kind, DocumentNode::Kind::null);
}

TEST(Document, FindsAreDescribedAsTheyWereWritten) {
  DocumentNode node(DocumentNode::Kind::plain);
  node.text = "12";
  EXPECT_EQ(describe_found(node), "12");
  node.text = "twelve";
  EXPECT_EQ(describe_found(node), "'twelve'");
  node.kind = DocumentNode::Kind::quoted;
  EXPECT_EQ(describe_found(node), "the text 'twelve'");
  EXPECT_EQ(describe_found(DocumentNode(DocumentNode::Kind::null)), "nothing");
  EXPECT_EQ(describe_found(DocumentNode(DocumentNode::Kind::list)), "a list");
  EXPECT_EQ(describe_found(DocumentNode(DocumentNode::Kind::map)), "a map");
}

}  // namespace
}  // namespace weft::config
