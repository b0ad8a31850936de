// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/pipeline/registry.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <span>

#include "switch/config/schema/suggest.h"

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

// The mistake of a stage that needs `need` when no earlier stage provides it; `rest` are the stages after it.
std::string missing_need(const Registry& registry, const std::string& stage, const std::string& need,
                         std::span<const StageSpec> rest) {
  const std::string who = providers(registry, need);
  if (who.empty()) return "stage '" + stage + "' needs '" + need + "', which no stage provides";
  const bool later = std::any_of(rest.begin(), rest.end(), [&](const StageSpec& s) {
    const auto* type = registry.find(s.name);
    return type != nullptr && contains(type->provides, need);
  });
  return "stage '" + stage + "' needs " + who + " before it" + (later ? ", not after it" : "");
}

}  // namespace

void Registry::add(StageType type) {
  if (find(type.name) != nullptr) {
    std::fprintf(stderr, "weft: stage '%s' is registered twice\n", type.name.c_str());
    std::abort();
  }
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
      diagnostics.error(spec.mark, missing_need(registry, spec.name, need, std::span(stages).subspan(i + 1)));
    }
    provided.insert(provided.end(), type->provides.begin(), type->provides.end());
  }
}

}  // namespace weft::pipeline
