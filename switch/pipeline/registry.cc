// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/pipeline/registry.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>

#include "switch/config/schema/suggest.h"
#include "switch/pipeline/set_words.h"

namespace weft::pipeline {
namespace {

bool contains(const std::vector<std::string>& words, std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

// "parse", "l2 or l3": the stages that provide a capability.
std::string providers(const Registry& registry, std::string_view capability) {
  std::string out;
  for (const auto& type : registry.types()) {
    if (contains(type.provides, capability)) out += (out.empty() ? "" : " or ") + type.name;
  }
  return out;
}

// The mistake of a stage or an option (`who_needs`) that needs `need` when no earlier stage provides it; `rest` are the
// stages after it.
std::string missing_need(const Registry& registry, const std::string& who_needs, const std::string& need,
                         std::span<const StageSpec> rest) {
  const std::string who = providers(registry, need);
  if (who.empty()) return who_needs + " needs '" + need + "', which no stage provides";
  const bool later = std::any_of(rest.begin(), rest.end(), [&](const StageSpec& s) {
    const auto* type = registry.find(s.name);
    return type != nullptr && contains(type->provides, need);
  });
  return who_needs + " needs " + who + " before it" + (later ? ", not after it" : "");
}

std::string because(const std::string& why) {
  return why.empty() ? "" : ": " + why;
}

// The rules of order of one pipeline.
class Order {
 public:
  Order(const Registry& registry, const std::vector<StageSpec>& stages, config::Diagnostics& diagnostics)
      : registry_(registry), stages_(stages), diagnostics_(diagnostics) {}

  void check(std::size_t here) {
    const StageSpec& spec = stages_[here];
    const StageType& type = *registry_.find(spec.name);
    const std::string stage = "stage '" + spec.name + "'";
    check_side(here, spec.mark, stage + " must stand", Side::before, type.before);
    check_side(here, spec.mark, stage + " must stand", Side::after, type.after);
    for (const StageOrder& rule : type.adjacent) check_adjacent(here, rule);
    if (!type.option_order || spec.options.is_null()) return;
    for (const OptionOrder& option : type.option_order(spec.options)) {
      // A default has no position; the stage's is the next best.
      const config::Mark& mark = option.mark.line > 0 ? option.mark : spec.mark;
      for (const std::string& need : option.needs) {
        if (is_provided(need, here)) continue;
        diagnostics_.error(mark, missing_need(registry_, option.what, need, std::span(stages_).subspan(here + 1)));
      }
      check_side(here, mark, option.what + " needs " + stage, Side::after, option.after);
      for (const StageOrder& rule : option.excludes) check_excluded(option.what, rule);
    }
  }

 private:
  enum class Side : std::uint8_t { before, after };

  // stages_.size() when it is not there.
  [[nodiscard]] std::size_t find(std::string_view name) const {
    const auto found =
        std::find_if(stages_.begin(), stages_.end(), [&](const StageSpec& spec) { return spec.name == name; });
    return static_cast<std::size_t>(found - stages_.begin());
  }
  [[nodiscard]] bool is_provided(const std::string& need, std::size_t here) const {
    return std::any_of(stages_.begin(), stages_.begin() + static_cast<std::ptrdiff_t>(here), [&](const StageSpec& s) {
      const StageType* type = registry_.find(s.name);
      return type == nullptr || contains(type->provides, need);
    });
  }
  // A stage whose name is unknown may be the one that is missing, misspelt.
  void check_side(std::size_t here, const config::Mark& mark, const std::string& subject, Side side,
                  const std::vector<StageOrder>& rules) {
    for (const StageOrder& rule : rules) {
      const std::size_t other = find(rule.stage);
      const bool missing = other == stages_.size();
      const bool right = side == Side::before ? other >= here : other < here;
      if (missing ? !(rule.required && all_known()) : right) continue;
      diagnostics_.error(mark, subject + (side == Side::before ? " before '" : " after '") + rule.stage + "'" +
                                   (missing ? ", which the pipeline does not have" : "") + because(rule.why));
    }
  }
  [[nodiscard]] bool all_known() const {
    return std::all_of(stages_.begin(), stages_.end(),
                       [&](const StageSpec& spec) { return registry_.find(spec.name) != nullptr; });
  }
  void check_excluded(const std::string& what, const StageOrder& rule) {
    const std::size_t other = find(rule.stage);
    if (other == stages_.size()) return;
    diagnostics_.error(stages_[other].mark,
                       "stage '" + rule.stage + "' cannot stand in one pipeline with " + what + because(rule.why));
  }
  // Reported at the stage that holds: it is the one to be moved.
  void check_adjacent(std::size_t here, const StageOrder& rule) {
    for (std::size_t i = find(rule.stage) + 1; i < here; ++i) {
      const StageType* between = registry_.find(stages_[i].name);
      if (between == nullptr || !between->holds_packets) continue;
      diagnostics_.error(stages_[i].mark,
                         "stage '" + between->name + "' may hold packets, so it cannot stand between '" + rule.stage +
                             "' and '" + stages_[here].name + "'" + because(rule.why) + "; expected before '" +
                             rule.stage + "' or after '" + stages_[here].name + "'");
    }
  }

  const Registry& registry_;
  const std::vector<StageSpec>& stages_;
  config::Diagnostics& diagnostics_;
};

}  // namespace

void Registry::add(StageType type) {
  if (find(type.name) != nullptr) {
    std::fprintf(stderr, "weft: stage '%s' is registered twice\n", type.name.c_str());
    std::abort();
  }
  for (const DropBlock& block : type.drops) drop_reasons_.add(block);
  types_.push_back(std::move(type));
}

const StageType* Registry::find(std::string_view name) const noexcept {
  const auto found = std::find_if(types_.begin(), types_.end(), [&](const StageType& t) { return t.name == name; });
  return found == types_.end() ? nullptr : &*found;
}

std::vector<std::string> Registry::names() const {
  std::vector<std::string> out;
  for (const auto& type : types_) out.push_back(type.name);
  return out;
}

const config::Schema* Registry::options_of(std::string_view stage) const noexcept {
  const auto* type = find(stage);
  return type == nullptr ? nullptr : &type->options;
}

void check_order(const Registry& registry, const std::vector<StageSpec>& stages, config::Diagnostics& diagnostics) {
  std::vector<std::string> provided;
  bool all_known = true;
  for (std::size_t i = 0; i < stages.size(); ++i) {
    const auto& spec = stages[i];
    const auto* type = registry.find(spec.name);
    if (type == nullptr) {
      diagnostics.error(spec.mark,
                        "unknown stage " + config::quote(spec.name) + config::suggestion(spec.name, registry.names()));
      all_known = false;
      continue;
    }
    const auto here = stages.begin() + static_cast<std::ptrdiff_t>(i);
    const auto first = std::find_if(stages.begin(), here, [&](const StageSpec& s) { return s.name == spec.name; });
    if (first != here) {
      const std::string where = first->mark.line > 0 ? ", first at line " + std::to_string(first->mark.line) : "";
      diagnostics.error(spec.mark, "stage '" + spec.name + "' stands twice in the pipeline" + where);
      continue;
    }
    for (const auto& need : type->needs) {
      // An unknown stage may be the misspelt name of the one that is missing.
      if (!all_known || contains(provided, need)) continue;
      diagnostics.error(spec.mark,
                        missing_need(registry, "stage '" + spec.name + "'", need, std::span(stages).subspan(i + 1)));
    }
    provided.insert(provided.end(), type->provides.begin(), type->provides.end());
    Order(registry, stages, diagnostics).check(i);
  }
}

std::string order_mistakes(const Registry& registry, std::vector<StageSpec> stages, std::size_t stage,
                           const config::Value& options) {
  stages[stage].options = options;
  config::Diagnostics diagnostics;
  check_order(registry, stages, diagnostics);
  return mistakes_of(diagnostics);
}

}  // namespace weft::pipeline
