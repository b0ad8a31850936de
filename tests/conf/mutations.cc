// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "tests/conf/mutations.h"

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <optional>

#include "switch/config/config_schema.h"
#include "switch/config/schema/schema_node.h"
#include "switch/config/schema/validate.h"

namespace weft::testing {
namespace {

using config::DocumentNode;
using config::Mark;
using config::Schema;
using pipeline::Registry;
using Kind = Schema::Node::Kind;
using Doc = DocumentNode;
using Random = std::mt19937_64;

// --- writing -----------------------------------------------------------------------------------------------------

class Writer {
 public:
  std::string write(Doc& root) {
    value(root, 0);
    return out_ + "\n";
  }

 private:
  Mark here() const { return {"f", line_, static_cast<int>(out_.size() - line_start_) + 1}; }

  void new_line(std::size_t indent) {
    out_ += "\n";
    ++line_;
    line_start_ = out_.size();
    out_.append(2 * indent, ' ');
  }

  void text(const Doc& node) {
    const bool as_it_is = node.kind == Doc::Kind::plain && config::resolve_plain(node.text) != config::ScalarKind::text;
    out_ += as_it_is ? node.text : nlohmann::json(node.text).dump();
  }

  void value(Doc& node, std::size_t indent) {
    node.mark = here();
    if (node.kind == Doc::Kind::null) {
      out_ += node.text.empty() ? "~" : node.text;
    } else if (node.kind == Doc::Kind::list) {
      out_ += "[";
      for (auto& item : node.items) {
        new_line(indent + 1);
        value(item, indent + 1);
        out_ += ",";
      }
      out_ += "]";
    } else if (node.kind == Doc::Kind::map) {
      out_ += "{";
      for (auto& entry : node.entries) {
        new_line(indent + 1);
        entry.mark = here();
        out_ += entry.key + ": ";
        value(entry.value, indent + 1);
        out_ += ",";
      }
      out_ += "}";
    } else {
      text(node);
    }
  }

  std::string out_;
  int line_ = 1;
  std::size_t line_start_ = 0;
};

Doc plain(std::string text) {
  Doc out(Doc::Kind::plain);
  out.text = std::move(text);
  return out;
}

// --- places ------------------------------------------------------------------------------------------------------

// A value, what it must be, and how messages call it.
struct Site {
  Doc* node;
  Schema schema;
  std::string what;
  Doc* parent = nullptr;
  std::string key{};      // in the parent, when that is a map
  bool required = false;  // that key

