// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/config/diff.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "switch/config/schema/value_json.h"

namespace weft::config {
namespace {

using nlohmann::ordered_json;
using Kind = Change::Kind;

// Sections whose items have an identity of their own.
struct Section {
  std::string_view name;
  std::string_view item;
  std::array<std::string_view, 2> identity;
  std::string_view fixed{};  // key that only a restart changes: what waits in the queues of a port is its worker's
};
constexpr Section kSections[] = {
    {"ports", "port", {"name", ""}, "worker"},        {"addresses", "address", {"port", "address"}},
    {"neighbours", "neighbour", {"port", "address"}}, {"routes", "route", {"prefix", ""}},
    {"static_macs", "static_mac", {"mac", "vlan"}},
};
// Further keys of a switch that a reload applies.
constexpr std::string_view kSwitchKeys[] = {"seed", "icrc", "vlans", "kernel", "qos", "faults"};
// Keys of the process that a reload applies.
constexpr std::string_view kProcessKeys[] = {"log", "idle"};

constexpr const char* kNotWhileRunning = "cannot change while weft runs; restart it";

std::string text_of(const Value& value) {
  return value.is_string() ? value.string() : to_json(value).dump();
}

// A value whose maps are without what the file does not say.
Value as_written(const Value& value) {
  return value.visit([](const auto& v) {
    using T = std::decay_t<decltype(v)>;
    if constexpr (std::is_same_v<T, Value::List>) {
      Value::List out;
      for (const Value& item : v) out.push_back(as_written(item));
      return Value(std::move(out));
    } else if constexpr (std::is_same_v<T, Value::Map>) {
      Value::Map out;
      for (const auto& [key, child] : v) {
        if (child.mark().line > 0) out.emplace_back(key, as_written(child));
      }
      return Value(std::move(out));
    } else if constexpr (std::is_same_v<T, std::monostate>) {
      return Value();
    } else {
      return Value(v);
    }
  });
}

template <typename Range>
bool contains(const Range& words, std::string_view word) {
  return std::find(std::begin(words), std::end(words), word) != std::end(words);
}

std::string identity_of(const Value& item, const Section& section) {
  std::string out = text_of(item[section.identity[0]]);
  if (!section.identity[1].empty()) out += " " + text_of(item[section.identity[1]]);
  return out;
}

// All keys of two maps, those of the new one first.
std::vector<std::string> all_keys(const Value& a, const Value& b) {
  std::vector<std::string> keys;
  for (const Value* map : {&b, &a}) {
    if (!map->is_map()) continue;
    for (const auto& child : map->map()) {
      if (!contains(keys, child.first)) keys.push_back(child.first);
    }
  }
  return keys;
}

class Differ {
 public:
  Differ(const pipeline::Registry& registry, std::vector<Change>& out) : registry_(registry), out_(out) {}

  void process(const Value& from, const Value& to) {
    for (const std::string& key : all_keys(from, to)) {
      if (key == "switches") continue;
      refusal_ = contains(kProcessKeys, key) ? "" : kNotWhileRunning;
      leaves(key, "", from[key], to[key], to.mark());
    }
    refusal_.clear();
  }

  void a_switch(const std::string& name, const Value& from, const Value& to) {
    switch_ = name;
    for (const std::string& key : all_keys(from, to)) {
      const auto section =
          std::find_if(std::begin(kSections), std::end(kSections), [&](const Section& s) { return s.name == key; });
      if (section != std::end(kSections)) {
        items(*section, from[key], to[key]);
      } else if (key == "pipeline") {
        stages(from[key], to[key]);
      } else {
        // Without a seed the running one stays: it is the position in the file, which means nothing to a running
        // switch.
        refusal_ = contains(kSwitchKeys, key) ? "" : kNotWhileRunning;
        // Queues of one kind do not become queues of the other.
        if (key == "qos" && from[key].is_null() != to[key].is_null()) refusal_ = kNotWhileRunning;
        leaves(key, "", from[key], to[key], to.mark());
        refusal_.clear();
      }
    }
    switch_.clear();
  }

