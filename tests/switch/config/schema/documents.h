// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Documents and schemas for tests of what applies one to the other.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "switch/config/schema/document.h"
#include "switch/config/schema/schema.h"

namespace weft::testing {

using Doc = config::DocumentNode;
using config::Schema;
using config::Value;

inline Doc null_doc() {
  return Doc(Doc::Kind::null, {"f", 1, 1});
}
inline Doc scalar(Doc::Kind kind, std::string text) {
  Doc out(kind, {"f", 1, 1});
  out.text = std::move(text);
  return out;
}
inline Doc plain(std::string text) {
  return scalar(Doc::Kind::plain, std::move(text));
}
inline Doc quoted_doc(std::string text) {
  return scalar(Doc::Kind::quoted, std::move(text));
}
inline Doc list_doc(std::vector<Doc> items) {
  Doc out(Doc::Kind::list, {"f", 1, 1});
  out.items = std::move(items);
  return out;
}
inline Doc map_doc(std::vector<std::pair<std::string, Doc>> entries) {
  Doc out(Doc::Kind::map, {"f", 1, 1});
  for (auto& [key, value] : entries) out.entries.push_back({key, {"f", 1, 1}, std::move(value)});
  return out;
}

/// A required key and one with a default.
inline Schema two_keys() {
  using Key = Schema::Key;
  return Schema::map({Key::required_key("rate_mbps", Schema::integer(0, 9), "Rate."),
                      Key::with_default("delay_ns", Schema::integer(0, 9), Value(7), "Delay.")});
}

/// A map of the types null and veth.
inline Schema shapes() {
  using Key = Schema::Key;
  const auto name = Key::required_key("name", Schema::name(), "Name.");
  return Schema::tagged(
      "type", {{"null", Schema::map({name, Key::optional_key("size", Schema::integer(0, 9), "Size.")})},
               {"veth", Schema::map({name, Key::required_key("interface", Schema::string(), "Interface.")})}});
}

}  // namespace weft::testing
