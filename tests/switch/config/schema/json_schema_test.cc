// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/config/schema/schema.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/switch/config/schema/documents.h"

namespace weft::config {
namespace {

using nlohmann::json;
using testing::shapes;
using testing::two_keys;

TEST(JsonSchema, EveryKindOfSchemaHasItsForm) {
  EXPECT_EQ(Schema::boolean().to_json_schema(), json::parse(R"({"type": "boolean"})"));
  EXPECT_EQ(Schema::integer(1, 5).to_json_schema(), json::parse(R"({"type": "integer", "minimum": 1, "maximum": 5})"));
  EXPECT_EQ(Schema::number(0, 1).to_json_schema(),
            json::parse(R"({"type": "number", "minimum": 0.0, "maximum": 1.0})"));
  EXPECT_EQ(Schema::string().to_json_schema(), json::parse(R"({"type": "string", "minLength": 1})"));
  EXPECT_EQ(Schema::text().to_json_schema(), json::parse(R"({"type": "string"})"));
  EXPECT_EQ(Schema::one_of({"null", "off"}).to_json_schema(), json::parse(R"({"enum": ["null", null, "off"]})"));
  EXPECT_EQ(Schema::list(Schema::boolean(), 2).to_json_schema(),
            json::parse(R"({"type": "array", "items": {"type": "boolean"}, "minItems": 2})"));
  EXPECT_EQ(Schema::dictionary(Schema::boolean()).to_json_schema(),
            json::parse(R"({"type": "object", "additionalProperties": {"type": "boolean"}})"));
  EXPECT_EQ(Schema::either(Schema::boolean(), Schema::text()).to_json_schema(),
            json::parse(R"({"anyOf": [{"type": "boolean"}, {"type": "string"}]})"));
  EXPECT_EQ(Schema::stages().to_json_schema(), json::parse(R"({"$ref": "#/$defs/stages"})"));
  EXPECT_EQ(two_keys().to_json_schema(), json::parse(R"({
      "type": "object", "additionalProperties": false, "required": ["rate_mbps"],
      "properties": {
        "rate_mbps": {"type": "integer", "minimum": 0, "maximum": 9, "description": "Rate."},
        "delay_ns": {"type": "integer", "minimum": 0, "maximum": 9, "description": "Delay.", "default": 7}}})"));
  const json tagged = shapes().to_json_schema();
  ASSERT_EQ(tagged["oneOf"].size(), 2u);
  EXPECT_EQ(tagged["oneOf"][0]["properties"]["type"], json::parse(R"({"enum": ["null", null]})"));
  EXPECT_EQ(tagged["oneOf"][1]["required"], json::parse(R"(["type", "name", "interface"])"));
}

}  // namespace
}  // namespace weft::config