  void add(Kind kind, const std::string& what, const std::string& key, const Value& from, const Value& to,
           const Mark& mark) {
    out_.push_back({kind, switch_, what, key, as_written(from), as_written(to), mark, refusal_});
  }

 private:
  // Differences of two values; maps are entered.
  void leaves(const std::string& what, const std::string& path, const Value& from, const Value& to,
              const Mark& holder) {
    if (equal(from, to)) return;
    const Mark& mark = to.mark().line > 0 ? to.mark() : holder;
    if (!from.is_map() || !to.is_map()) return add(Kind::changed, what, path, from, to, mark);
    for (const std::string& key : all_keys(from, to)) {
      leaves(what, path.empty() ? key : path + "." + key, from[key], to[key], mark);
    }
  }

  void items(const Section& section, const Value& from, const Value& to) {
    const auto what = [&](const std::string& identity) { return std::string(section.item) + " " + identity; };
    // There may be a hundred thousand routes.
    std::unordered_map<std::string, const Value*> before;
    for (const Value& item : from.list_or_empty()) before.emplace(identity_of(item, section), &item);
    std::unordered_set<std::string> after;
    for (const Value& item : to.list_or_empty()) {
      const std::string identity = identity_of(item, section);
      after.insert(identity);
      if (const auto old = before.find(identity); old != before.end()) {
        for (const std::string& key : all_keys(*old->second, item)) {
          refusal_ = key == section.fixed ? kNotWhileRunning : "";
          leaves(what(identity), key, (*old->second)[key], item[key], item.mark());
        }
        refusal_.clear();
      } else {
        add(Kind::added, what(identity), "", {}, item, item.mark());
      }
    }
    for (const Value& item : from.list_or_empty()) {
      const std::string identity = identity_of(item, section);
      if (!after.contains(identity)) add(Kind::removed, what(identity), "", item, {}, to.mark());
    }
  }

  void stages(const Value& from, const Value& to) {
    const auto names = [](const Value& list) {
      std::vector<std::string> out;
      for (const Value& item : list.list_or_empty()) out.push_back(item.map().front().first);
      return out;
    };
    const auto before = names(from);
    const auto after = names(to);
    for (std::size_t i = 0; i < after.size(); ++i) {
      const Value& options = to.list()[i].map().front().second;
      const auto at = std::find(before.begin(), before.end(), after[i]);
      if (at == before.end()) {
        add(Kind::added, "stage " + after[i], "", {}, as_written(options), to.list()[i].mark());
      } else {
        const Value& old = from.list()[static_cast<std::size_t>(at - before.begin())].map().front().second;
        options_of(after[i], old, options, to.list()[i].mark());
      }
    }
    for (std::size_t i = 0; i < before.size(); ++i) {
      if (contains(after, before[i])) continue;
      add(Kind::removed, "stage " + before[i], "", from.list()[i].map().front().second, {}, to.mark());
    }
    order(from, to, before, after);
  }

  void options_of(const std::string& stage, const Value& from, const Value& to, const Mark& mark) {
    const auto& fixed = registry_.find(stage)->fixed_options;
    for (const std::string& key : all_keys(from, to)) {
      refusal_ = contains(fixed, key) ? kNotWhileRunning : "";
      leaves("stage " + stage, key, from[key], to[key], mark);
    }
    refusal_.clear();
  }

  // Stages that are in both files, when they stand in another order.
  void order(const Value& from, const Value& to, std::vector<std::string> before, std::vector<std::string> after) {
    const auto as_list = [](const std::vector<std::string>& names) {
      Value::List out;
      for (const auto& name : names) out.emplace_back(name);
      return Value(std::move(out));
    };
    const Value was = as_list(before);
    const Value is = as_list(after);
    std::erase_if(before, [&](const std::string& name) { return !contains(after, name); });
    std::erase_if(after, [&](const std::string& name) { return !contains(before, name); });
    if (before != after) add(Kind::changed, "pipeline", "", was, is, to.mark().line > 0 ? to.mark() : from.mark());
  }

