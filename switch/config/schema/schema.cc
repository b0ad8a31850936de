// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/config/schema/schema.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "switch/config/schema/schema_node.h"
#include "switch/config/schema/suggest.h"
#include "switch/config/schema/validate.h"

namespace weft::config {
namespace {

using Kind = Schema::Node::Kind;

Schema make(Schema::Node node) {
  return Schema(std::make_shared<const Schema::Node>(std::move(node)));
}

std::string number_text(double v) {
  char out[32];
  std::snprintf(out, sizeof out, "%.12g", v);
  return out;
}

std::string line_of(const Diagnostics::Entry& e, const char* kind) {
  return (e.mark.line > 0 ? at(e.mark) : e.mark.file + ": ") + kind + e.text + "\n";
}

void append_lines(std::string& out, std::vector<Diagnostics::Entry> entries, const char* kind) {
  std::stable_sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) {
    return std::pair(a.mark.line, a.mark.column) < std::pair(b.mark.line, b.mark.column);
  });
  std::string previous;
  for (const auto& entry : entries) {
    std::string line = line_of(entry, kind);
    // What an alias repeats is wrong once, at its anchor.
    if (line != previous) out += line;
    previous = std::move(line);
  }
}

}  // namespace

std::string at(const Mark& mark) {
  if (mark.line == 0) return "";
  return mark.file + ":" + std::to_string(mark.line) + ":" + std::to_string(mark.column) + ": ";
}

std::string Diagnostics::to_string() const {
  std::string out;
  append_lines(out, entries_, "");
  append_lines(out, notes_, "note: ");
  return out;
}

void Value::wrong_type() {
  std::fputs("weft: a configuration value was read as a type that its schema does not promise\n", stderr);
  std::abort();
}

template <typename T>
const T& Value::get() const {
  if (!std::holds_alternative<T>(data_)) wrong_type();
  return *std::get_if<T>(&data_);
}
template const bool& Value::get<bool>() const;
template const std::int64_t& Value::get<std::int64_t>() const;
template const std::string& Value::get<std::string>() const;
template const Value::List& Value::get<Value::List>() const;
template const Value::Map& Value::get<Value::Map>() const;

double Value::number() const {
  if (const auto* integer = std::get_if<std::int64_t>(&data_)) return static_cast<double>(*integer);
  return get<double>();
}

const Value::List& Value::list_or_empty() const {
  static const List kEmpty;
  return is_null() ? kEmpty : list();
}

const Value& Value::operator[](std::string_view key) const {
  static const Value kAbsent;
  for (const auto& [name, value] : map()) {
    if (name == key) return value;
  }
  return kAbsent;
}

void Value::set(std::string key, Value value) {
  if (is_null()) data_ = Map{};
  if (!std::holds_alternative<Map>(data_)) wrong_type();
  auto& entries = *std::get_if<Map>(&data_);
  for (auto& entry : entries) {
    if (entry.first == key) {
      entry.second = std::move(value);
      return;
    }
  }
  entries.emplace_back(std::move(key), std::move(value));
}

namespace {

bool equal_lists(const Value::List& a, const Value::List& b) {
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(), equal);
}

bool equal_maps(const Value& a, const Value& b) {
  const auto covers = [](const Value& larger, const Value& smaller) {
    return std::all_of(smaller.map().begin(), smaller.map().end(),
                       [&](const auto& child) { return equal(child.second, larger[child.first]); });
  };
  return covers(a, b) && covers(b, a);
}

}  // namespace

bool equal(const Value& a, const Value& b) {
  return a.visit([&](const auto& left) {
    return b.visit([&](const auto& right) {
      using Left = std::decay_t<decltype(left)>;
      if constexpr (!std::is_same_v<Left, std::decay_t<decltype(right)>>) {
        return false;
      } else if constexpr (std::is_same_v<Left, Value::List>) {
        return equal_lists(left, right);
      } else if constexpr (std::is_same_v<Left, Value::Map>) {
        return equal_maps(a, b);
      } else {
        return left == right;
      }
    });
  });
}

