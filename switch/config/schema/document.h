// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// A configuration document as it was written, before any schema was applied to it.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "switch/config/schema/schema.h"

namespace weft::config {

struct DocumentNode {
  enum class Kind : std::uint8_t { null, plain, quoted, list, map };
  struct Entry;

  explicit DocumentNode(Kind kind_of_node = Kind::null, Mark position = {});

  Kind kind;
  std::string text;                 ///< scalars; of null what was written: "null", "~" or ""
  std::vector<DocumentNode> items;  ///< list
  std::vector<Entry> entries;       ///< map; keys are unique
  Mark mark;
};

struct DocumentNode::Entry {
  std::string key{};
  Mark mark{};  ///< of the key
  DocumentNode value{};
};

inline DocumentNode::DocumentNode(Kind kind_of_node, Mark position) : kind(kind_of_node), mark(std::move(position)) {}

/// What a plain scalar is by the core schema of YAML 1.2 (section 10.3.2). `yes`, `off` and 1:30 are text there.
enum class ScalarKind : std::uint8_t { boolean, integer, number, text };
[[nodiscard]] ScalarKind resolve_plain(std::string_view text) noexcept;

/// "the text 'abc'", "5", "a list", "nothing": what belongs after "found".
[[nodiscard]] std::string describe_found(const DocumentNode& node);

/// The document that `value` would be read from.
[[nodiscard]] DocumentNode to_document(const Value& value);

}  // namespace weft::config