  const pipeline::Registry& registry_;
  std::vector<Change>& out_;
  std::string switch_;
  std::string refusal_;
};

const Value* find_switch(const Config& config, const std::string& name) {
  for (const Value& item : config.source["switches"].list_or_empty()) {
    if (item["name"].string() == name) return &item;
  }
  return nullptr;
}

void flatten(ordered_json& rows, const std::string& switch_name, const std::string& path, const Value& value);

void flatten_list(ordered_json& rows, const std::string& switch_name, const std::string& path,
                  const Value::List& list) {
  const auto section = std::find_if(std::begin(kSections), std::end(kSections),
                                    [&](const Section& s) { return !switch_name.empty() && s.name == path; });
  for (std::size_t i = 0; i < list.size(); ++i) {
    const bool named = section != std::end(kSections);
    flatten(rows, switch_name, path + "[" + (named ? identity_of(list[i], *section) : std::to_string(i)) + "]",
            list[i]);
  }
}

void flatten(ordered_json& rows, const std::string& switch_name, const std::string& path, const Value& value) {
  if (value.is_null()) return;
  if (value.is_map()) {
    for (const auto& [key, child] : value.map()) {
      flatten(rows, switch_name, path.empty() ? key : path + "." + key, child);
    }
    return;
  }
  const bool list = value.visit([](const auto& v) { return std::is_same_v<std::decay_t<decltype(v)>, Value::List>; });
  if (list && !value.list().empty() && value.list().front().is_map()) {
    return flatten_list(rows, switch_name, path, value.list());
  }
  rows.push_back({{"switch", switch_name}, {"key", path}, {"value", to_json(value)}});
}

}  // namespace

std::vector<Change> config_changes(const Config& running, const Config& next, const pipeline::Registry& registry) {
  std::vector<Change> out;
  Differ differ(registry, out);
  differ.process(running.source, next.source);
  for (const Value& item : next.source["switches"].list_or_empty()) {
    const std::string& name = item["name"].string();
    const Value* before = find_switch(running, name);
    if (before != nullptr) {
      differ.a_switch(name, *before, item);
    } else {
      out.push_back({Kind::added, name, "switch", "", {}, as_written(item), item.mark(), ""});
    }
  }
  for (const Value& item : running.source["switches"].list_or_empty()) {
    const std::string& name = item["name"].string();
    if (find_switch(next, name) != nullptr) continue;
    out.push_back({Kind::removed, name, "switch", "", as_written(item), {}, next.source["switches"].mark(), ""});
  }
  return out;
}

ordered_json change_row(const Change& change) {
  constexpr const char* kNames[] = {"added", "removed", "changed"};
  return {{"switch", change.switch_name}, {"change", kNames[static_cast<std::size_t>(change.kind)]},
          {"what", change.what},          {"key", change.key},
          {"from", to_json(change.from)}, {"to", to_json(change.to)},
          {"refused", change.refused}};
}

std::string to_string(const Change& change) {
  std::string out = change.switch_name.empty() ? "" : change.switch_name + ": ";
  out += change.what + (change.key.empty() ? "" : " " + change.key);
  if (change.kind == Kind::added) return out + " added";
  if (change.kind == Kind::removed) return out + " removed";
  const auto shown = [](const Value& v) { return v.is_null() ? std::string("not set") : text_of(v); };
  return out + ": " + shown(change.from) + " -> " + shown(change.to);
}

ordered_json config_rows(const Config& config) {
  ordered_json rows = ordered_json::array();
  for (const auto& [key, value] : config.source.map()) {
    if (key != "switches") flatten(rows, "", key, value);
  }
  for (const Value& item : config.source["switches"].list_or_empty()) {
    for (const auto& [key, value] : item.map()) {
      if (key != "name") flatten(rows, item["name"].string(), key, value);
    }
  }
  return rows;
}

}  // namespace weft::config