  [[nodiscard]] Kind kind() const { return schema.node().kind; }
};

Doc::Entry* find(Doc& map, std::string_view key) {
  const auto found = std::find_if(map.entries.begin(), map.entries.end(), [&](auto& e) { return e.key == key; });
  return found == map.entries.end() ? nullptr : &*found;
}

bool fits(const Schema& schema, const Doc& node, const Registry& registry) {
  config::Diagnostics none;
  (void)config::validate(schema, node, "", &registry, none);
  return none.ok();
}

// Keys that a map may have, by the alternative that its tag chose.
std::vector<Schema::Key> keys_of(const Schema& schema, Doc& map) {
  const auto& node = schema.node();
  if (node.kind == Kind::map) return node.keys;
  std::vector<std::string> tags;
  std::vector<Schema::Key> keys;
  const auto* tag = find(map, node.tag);
  for (const auto& [word, alternative] : node.alternatives) {
    tags.push_back(word);
    if (tag != nullptr && tag->value.text == word) keys = alternative.node().keys;
  }
  keys.push_back(Schema::Key::required_key(node.tag, Schema::one_of(tags), ""));
  return keys;
}

void collect(std::vector<Site>& out, Site site, const Registry& registry) {
  if (site.kind() == Kind::either) {
    for (const auto& child : site.schema.node().children) {
      if (!fits(child, *site.node, registry)) continue;
      // The message names both schemas, so the site keeps the whole; what lies below is the chosen one's.
      if (site.node->kind == Doc::Kind::map || site.node->kind == Doc::Kind::list) {
        Site chosen = site;
        chosen.schema = child;
        chosen.required = false;
        collect(out, chosen, registry);
        out.erase(std::find_if(out.begin(), out.end(), [&](const Site& s) { return s.node == site.node; }));
      }
      break;
    }
    out.push_back(std::move(site));
    return;
  }
  out.push_back(site);
  Doc& node = *site.node;
  if (node.kind == Doc::Kind::list && site.kind() == Kind::list) {
    for (std::size_t i = 0; i < node.items.size(); ++i) {
      collect(out, {&node.items[i], site.schema.node().children[0], site.what + "[" + std::to_string(i) + "]", &node},
              registry);
    }
  } else if (node.kind == Doc::Kind::map && (site.kind() == Kind::map || site.kind() == Kind::tagged)) {
    for (const auto& key : keys_of(site.schema, node)) {
      if (auto* entry = find(node, key.name)) {
        collect(out, {&entry->value, key.schema, key.name, &node, key.name, key.required}, registry);
      }
    }
  } else if (node.kind == Doc::Kind::map && site.kind() == Kind::dictionary) {
    for (auto& entry : node.entries) {
      collect(out, {&entry.value, site.schema.node().children[0], entry.key, &node, entry.key}, registry);
    }
  } else if (site.kind() == Kind::stages) {
    for (auto& item : node.items) {
      if (item.kind != Doc::Kind::map) continue;
      auto& entry = item.entries[0];
      collect(out, {&entry.value, registry.find(entry.key)->options, entry.key, &item}, registry);
    }
  }
}

// --- mistakes ----------------------------------------------------------------------------------------------------

// A mistake that was made: where the loader must point once the document is written, and what it must say.
struct Mistake {
  const Mark* at;
  std::function<std::string()> text;
};

struct Work {
  Doc& root;
  std::vector<Site>& sites;
  const Registry& registry;
  Random& random;

  std::size_t below(std::size_t n) { return static_cast<std::size_t>(random() % n); }

