// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Configuration as typed values with positions, and schemas that say what is allowed. A stage declares its options
// beside its code; the loader validates the file against them, fills in defaults, and reports every mistake with
// file, line and column; conf/schema.json is generated from the same declarations.
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace weft::config {

/// A position in a configuration file; line and column count from 1, 0 when there is none (a default).
struct Mark {
  std::string file;
  int line = 0;
  int column = 0;
};

/// "FILE:LINE:COLUMN: ", or "" where there is no position.
[[nodiscard]] std::string at(const Mark& mark);

/// Collects mistakes in a configuration; all are reported at once.
class Diagnostics {
 public:
  struct Entry {
    Mark mark;
    std::string text;
  };
  void error(const Mark& mark, std::string text) { entries_.push_back({mark, std::move(text)}); }
  /// Something that is allowed and may surprise; does not make the configuration invalid.
  void note(const Mark& mark, std::string text) { notes_.push_back({mark, std::move(text)}); }
  [[nodiscard]] bool ok() const noexcept { return entries_.empty(); }
  [[nodiscard]] const std::vector<Entry>& entries() const noexcept { return entries_; }
  [[nodiscard]] const std::vector<Entry>& notes() const noexcept { return notes_; }
  /// One line per mistake: `file:line:column: text`, in the order of the file; then notes in the same form.
  [[nodiscard]] std::string to_string() const;

 private:
  std::vector<Entry> entries_;
  std::vector<Entry> notes_;
};

/// A node of a configuration tree. Reading a value as what its schema does not promise is our own mistake and aborts.
class Value {
 public:
  using List = std::vector<Value>;
  using Map = std::vector<std::pair<std::string, Value>>;  ///< in the order of the file, defaults last

  Value() = default;
  explicit Value(bool v) : data_(v) {}
  template <std::integral T>
  requires(!std::same_as<T, bool>) explicit Value(T v) : data_(static_cast<std::int64_t>(v)) {}
  explicit Value(double v) : data_(v) {}
  explicit Value(std::string v) : data_(std::move(v)) {}
  explicit Value(const char* v) : data_(std::string(v)) {}  ///< without it, a literal would become a bool
  explicit Value(List v) : data_(std::move(v)) {}
  explicit Value(Map v) : data_(std::move(v)) {}

  [[nodiscard]] bool is_null() const noexcept { return std::holds_alternative<std::monostate>(data_); }
  [[nodiscard]] bool is_string() const noexcept { return std::holds_alternative<std::string>(data_); }
  [[nodiscard]] bool is_map() const noexcept { return std::holds_alternative<Map>(data_); }
  [[nodiscard]] bool boolean() const { return get<bool>(); }
  [[nodiscard]] std::int64_t integer() const { return get<std::int64_t>(); }
  [[nodiscard]] std::uint64_t unsigned_integer() const { return static_cast<std::uint64_t>(get<std::int64_t>()); }
  /// A number: an integer is converted.
  [[nodiscard]] double number() const;
  [[nodiscard]] const std::string& string() const { return get<std::string>(); }
  [[nodiscard]] const List& list() const { return get<List>(); }
  [[nodiscard]] const Map& map() const { return get<Map>(); }
  /// The list, or an empty one when null.
  [[nodiscard]] const List& list_or_empty() const;

  /// Child of a map; a null Value when absent (only possible for optional keys without default).
  [[nodiscard]] const Value& operator[](std::string_view key) const;
  [[nodiscard]] bool has(std::string_view key) const { return !(*this)[key].is_null(); }
  /// Adds or replaces a child; a null Value becomes a map.
  void set(std::string key, Value value);

  /// Calls f with what is inside: std::monostate, bool, std::int64_t, double, std::string, List or Map.
  template <typename F>
  decltype(auto) visit(F&& f) const {
    return std::visit(std::forward<F>(f), data_);
  }

  [[nodiscard]] const Mark& mark() const noexcept { return mark_; }
  void set_mark(Mark m) { mark_ = std::move(m); }

 private:
  template <typename T>
  const T& get() const;
  [[noreturn]] static void wrong_type();

  std::variant<std::monostate, bool, std::int64_t, double, std::string, List, Map> data_;
  Mark mark_;
};

/// The same content: positions do not count, nor the order of keys; a null child is as good as an absent one.
[[nodiscard]] bool equal(const Value& a, const Value& b);

/// What a Value may be. Built once, immutable, cheap to copy.
class Schema {
 public:
  struct Key;

  /// Any value of the kind; narrowed by the member functions below.
  static Schema boolean();
  static Schema integer(std::int64_t min, std::int64_t max);
  static Schema number(double min, double max);
  static Schema string();  ///< non-empty
  static Schema text();    ///< any text, "" too
  static Schema name();    ///< [A-Za-z][A-Za-z0-9_.-]{0,62}: ports, switches
  static Schema one_of(std::initializer_list<std::string_view> words);
  static Schema one_of(std::vector<std::string> words);
  static Schema mac();     ///< aa:bb:cc:dd:ee:ff, kept as string
  static Schema ip();      ///< IPv4 or IPv6 address
  static Schema prefix();  ///< address/length (host bits allowed; users may refuse)
  static Schema list(Schema item, std::size_t min_items = 0);
  static Schema map(std::vector<Key> keys);
  /// A map whose keys are the user's own, for whom it is written; every value is an `item`.
  static Schema dictionary(Schema item);
  /// A map that is chosen by the word under `tag`: every alternative is a map schema that includes `tag` implicitly.
  static Schema tagged(std::string tag, std::vector<std::pair<std::string, Schema>> alternatives);
  /// Either of two schemas of different YAML kinds (`vlan: 5` or `vlan: [1, 2]`). Of one kind: the first that fits.
  static Schema either(Schema first, Schema second);
  /// A list of stages: items are `name`, or `name: {options}`; filled by the loader from a Registry. As a Value, every
  /// item is a map whose only key is the stage and whose value are its options, null when they are wrong.
  static Schema stages();

  struct Node;
  [[nodiscard]] const Node& node() const noexcept { return *node_; }
  /// As JSON Schema (draft 2020-12). stages() becomes a reference to `#/$defs/stages`.
  [[nodiscard]] nlohmann::json to_json_schema() const;

  explicit Schema(std::shared_ptr<const Node> node) : node_(std::move(node)) {}
  /// A map without keys.
  Schema();

 private:
  std::shared_ptr<const Node> node_;
};

/// A key of a map.
struct Schema::Key {
  std::string name;
  Schema schema;
  std::string doc;  ///< one sentence with the unit
  bool required = false;
  std::optional<Value> fallback{};  ///< used when the key is absent

  static Key required_key(std::string name, Schema schema, std::string doc);
  /// Absent stays null.
  static Key optional_key(std::string name, Schema schema, std::string doc);
  /// A fallback that the schema refuses is our own mistake and aborts. A map's own defaults are filled in.
  static Key with_default(std::string name, Schema schema, const Value& fallback, std::string doc);
};

}  // namespace weft::config
