// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/stages/impair/set.h"

#include <algorithm>
#include <memory>
#include <optional>

#include "switch/config/schema/schema_node.h"
#include "switch/config/schema/suggest.h"
#include "switch/config/schema/validate.h"
#include "switch/pipeline/set_words.h"
#include "switch/stages/impair/config.h"
#include "switch/stages/impair/stage.h"

namespace weft::stages {
namespace {

using config::DocumentNode;
using config::quote;
using config::Value;
using pipeline::OptionChange;

OptionChange refuse(std::string error) {
  OptionChange change;
  change.error = std::move(error);
  return change;
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
  return "unknown rule " + quote(word) + config::suggestion(word, names);
}

// The schema of one rule.
config::Schema changed_rule_schema() {
  const config::Schema options = impair_options();
  const auto& keys = options.node().keys;
  const auto rules = std::find_if(keys.begin(), keys.end(), [](const auto& key) { return key.name == "rules"; });
  return rules->schema.node().children.at(0);
}

}  // namespace

OptionChange set_impair(const Value& options, const pipeline::SwitchInfo& info, const std::vector<std::string>& words,
                        std::uint16_t workers) {
  const std::vector<ImpairRule> before = make_impair_rules(options, info);
  if (words.size() < 2) return refuse("impair takes a rule and what to change: on, off, or KEY=VALUE");
  const auto index = find_rule(before, words[0]);
  if (!index) return refuse(unknown_rule(before, words[0]));

  DocumentNode document = pipeline::editable(options);
  const auto rules_at = std::find_if(document.entries.begin(), document.entries.end(),
                                     [](const auto& entry) { return entry.key == "rules"; });
  const config::Schema schema = changed_rule_schema();
  for (std::size_t i = 1; i < words.size(); ++i) {
    auto error = pipeline::apply_word(rules_at->value.items[*index], words[i], schema);
    if (!error.empty()) return refuse(std::move(error));
  }
  OptionChange change;
  pipeline::change_to(change, document, "impair", impair_options(), check_impair_options, info);
  if (!change.error.empty()) return refuse(std::move(change.error));

  const auto rules = make_impair_rules(change.options, info);
  for (std::uint16_t w = 0; w < workers; ++w) {
    // The exchange leaves the old rules in `unit`: they are freed with this function, not on the worker.
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