  // A site at random among those that pass the test.
  template <typename F>
  Site* pick(F&& test) {
    std::vector<Site*> fitting;
    for (auto& site : sites) {
      if (test(site)) fitting.push_back(&site);
    }
    return fitting.empty() ? nullptr : fitting[below(fitting.size())];
  }
};

std::function<std::string()> says(std::string text) {
  return [text = std::move(text)] { return text; };
}

bool is_object(const Site& s) {
  return s.node->kind == Doc::Kind::map && (s.kind() == Kind::map || s.kind() == Kind::tagged);
}

std::string prefix(const Site& s) {
  return s.what.empty() ? "" : s.what + ": ";
}

std::optional<Mistake> unknown_key(Work& work) {
  Site* site = work.pick(is_object);
  auto& entries = site->node->entries;
  const auto at = entries.begin() + static_cast<std::ptrdiff_t>(work.below(entries.size() + 1));
  Doc::Entry entry;
  entry.key = "xyzzy";
  entry.value = plain("1");
  const auto inserted = entries.insert(at, std::move(entry));
  return Mistake{&inserted->mark, says(prefix(*site) + "unknown key 'xyzzy'")};
}

std::optional<Mistake> misspelt_key(Work& work) {
  Site* site = work.pick([](const Site& s) { return is_object(s) && !s.node->entries.empty(); });
  auto& entry = site->node->entries[work.below(site->node->entries.size())];
  // Without its tag, a map is not searched for its other keys.
  if (site->kind() == Kind::tagged && entry.key == site->schema.node().tag) return std::nullopt;
  const std::string right = entry.key;
  entry.key.erase(entry.key.size() / 2, 1);
  for (const auto& key : keys_of(site->schema, *site->node)) {
    if (key.name == entry.key) return std::nullopt;
  }
  if (entry.key.size() < 3) return std::nullopt;
  return Mistake{&entry.mark, says(prefix(*site) + "unknown key '" + entry.key + "'; did you mean '")};
}

std::optional<Mistake> wrong_kind(Work& work) {
  Site* site = work.pick([](const Site& s) { return !s.what.empty(); });
  Doc wrong(Doc::Kind::map);
  std::string found = "a map";
  switch (work.below(3)) {
    case 0:
      break;
    case 1:
      wrong = Doc(Doc::Kind::list);
      found = "a list";
      break;
    default:
      wrong = plain("true");
      found = "true";
  }
  // What might be of the right kind after all, or gets another message, is drawn again.
  const bool object = is_object(*site) || site->kind() == Kind::either || site->kind() == Kind::dictionary;
  if (wrong.kind == Doc::Kind::map && object) return std::nullopt;
  if (wrong.kind == Doc::Kind::list &&
      (site->kind() == Kind::list || site->kind() == Kind::stages || site->kind() == Kind::either)) {
    return std::nullopt;
  }
  if (fits(site->schema, wrong, work.registry)) return std::nullopt;
  *site->node = std::move(wrong);
  return Mistake{&site->node->mark, says(prefix(*site) + "expected " + describe(site->schema) + ", found " + found)};
}

std::optional<Mistake> out_of_range(Work& work) {
  Site* site = work.pick([](const Site& s) { return s.kind() == Kind::integer || s.kind() == Kind::number; });
  if (site == nullptr) return std::nullopt;
  const auto& schema = site->schema.node();
  const bool high = work.below(2) == 0;
  if (site->kind() == Kind::integer) {
    if (high ? schema.max == INT64_MAX : schema.min == INT64_MIN) return std::nullopt;
    site->node->text = std::to_string(high ? schema.max + 1 : schema.min - 1);
  } else {
    site->node->text = high ? std::to_string(schema.high + 1) : std::to_string(schema.low - 1);
  }
  return Mistake{&site->node->mark,
                 says(prefix(*site) + "expected " + describe(site->schema) + ", found " + site->node->text)};
}

std::optional<Mistake> quoted_number(Work& work) {
  Site* site = work.pick([](const Site& s) { return s.kind() == Kind::integer; });
  if (site == nullptr) return std::nullopt;
  site->node->kind = Doc::Kind::quoted;
  return Mistake{&site->node->mark, says(prefix(*site) + "expected " + describe(site->schema) + ", found the text '" +
                                         site->node->text + "'; write it without quotes")};
}

std::optional<Mistake> misspelt_word(Work& work) {
  Site* site = work.pick([](const Site& s) { return s.kind() == Kind::one_of; });
  if (site == nullptr) return std::nullopt;
  site->node->kind = Doc::Kind::quoted;
  site->node->text += "x";
  return Mistake{&site->node->mark, says(prefix(*site) + "expected " + describe(site->schema) + ", found the text '" +
                                         site->node->text + "'")};
}

std::optional<Mistake> missing_key(Work& work) {
  Site* site = work.pick([](const Site& s) { return s.required; });
  if (site == nullptr) return std::nullopt;
  Doc& map = *site->parent;
  const auto parent = std::find_if(work.sites.begin(), work.sites.end(), [&](const Site& s) { return s.node == &map; });
  std::erase_if(map.entries, [&](const auto& e) { return e.key == site->key; });
  return Mistake{&map.mark, says(prefix(*parent) + "missing key '" + site->key + "'")};
}

std::optional<Mistake> duplicate_key(Work& work) {
  Site* site = work.pick([](const Site& s) { return is_object(s) && !s.node->entries.empty(); });
  auto& entries = site->node->entries;
  const std::size_t first = work.below(entries.size());
  entries.push_back(entries[first]);
  Doc* map = site->node;
  return Mistake{&entries.back().mark, [map, first] {
                   return "key '" + map->entries[first].key + "' stands twice, first at line " +
                          std::to_string(map->entries[first].mark.line);
                 }};
}

// The node of a switch's section that `work` draws, or nullptr.
Site* section(Work& work, std::string_view name) {
  return work.pick(
      [&](const Site& s) { return s.key == name && s.node->kind == Doc::Kind::list && !s.node->items.empty(); });
}

std::optional<Mistake> duplicate_port(Work& work) {
  Site* ports = section(work, "ports");
  // The word `ports` is also a list of names in the options of stages.
  if (ports->node->items[0].kind != Doc::Kind::map) return std::nullopt;
  const std::size_t first = work.below(ports->node->items.size());
  ports->node->items.push_back(ports->node->items[first]);
  Doc* list = ports->node;
  return Mistake{&find(list->items.back(), "name")->value.mark, [list, first] {
                   const auto& name = find(list->items[first], "name")->value;
                   return "name: port '" + name.text + "' is declared twice, first at line " +
                          std::to_string(name.mark.line);
                 }};
}

std::optional<Mistake> duplicate_switch(Work& work) {
  Doc& list = find(work.root, "switches")->value;
  const std::size_t first = work.below(list.items.size());
  list.items.push_back(list.items[first]);
  return Mistake{&find(list.items.back(), "name")->value.mark, [&list, first] {
                   const auto& name = find(list.items[first], "name")->value;
                   return "name: switch '" + name.text + "' is declared twice, first at line " +
                          std::to_string(name.mark.line);
                 }};
}

std::optional<Mistake> unknown_port(Work& work) {
  Site* site = work.pick([](const Site& s) { return s.key == "port" && s.kind() == Kind::name; });
  if (site == nullptr) return std::nullopt;
  site->node->text = "nowhere";
  return Mistake{&site->node->mark, says("port: unknown port 'nowhere'")};
}

std::optional<Mistake> dangling_peer(Work& work) {
  Site* site = work.pick([](const Site& s) { return s.key == "peer"; });
  if (site == nullptr) return std::nullopt;
  switch (work.below(3)) {
    case 0:
      site->node->text = "nowhere/p1";
      return Mistake{&site->node->mark, says("peer: unknown switch 'nowhere'")};
    case 1: {
      const std::string peer = site->node->text.substr(0, site->node->text.find('/'));
      site->node->text = peer + "/nowhere";
      return Mistake{&site->node->mark, says("peer: switch '" + peer + "' has no port 'nowhere'")};
    }
    default:
      site->node->text = "nowhere";
      return Mistake{&site->node->mark, says("peer: expected switch/port")};
  }
}

Site* any_pipeline(Work& work) {
  return work.pick([](const Site& s) { return s.kind() == Kind::stages; });
}

Doc stage_named(const std::string& name) {
  Doc out(Doc::Kind::quoted);
  out.text = name;
  return out;
}

std::string stage_name(const Doc& item) {
  return item.kind == Doc::Kind::map ? item.entries[0].key : item.text;
}

std::optional<Mistake> unknown_stage(Work& work) {
  auto& items = any_pipeline(work)->node->items;
  Doc& item = items[work.below(items.size())];
  item = stage_named("teleport");
  return Mistake{&item.mark, says("unknown stage 'teleport'")};
}

std::optional<Mistake> duplicate_stage(Work& work) {
  auto& items = any_pipeline(work)->node->items;
  const std::string name = stage_name(items[work.below(items.size())]);
  items.push_back(stage_named(name));
  return Mistake{&items.back().mark, says("stage '" + name + "' stands twice in the pipeline")};
}

std::optional<Mistake> stage_without_its_need(Work& work) {
  auto& items = any_pipeline(work)->node->items;
  items.erase(items.begin());
  Doc& item = items.front();
  const Mark* at = item.kind == Doc::Kind::map ? &item.entries[0].mark : &item.mark;
  return Mistake{at, says("stage '" + stage_name(item) + "' needs parse before it")};
}

std::optional<Mistake> no_forwarding(Work& work) {
  Doc* list = any_pipeline(work)->node;
  while (list->items.size() > 1) list->items.pop_back();
  return Mistake{&list->mark, says("pipeline: no stage decides where packets go; expected l2 or l3")};
}

std::optional<Mistake> host_bits(Work& work) {
  Site* site = work.pick([](const Site& s) { return s.key == "prefix"; });
  if (site == nullptr) return std::nullopt;
  site->node->text = "198.51.100.7/24";
  return Mistake{&site->node->mark, says("prefix: 198.51.100.7/24 has host bits; the network is 198.51.100.0/24")};
}

std::optional<Mistake> network_address(Work& work) {
  Site* site = work.pick([](const Site& s) { return s.key == "address" && s.kind() == Kind::prefix; });
  if (site == nullptr) return std::nullopt;
  const bool broadcast = work.below(2) == 0;
  site->node->text = broadcast ? "198.51.100.255/24" : "198.51.100.0/24";
  return Mistake{&site->node->mark, says("address: " + site->node->text + " is the " +
                                         (broadcast ? "broadcast" : "network") + " address of 198.51.100.0/24")};
}

std::optional<Mistake> multicast_mac(Work& work) {
  Site* site = work.pick([](const Site& s) { return s.key == "mac"; });
  if (site == nullptr) return std::nullopt;
  site->node->text = "01:00:5e:00:00:01";
  return Mistake{&site->node->mark, says("mac: expected a unicast address, found 01:00:5e:00:00:01")};
}

std::optional<Mistake> unreachable_hop(Work& work) {
  Site* via = section(work, "via");
  if (via == nullptr) return std::nullopt;
  Doc& hop = via->node->items[work.below(via->node->items.size())];
  hop = stage_named("198.51.100.7");
  const auto& prefix = find(*via->parent, "prefix")->value.text;
  const bool v6 = prefix.find(':') != prefix.npos;
  return Mistake{&hop.mark, says(v6 ? "via: 198.51.100.7 and prefix " + prefix + " are of different address families"
                                    : "via: 198.51.100.7 is in no connected subnet")};
}

std::optional<Mistake> device_used_twice(Work& work) {
  Site* first = work.pick([](const Site& s) { return s.key == "interface"; });
  Site* second = work.pick([](const Site& s) { return s.key == "interface"; });
  if (first == nullptr || first->node >= second->node) return std::nullopt;
  second->node->text = first->node->text;
  // Of the two, the later in the file is wrong.
  const Doc* a = first->node;
  const Doc* b = second->node;
  if (std::find_if(work.sites.begin(), work.sites.end(), [&](const Site& s) { return s.node == b; }) <
      std::find_if(work.sites.begin(), work.sites.end(), [&](const Site& s) { return s.node == a; })) {
    std::swap(a, b);
  }
  return Mistake{&b->mark, says("interface: '" + b->text + "' is already used by port '")};
}

struct Operator {
  const char* name;
  bool structural;
  std::optional<Mistake> (*make)(Work&);
};

constexpr Operator kOperators[] = {
    {"unknown key", true, unknown_key},
    {"misspelt key", true, misspelt_key},
    {"value of the wrong kind", true, wrong_kind},
    {"number out of range", true, out_of_range},
    {"number in quotes", true, quoted_number},
    {"misspelt word", true, misspelt_word},
    {"missing key", true, missing_key},
    {"unknown stage", true, unknown_stage},
    {"duplicate key", false, duplicate_key},
    {"duplicate port", false, duplicate_port},
    {"duplicate switch", false, duplicate_switch},
    {"duplicate stage", false, duplicate_stage},
    {"unknown port", false, unknown_port},
    {"dangling peer", false, dangling_peer},
    {"stage without its need", false, stage_without_its_need},
    {"no stage that forwards", false, no_forwarding},
    {"prefix with host bits", false, host_bits},
    {"network as an address", false, network_address},
    {"multicast MAC address", false, multicast_mac},
    {"next hop out of reach", false, unreachable_hop},
    {"device used twice", false, device_used_twice},
};

}  // namespace

std::string write_yaml(DocumentNode& root) {
  return Writer().write(root);
}

Mutator::Mutator(std::vector<DocumentNode> documents, const Registry& registry, std::uint64_t seed)
    : documents_(std::move(documents)), registry_(registry), random_(seed) {}

std::size_t Mutator::kinds() const noexcept {
  return std::size(kOperators);
}

Mutant Mutator::make(std::size_t kind) {
  const Operator& op = kOperators[kind];
  for (int attempt = 0; attempt < 10'000; ++attempt) {
    Doc root = documents_[static_cast<std::size_t>(random_() % documents_.size())];
    std::vector<Site> sites;
    collect(sites, {&root, config::config_schema(), ""}, registry_);
    Work work{root, sites, registry_, random_};
    const auto mistake = op.make(work);
    if (!mistake) continue;
    Mutant out{op.name, write_yaml(root), "", op.structural};
    out.expected =
        "f:" + std::to_string(mistake->at->line) + ":" + std::to_string(mistake->at->column) + ": " + mistake->text();
    return out;
  }
  std::abort();
}

}  // namespace weft::testing
