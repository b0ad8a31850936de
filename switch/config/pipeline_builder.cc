// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Stages of a switch: their order, their own checks, and what the rest of the switch needs of them.
#include <algorithm>
#include <functional>

#include "switch/config/switch_builder.h"

namespace weft::config {
namespace {

using pipeline::StageSpec;
using pipeline::StageType;
using TypeTest = std::function<bool(const StageType&)>;

bool has(const std::vector<std::string>& words, std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}
bool forwards(const StageType& t) {
  return has(t.provides, "forward");
}
bool routes(const StageType& t) {
  return has(t.provides, "group");
}
bool bridges(const StageType& t) {
  return forwards(t) && !routes(t);
}
bool chooses(const StageType& t) {
  return has(t.needs, "group");
}

class PipelineBuilder {
 public:
  explicit PipelineBuilder(SwitchScope& scope) : scope_(scope), stages_(scope.info.pipeline) {}

  void build() {
    const Value& list = scope_.source["pipeline"];
    if (list.is_null() || list.list().empty()) return;
    bool complete = true;
    for (const auto& item : list.list()) {
      if (item.is_null()) {
        complete = false;
        continue;
      }
      const auto& [name, options] = item.map().front();
      stages_.push_back({name, options, item.mark()});
    }
    // The stage that is missing may be the one whose name was wrong.
    if (complete) {
      check_order(scope_.registry, stages_, scope_.diagnostics);
      check_forwarding(list.mark());
      check_sections();
      check_groups();
    }
    if (scope_.ports_complete) run_checks();
  }

 private:
  [[nodiscard]] const StageType& type(const StageSpec& spec) const { return *scope_.registry.find(spec.name); }

  [[nodiscard]] const StageSpec* find(const TypeTest& test) const {
    const auto found = std::find_if(stages_.begin(), stages_.end(), [&](const StageSpec& s) { return test(type(s)); });
    return found == stages_.end() ? nullptr : &*found;
  }

  // "l2 or l3": the stages that the program has and that pass the test.
  [[nodiscard]] std::string known(const TypeTest& test) const {
    std::string out;
    for (const auto& t : scope_.registry.types()) {
      if (test(t)) out += (out.empty() ? "" : " or ") + t.name;
    }
    return out;
  }

  void check_forwarding(const Mark& mark) {
    const std::string names = known(forwards);
    if (names.empty()) return;
    const StageSpec* first = find(forwards);
    if (first == nullptr) {
      scope_.diagnostics.error(mark, "pipeline: no stage decides where packets go; expected " + names);
      return;
    }
    for (const auto& spec : stages_) {
      if (&spec == first || spec.name == first->name || !forwards(type(spec))) continue;
      scope_.diagnostics.error(spec.mark, "stage '" + spec.name + "' forwards, and '" + first->name +
                                              "' does already; expected one of " + names);
    }
  }

  // Sections that only one kind of forwarding reads.
  void check_sections() {
    const StageSpec* router = find(routes);
    if (router != nullptr && !scope_.source["kernel"].is_map() && scope_.source["addresses"].list_or_empty().empty()) {
      scope_.diagnostics.error(router->mark,
                               "stage '" + router->name + "' needs 'addresses' of the switch, found none");
    }
    if (router == nullptr) {
      for (const auto* section : {"addresses", "neighbours", "routes"}) unused(section, known(routes));
    }
    if (find(bridges) == nullptr) unused("static_macs", known(bridges));
  }

  void unused(const char* section, const std::string& stage) {
    const Value& list = scope_.source[section];
    if (stage.empty() || list.list_or_empty().empty()) return;
    scope_.diagnostics.error(list.mark(),
                             std::string(section) + ": the pipeline has no stage " + stage + ", which alone uses them");
  }

  // Equal-cost groups need a stage that picks a member.
  void check_groups() {
    if (find(routes) == nullptr || find(chooses) != nullptr) return;
    const std::string names = known(chooses);
    for (const auto& item : scope_.source["routes"].list_or_empty()) {
      if (item.is_null()) continue;
      const Value& via = item["via"];
      if (via.list_or_empty().size() < 2) continue;
      scope_.diagnostics.error(via.mark(), "via: " + std::to_string(via.list().size()) + " next hops need stage " +
                                               (names.empty() ? "lb" : names) + " in the pipeline, after '" +
                                               find(routes)->name + "'");
    }
  }

  // What stages check themselves. A default has no position; the stage's is the next best.
  void run_checks() {
    for (const auto& spec : stages_) {
      const auto& check = type(spec).check;
      if (!check || spec.options.is_null()) continue;
      Diagnostics found;
      check(spec.options, scope_.info, found);
      for (const auto& e : found.entries()) scope_.diagnostics.error(e.mark.line > 0 ? e.mark : spec.mark, e.text);
      for (const auto& n : found.notes()) scope_.diagnostics.note(n.mark.line > 0 ? n.mark : spec.mark, n.text);
    }
  }

  SwitchScope& scope_;
  std::vector<StageSpec>& stages_;
};

}  // namespace

void build_pipeline(SwitchScope& scope) {
  PipelineBuilder(scope).build();
}

}  // namespace weft::config
