// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/stages/impair_set.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string_view>

#include "switch/pipeline/schema_node.h"
#include "switch/pipeline/suggest.h"
#include "switch/pipeline/validate.h"
#include "switch/stages/impair.h"
#include "switch/stages/impair_config.h"

namespace weft::stages {
namespace {

using pipeline::DocumentNode;
using pipeline::OptionChange;
using pipeline::quote;
using pipeline::Value;
using Kind = DocumentNode::Kind;

OptionChange refuse(std::string error) {
  OptionChange change;
  change.error = std::move(error);
  return change;
}

DocumentNode::Entry* find(DocumentNode& map, std::string_view key) {
  const auto at = std::find_if(map.entries.begin(), map.entries.end(), [&](const auto& e) { return e.key == key; });
  return at == map.entries.end() ? nullptr : &*at;
}

// Puts a scalar where `path` ("match.dest_qp") says; an empty text takes the key away.
void put(DocumentNode& map, std::string_view path, const std::string& text) {
  const std::size_t dot = path.find('.');
  const std::string key(path.substr(0, dot));
  DocumentNode::Entry* entry = find(map, key);
  if (dot == std::string_view::npos && text.empty()) {
    if (entry != nullptr) map.entries.erase(map.entries.begin() + (entry - map.entries.data()));
    return;
  }
  if (entry == nullptr) {
    map.entries.push_back(DocumentNode::Entry{.key = key});
    entry = &map.entries.back();
  }
  if (dot != std::string_view::npos) {
    if (entry->value.kind != Kind::map) entry->value = DocumentNode(Kind::map);
    return put(entry->value, path.substr(dot + 1), text);
  }
  entry->value = DocumentNode(Kind::plain);
  entry->value.text = text;
}

// A key without a value is as good as an absent one, and a document has no other way to say so.
void drop_nulls(DocumentNode& node) {
  std::erase_if(node.entries, [](const auto& entry) { return entry.value.kind == Kind::null; });
  for (auto& entry : node.entries) drop_nulls(entry.value);
  for (auto& item : node.items) drop_nulls(item);
}

std::string mistakes_of(const pipeline::Diagnostics& diagnostics) {
  std::vector<std::string> texts;
  for (const auto& entry : diagnostics.entries()) texts.push_back(entry.text);
  std::string out;
  for (const auto& text : texts) out += (out.empty() ? "" : "; ") + text;
  return out;
}

std::optional<std::size_t> find_rule(const std::vector<ImpairRule>& rules, const std::string& word) {
  for (std::size_t i = 0; i < rules.size(); ++i) {
    if (rules[i].name == word || std::to_string(i) == word) return i;
  }
  return std::nullopt;
}

std::string unknown_rule(const std::vector<ImpairRule>& rules, const std::string& word) {
  std::vector<std::string> names;
  for (const auto& rule : rules) names.push_back(rule.name);
  if (names.empty()) return "the switch has no impair rules";
  return "unknown rule " + quote(word) + pipeline::suggestion(word, names);
}

// The schema's own suggestion leaves out keys that the rule has, and it has all that have defaults.
std::string unknown_key(const std::string& key) {
  const pipeline::Schema options = impair_options();
  std::vector<std::string> known;
  for (const auto& list : options.node().keys) {
    if (list.name != "rules") continue;
    for (const auto& one : list.schema.node().children.at(0).node().keys) known.push_back(one.name);
  }
  if (std::find(known.begin(), known.end(), key) != known.end()) return "";
  return "unknown key " + quote(key) + pipeline::suggestion(key, known);
}

}  // namespace

OptionChange set_impair(const Value& options, const pipeline::SwitchInfo& info, const std::vector<std::string>& words,
                        std::uint16_t workers) {
  const std::vector<ImpairRule> before = make_impair_rules(options, info);
  if (words.size() < 2) return refuse("impair takes a rule and what to change: on, off, or KEY=VALUE");
  const auto index = find_rule(before, words[0]);
  if (!index) return refuse(unknown_rule(before, words[0]));

  DocumentNode document = pipeline::to_document(options);
  drop_nulls(document);
  DocumentNode& rule = find(document, "rules")->value.items[*index];
  for (std::size_t i = 1; i < words.size(); ++i) {
    const std::size_t equals = words[i].find('=');
    if (words[i] == "on" || words[i] == "off") {
      put(rule, "enabled", words[i] == "on" ? "true" : "false");
    } else if (equals != std::string::npos && equals != 0) {
      if (auto error = unknown_key(words[i].substr(0, words[i].find_first_of(".="))); !error.empty()) {
        return refuse(std::move(error));
      }
      put(rule, words[i].substr(0, equals), words[i].substr(equals + 1));
    } else {
      return refuse(quote(words[i]) + " is neither on, nor off, nor KEY=VALUE");
    }
  }
  OptionChange change;
  pipeline::Diagnostics diagnostics;
  change.options = pipeline::validate(impair_options(), document, "impair", nullptr, diagnostics);
  if (diagnostics.ok()) check_impair_options(change.options, info, diagnostics);
  if (!diagnostics.ok()) return refuse(mistakes_of(diagnostics));

  const auto rules = make_impair_rules(change.options, info);
  for (std::uint16_t w = 0; w < workers; ++w) {
    // The old rules end where the function does: not on the worker.
    change.apply.push_back([unit = std::make_shared<ImpairUnit>(rules), changed = *index](pipeline::Stage& stage) {
      auto& impair = static_cast<ImpairStage&>(stage);
      unit->take_over(impair.rules(), changed);
      impair.set_rules(*unit);
    });
  }
  change.done = "impair rule " + rules[*index].name + " changed";
  return change;
}

}  // namespace weft::stages
