// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/pipeline/set_words.h"

#include <algorithm>
#include <vector>

#include "switch/config/schema/schema_node.h"
#include "switch/config/schema/suggest.h"

namespace weft::pipeline {
namespace {

using Kind = config::DocumentNode::Kind;

config::DocumentNode::Entry* find(config::DocumentNode& map, std::string_view key) {
  const auto at = std::find_if(map.entries.begin(), map.entries.end(), [&](const auto& e) { return e.key == key; });
  return at == map.entries.end() ? nullptr : &*at;
}

// Puts a scalar where `path` ("match.dest_qp") says; an empty text takes the key away.
void put(config::DocumentNode& map, std::string_view path, const std::string& text) {
  const std::size_t dot = path.find('.');
  const std::string key(path.substr(0, dot));
  config::DocumentNode::Entry* entry = find(map, key);
  if (dot == std::string_view::npos && text.empty()) {
    if (entry != nullptr) map.entries.erase(map.entries.begin() + (entry - map.entries.data()));
    return;
  }
  if (entry == nullptr) {
    map.entries.push_back(config::DocumentNode::Entry{.key = key});
    entry = &map.entries.back();
  }
  if (dot != std::string_view::npos) {
    if (entry->value.kind != Kind::map) entry->value = config::DocumentNode(Kind::map);
    return put(entry->value, path.substr(dot + 1), text);
  }
  entry->value = config::DocumentNode(Kind::plain);
  entry->value.text = text;
}

// A key without a value is as good as an absent one, and a document has no other way to say so.
void drop_nulls(config::DocumentNode& node) {
  std::erase_if(node.entries, [](const auto& entry) { return entry.value.kind == Kind::null; });
  for (auto& entry : node.entries) drop_nulls(entry.value);
  for (auto& item : node.items) drop_nulls(item);
}

}  // namespace

config::DocumentNode editable(const config::Value& options) {
  config::DocumentNode document = config::to_document(options);
  drop_nulls(document);
  return document;
}

std::string apply_word(config::DocumentNode& map, const std::string& word, const config::Schema& known) {
  std::vector<std::string> keys;
  for (const auto& key : known.node().keys) keys.push_back(key.name);
  const auto has = [&](const std::string& key) { return std::find(keys.begin(), keys.end(), key) != keys.end(); };
  const bool switchable = has("enabled");
  if (switchable && (word == "on" || word == "off")) {
    put(map, "enabled", word == "on" ? "true" : "false");
    return "";
  }
  const std::size_t equals = word.find('=');
  if (equals == std::string::npos || equals == 0) {
    return config::quote(word) + (switchable ? " is neither on, nor off, nor KEY=VALUE" : " is not KEY=VALUE");
  }
  // The schema's own suggestion leaves out keys that the map has, and it has all that have defaults.
  const std::string key = word.substr(0, word.find_first_of(".="));
  if (!has(key)) return "unknown key " + config::quote(key) + config::suggestion(key, keys);
  put(map, word.substr(0, equals), word.substr(equals + 1));
  return "";
}

void change_to(OptionChange& change, const config::DocumentNode& document, std::string_view stage,
               const config::Schema& schema,
               void (*check)(const config::Value&, const SwitchInfo&, config::Diagnostics&), const SwitchInfo& info) {
  config::Diagnostics diagnostics;
  change.options = config::validate(schema, document, std::string(stage), nullptr, diagnostics);
  if (diagnostics.ok()) check(change.options, info, diagnostics);
  change.error = mistakes_of(diagnostics);
}

std::string mistakes_of(const config::Diagnostics& diagnostics) {
  std::string out;
  for (const auto& entry : diagnostics.entries()) out += (out.empty() ? "" : "; ") + entry.text;
  return out;
}

OptionChange set_by_words(std::string_view stage, const config::Schema& schema,
                          void (*check)(const config::Value&, const SwitchInfo&, config::Diagnostics&),
                          const config::Value& options, const SwitchInfo& info, std::span<const std::string> words) {
  OptionChange change;
  change.remake = true;
  change.done = stage;
  if (words.empty()) change.error = std::string(stage) + " takes what to change: KEY=VALUE";
  config::DocumentNode document = editable(options);
  for (const std::string& word : words) {
    if (change.error = apply_word(document, word, schema); !change.error.empty()) break;
    change.done += " " + word;
  }
  if (change.error.empty()) change_to(change, document, stage, schema, check, info);
  return change;
}

}  // namespace weft::pipeline
