// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// weftctl inc create|remove|show|explain.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "collectives/stage/stage.h"
#include "switch/config/schema/document.h"
#include "switch/config/schema/validate.h"
#include "switch/pipeline/set_words.h"

namespace weft::inc {

using config::Schema;
using config::Value;
using nlohmann::ordered_json;
using pipeline::StageAccess;

namespace {

constexpr const char* kReplaced = "a reload replaced the stage meanwhile; try again";

config::DocumentNode to_document(const nlohmann::json& json) {
  using Kind = config::DocumentNode::Kind;
  if (json.is_object()) {
    config::DocumentNode map(Kind::map);
    for (const auto& [key, value] : json.items()) {
      auto& entry = map.entries.emplace_back();
      entry.key = key;
      entry.value = to_document(value);
    }
    return map;
  }
  if (json.is_array()) {
    config::DocumentNode list(Kind::list);
    for (const auto& item : json) list.items.push_back(to_document(item));
    return list;
  }
  config::DocumentNode scalar(json.is_null() ? Kind::null : json.is_string() ? Kind::quoted : Kind::plain);
  scalar.text = json.is_string() ? json.get<std::string>() : json.dump();
  return scalar;
}

std::string read_spec(const std::string& text, const pipeline::SwitchInfo& info, GroupSpec& out) {
  const auto json = nlohmann::json::parse(text, nullptr, false);
  if (json.is_discarded()) return "group: no JSON";
  config::Diagnostics diagnostics;
  const Value value = config::validate(group_schema(), to_document(json), "group", nullptr, diagnostics);
  if (!diagnostics.ok()) return pipeline::mistakes_of(diagnostics);
  return read_group(value, info, out).value_or("");
}

/// Every worker looks packets up in a new table. False when a reload has replaced the stage.
bool tell_workers(StageAccess& stage) {
  std::vector<std::unique_ptr<GroupTable>> tables(stage.workers());
  const bool there = stage.with_shared([&](pipeline::StageShared& shared) {
    for (std::uint16_t w = 0; w < tables.size(); ++w) tables[w] = dynamic_cast<IncShared&>(shared).table(w);
  });
  if (!there) return false;
  for (std::uint16_t w = 0; w < tables.size(); ++w) {
    const bool told =
        stage.on_worker(w, [&](pipeline::Stage& s) { dynamic_cast<IncStage&>(s).exchange_table(tables[w]); });
    if (!told) return false;
  }
  return true;
}

ordered_json create(StageAccess& stage, const Value& arguments, std::string& error) {
  GroupSpec spec;
  error = read_spec(arguments["group"].string(), stage.info(), spec);
  if (!error.empty()) return {};
  const std::uint32_t id = spec.config.id;
  std::uint32_t generation = 0;
  const bool there = stage.with_shared([&](pipeline::StageShared& shared) {
    auto& inc = dynamic_cast<IncShared&>(shared);
    error = inc.create(std::move(spec), true, generation);
  });
  if (!there || (error.empty() && !tell_workers(stage))) error = kReplaced;
  if (!error.empty()) return {};
  return ordered_json::array({{{"group", id}, {"generation", generation}, {"state", "created"}}});
}

ordered_json remove(StageAccess& stage, const Value& arguments, std::string& error) {
  const auto id = static_cast<std::uint32_t>(arguments["group"].integer());
  const auto generation = arguments.has("generation")
                              ? std::optional(static_cast<std::uint32_t>(arguments["generation"].integer()))
                              : std::optional<std::uint32_t>();
  std::shared_ptr<RunningGroup> group;
  if (!stage.with_shared(
          [&](pipeline::StageShared& s) { group = dynamic_cast<IncShared&>(s).remove(id, generation); })) {
    error = kReplaced;
  } else if (group == nullptr) {
    error = "there is no group " + std::to_string(id) +
            (generation ? " of generation " + std::to_string(*generation) : std::string());
  } else if (!tell_workers(stage)) {
    error = kReplaced;
  }
  if (!error.empty()) return {};
  return ordered_json::array({{{"group", id}, {"generation", group->generation}, {"state", "removed"}}});
}

ordered_json show(StageAccess& stage, const Value& arguments, std::string& error) {
  const std::string table = "inc_" + arguments["what"].string();
  ordered_json all = ordered_json::array();
  for (std::uint16_t w = 0; w < stage.workers() && error.empty(); ++w) {
    for (std::uint64_t cursor = 0; cursor != pipeline::StageShared::kEnd && error.empty();) {
      constexpr std::size_t kRows = 32;  // at a time: packets wait meanwhile
      const bool there = stage.on_worker(w, [&](pipeline::Stage& s) {
        for (auto& row : s.rows(table, cursor, kRows)) all.push_back(std::move(row));
      });
      if (!there) error = kReplaced;
    }
  }
  return all;
}

ordered_json explain(StageAccess& stage, const Value& arguments, std::string& error) {
  const auto id = static_cast<std::uint32_t>(arguments["group"].integer());
  std::optional<ordered_json> row;
  for (std::uint16_t w = 0; w < stage.workers() && !row; ++w) {
    if (!stage.on_worker(w, [&](pipeline::Stage& s) { row = dynamic_cast<IncStage&>(s).explain(id); })) {
      error = kReplaced;
      return {};
    }
  }
  if (!row) {
    error = "there is no group " + std::to_string(id);
    return {};
  }
  return ordered_json::array({*row});
}

}  // namespace

std::vector<pipeline::StageCommand> inc_commands() {
  using Key = Schema::Key;
  const Schema one = Schema::map({Key::required_key("group", Schema::integer(1, UINT32_MAX), "The group's id.")});
  const Schema ended =
      Schema::map({Key::required_key("group", Schema::integer(1, UINT32_MAX), "The group's id."),
                   Key::optional_key("generation", Schema::integer(1, UINT32_MAX),
                                     "As create said: a later group with the same id is left alone.")});
  const Schema made = Schema::map({Key::required_key(
      "group", Schema::string(), "The group as JSON: what an item of `groups` in the file of the switch has.")});
  const Schema what = Schema::map(
      {Key::with_default("what", Schema::one_of({"groups", "endpoints", "slots", "activity", "memory", "abilities"}),
                         Value("groups"), "What of them.")});
  return {{"create", "Makes a group, wholly or not at all.", made, create, {}},
          {"remove", "Ends a group and frees its memory: its ranks get no answers any more.", ended, remove, "group"},
          {"show",
           "Lists groups, their endpoints, the slots that are in use, who waits for whom, who holds memory, or what "
           "groups can have here.",
           what, show, "what"},
          {"explain", "Says whom a group waits for, and since when.", one, explain, "group"}};
}

}  // namespace weft::inc
