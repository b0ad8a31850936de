// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include <nlohmann/json.hpp>

#include "switch/config/schema/schema_node.h"
#include "switch/config/schema/value_json.h"

namespace weft::config {
namespace {

using nlohmann::json;
using Kind = Schema::Node::Kind;

// Words as YAML reads them: unquoted, these are not text.
json word_schema(const std::vector<std::string>& allowed) {
  json out = json::array();
  for (const auto& word : allowed) {
    out.push_back(word);
    if (word == "null") out.push_back(nullptr);
    if (word == "true") out.push_back(true);
    if (word == "false") out.push_back(false);
  }
  return {{"enum", out}};
}

json text_schema(const char* pattern = nullptr) {
  json out{{"type", "string"}};
  if (pattern != nullptr) out["pattern"] = pattern;
  return out;
}

void add_keys(json& object, const std::vector<Schema::Key>& keys) {
  for (const auto& key : keys) {
    json property = key.schema.to_json_schema();
    property["description"] = key.doc;
    if (key.fallback) property["default"] = to_json(*key.fallback);
    object["properties"][key.name] = std::move(property);
    if (key.required) object["required"].push_back(key.name);
  }
}

json object_schema() {
  return {{"type", "object"}, {"additionalProperties", false}, {"properties", json::object()}};
}

json tagged_schema(const Schema::Node& node) {
  json alternatives = json::array();
  for (const auto& [tag, schema] : node.alternatives) {
    json alternative = object_schema();
    alternative["required"].push_back(node.tag);
    alternative["properties"][node.tag] = word_schema({tag});
    add_keys(alternative, schema.node().keys);
    alternatives.push_back(std::move(alternative));
  }
  return {{"oneOf", std::move(alternatives)}};
}

}  // namespace

json Schema::to_json_schema() const {
  const Node& n = node();
  switch (n.kind) {
    case Kind::boolean:
      return {{"type", "boolean"}};
    case Kind::integer:
      return {{"type", "integer"}, {"minimum", n.min}, {"maximum", n.max}};
    case Kind::number:
      return {{"type", "number"}, {"minimum", n.low}, {"maximum", n.high}};
    case Kind::string:
      return {{"type", "string"}, {"minLength", 1}};
    case Kind::text:
      return text_schema();
    case Kind::name:
      return text_schema("^[A-Za-z][A-Za-z0-9_.-]{0,62}$");
    case Kind::one_of:
      return word_schema(n.words);
    case Kind::mac:
      return text_schema("^[0-9A-Fa-f]{2}(:[0-9A-Fa-f]{2}){5}$");
    case Kind::ip:
      return text_schema("^[0-9A-Fa-f:.]+$");
    case Kind::prefix:
      return text_schema("^[0-9A-Fa-f:.]+/[0-9]{1,3}$");
    case Kind::list: {
      json out{{"type", "array"}, {"items", n.children[0].to_json_schema()}};
      if (n.min_items > 0) out["minItems"] = n.min_items;
      return out;
    }
    case Kind::map: {
      json out = object_schema();
      add_keys(out, n.keys);
      return out;
    }
    case Kind::dictionary:
      return {{"type", "object"}, {"additionalProperties", n.children[0].to_json_schema()}};
    case Kind::tagged:
      return tagged_schema(n);
    case Kind::either:
      return {{"anyOf", json::array({n.children[0].to_json_schema(), n.children[1].to_json_schema()})}};
    case Kind::stages:
      return {{"$ref", "#/$defs/stages"}};
  }
  return {};
}

}  // namespace weft::config