Schema::Schema() : Schema(map({})) {}
Schema Schema::boolean() {
  return make({.kind = Kind::boolean});
}
Schema Schema::integer(std::int64_t min, std::int64_t max) {
  return make({.kind = Kind::integer, .min = min, .max = max});
}
Schema Schema::number(double min, double max) {
  return make({.kind = Kind::number, .low = min, .high = max});
}
Schema Schema::string() {
  return make({.kind = Kind::string});
}
Schema Schema::text() {
  return make({.kind = Kind::text});
}
Schema Schema::name() {
  return make({.kind = Kind::name});
}
Schema Schema::one_of(std::initializer_list<std::string_view> words) {
  return one_of(std::vector<std::string>(words.begin(), words.end()));
}
Schema Schema::one_of(std::vector<std::string> words) {
  return make({.kind = Kind::one_of, .words = std::move(words)});
}
Schema Schema::mac() {
  return make({.kind = Kind::mac});
}
Schema Schema::ip() {
  return make({.kind = Kind::ip});
}
Schema Schema::prefix() {
  return make({.kind = Kind::prefix});
}
Schema Schema::list(Schema item, std::size_t min_items) {
  return make({.kind = Kind::list, .children = {std::move(item)}, .min_items = min_items});
}
Schema Schema::map(std::vector<Key> keys) {
  return make({.kind = Kind::map, .keys = std::move(keys)});
}
Schema Schema::dictionary(Schema item) {
  return make({.kind = Kind::dictionary, .children = {std::move(item)}});
}
Schema Schema::tagged(std::string tag, std::vector<std::pair<std::string, Schema>> alternatives) {
  return make({.kind = Kind::tagged, .tag = std::move(tag), .alternatives = std::move(alternatives)});
}
Schema Schema::either(Schema first, Schema second) {
  return make({.kind = Kind::either, .children = {std::move(first), std::move(second)}});
}
Schema Schema::stages() {
  return make({.kind = Kind::stages});
}

Schema::Key Schema::Key::required_key(std::string name, Schema schema, std::string doc) {
  return {std::move(name), std::move(schema), std::move(doc), true, std::nullopt};
}
Schema::Key Schema::Key::optional_key(std::string name, Schema schema, std::string doc) {
  return {std::move(name), std::move(schema), std::move(doc), false, std::nullopt};
}
Schema::Key Schema::Key::with_default(std::string name, Schema schema, const Value& fallback, std::string doc) {
  Diagnostics diagnostics;
  Value complete = validate(schema, to_document(fallback), name, nullptr, diagnostics);
  if (!diagnostics.ok()) {
    std::fprintf(stderr, "weft: the default of a configuration key does not fit its schema: %s\n",
                 diagnostics.to_string().c_str());
    std::abort();
  }
  return {std::move(name), std::move(schema), std::move(doc), false, std::move(complete)};
}

bool is_name(std::string_view text) noexcept {
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  const auto other = [](char c) { return (c >= '0' && c <= '9') || c == '_' || c == '.' || c == '-'; };
  if (text.empty() || text.size() > kMaxNameLength || !letter(text[0])) return false;
  return std::all_of(text.begin(), text.end(), [&](char c) { return letter(c) || other(c); });
}

std::string describe(const Schema& schema) {
  const auto& node = schema.node();
  switch (node.kind) {
    case Kind::boolean:
      return "true or false";
    case Kind::integer:
      return "an integer from " + std::to_string(node.min) + " to " + std::to_string(node.max);
    case Kind::number:
      return "a number from " + number_text(node.low) + " to " + number_text(node.high);
    case Kind::string:
      return "text";
    case Kind::text:
      return "text";
    case Kind::name:
      return "a name of a letter, then letters, digits, '_', '.', '-', at most 63 characters";
    case Kind::one_of:
      return node.words.size() == 1 ? "'" + node.words[0] + "'" : "one of " + joined(node.words);
    case Kind::mac:
      return "a MAC address such as 02:00:00:00:00:01";
    case Kind::ip:
      return "an IP address such as 10.0.0.1 or 2001:db8::1";
    case Kind::prefix:
      return "an address with a prefix length such as 10.0.0.1/24";
    case Kind::list:
      return "a list";
    case Kind::map:
    case Kind::dictionary:
      return "a map";
    case Kind::tagged:
      return "a map with the key '" + node.tag + "'";
    case Kind::either:
      return describe(node.children[0]) + ", or " + describe(node.children[1]);
    case Kind::stages:
      return "a list of stages";
  }
  return {};
}

}  // namespace weft::config
