// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "tools/experiment/overrides.h"

#include "switch/config/yaml_reader.h"

namespace weft::experiment {
namespace {

using config::Diagnostics;
using config::DocumentNode;
using config::Mark;

// The node under a part of a key; made where there is none.
DocumentNode* child(DocumentNode& node, const std::string& key, const Mark& mark) {
  if (node.kind == DocumentNode::Kind::list) {
    const bool number = !key.empty() && key.find_first_not_of("0123456789") == key.npos && key.size() < 6;
    const std::size_t index = number ? std::stoul(key) : node.items.size() + 1;
    if (index > node.items.size()) return nullptr;
    if (index == node.items.size()) node.items.emplace_back(DocumentNode::Kind::map, mark);
    return &node.items[index];
  }
  if (node.kind == DocumentNode::Kind::null) node = DocumentNode(DocumentNode::Kind::map, mark);
  if (node.kind != DocumentNode::Kind::map) return nullptr;
  for (auto& entry : node.entries) {
    if (entry.key == key) return &entry.value;
  }
  node.entries.push_back({key, mark, DocumentNode(DocumentNode::Kind::null, mark)});
  return &node.entries.back().value;
}

}  // namespace

void apply(const Override& change, DocumentNode& document, Diagnostics& diagnostics) {
  const std::string where = "--set " + change.key;
  const Mark mark{where, 1, 1};
  const auto value = config::read_yaml(change.value, where, diagnostics);
  if (!value) return;
  DocumentNode* node = &document;
  std::string rest = change.key;
  while (node != nullptr && !rest.empty()) {
    const std::size_t dot = rest.find('.');
    node = child(*node, rest.substr(0, dot), mark);
    rest = dot == rest.npos ? "" : rest.substr(dot + 1);
  }
  if (node == nullptr || change.key.empty()) {
    diagnostics.error(mark, "there is nothing under this key that could be set");
    return;
  }
  *node = *value;
}

std::vector<Override> overrides_of(const std::vector<std::string>& sets) {
  std::vector<Override> overrides;
  for (const std::string& set : sets) {
    const std::size_t equals = set.find('=');
    overrides.push_back({set.substr(0, equals), set.substr(equals + 1)});
  }
  return overrides;
}

}  // namespace weft::experiment
