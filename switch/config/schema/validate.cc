// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/config/schema/validate.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <iterator>

#include "switch/config/schema/schema_node.h"
#include "switch/config/schema/suggest.h"
#include "switch/wire/addresses.h"

namespace weft::config {
namespace {

using Kind = Schema::Node::Kind;
using Doc = DocumentNode;

bool is_scalar(const Doc& node) {
  return node.kind == Doc::Kind::plain || node.kind == Doc::Kind::quoted;
}

// Text as YAML sees it: quoted, or plain and nothing else.
bool is_text(const Doc& node) {
  return node.kind == Doc::Kind::quoted ||
         (node.kind == Doc::Kind::plain && resolve_plain(node.text) == ScalarKind::text);
}

// Words may be spelled like a null or a bool: `type: null`, `learn: true`.
bool is_word(const Doc& node, const std::vector<std::string>& words) {
  if (!is_scalar(node) && node.kind != Doc::Kind::null) return false;
  return std::find(words.begin(), words.end(), node.text) != words.end();
}

std::vector<std::string> tags_of(const Schema::Node& node) {
  std::vector<std::string> out;
  for (const auto& [tag, schema] : node.alternatives) out.push_back(tag);
  return out;
}

// True when the node is of a YAML kind that the schema describes, whatever its value.
bool fits_kind(const Schema& schema, const Doc& node) {
  const auto& s = schema.node();
  const auto plain = [&](ScalarKind kind) { return node.kind == Doc::Kind::plain && resolve_plain(node.text) == kind; };
  switch (s.kind) {
    case Kind::boolean:
      return plain(ScalarKind::boolean);
    case Kind::integer:
      return plain(ScalarKind::integer);
    case Kind::number:
      return plain(ScalarKind::integer) || plain(ScalarKind::number);
    case Kind::one_of:
      return is_text(node) || is_word(node, s.words);
    case Kind::string:
    case Kind::text:
    case Kind::name:
    case Kind::mac:
    case Kind::ip:
    case Kind::prefix:
      return is_text(node);
    case Kind::list:
    case Kind::stages:
      return node.kind == Doc::Kind::list;
    case Kind::map:
    case Kind::dictionary:
    case Kind::tagged:
      return node.kind == Doc::Kind::map;
    case Kind::either:
      return fits_kind(s.children[0], node) || fits_kind(s.children[1], node);
  }
  return false;
}

// What to write instead of a number in a notation that other programs read in other ways; "" when nothing is known.
std::string number_hint(const Doc& node) {
  const std::string& text = node.text;
  if (node.kind == Doc::Kind::quoted) {
    return resolve_plain(text) == ScalarKind::integer || resolve_plain(text) == ScalarKind::number
               ? "; write it without quotes"
               : "";
  }
  if (text.starts_with("0x") || text.starts_with("0o") || text.starts_with("0b")) return "; write it in decimal";
  if (text.find_first_of("0123456789") == text.npos) return "";
  if (text.find_first_not_of("0123456789_,'") == text.npos && text.find_first_not_of("0123456789") != text.npos) {
    return "; write it without separators";
  }
  if (text.starts_with("+")) return "; write it without the sign";
  if (text.size() > 1 && text[0] == '0' && text.find_first_not_of("0123456789") == text.npos) {
    return "; write it without leading zeros";
  }
  if (text[0] >= '0' && text[0] <= '9' && resolve_plain(text) == ScalarKind::text && text.find(':') == text.npos) {
    return "; write the number alone, the unit is in the name of the key";
  }
  return "";
}

// Decimal without sign '+', leading zeros or separators.
bool is_plain_decimal(std::string_view text) {
  if (text.starts_with('-')) text.remove_prefix(1);
  if (text.empty() || text[0] < '0' || text[0] > '9') return false;
  return text.size() == 1 || text[0] != '0' || text[1] < '0' || text[1] > '9';
}

class Validator {
 public:
  Validator(const StageSchemas* known, Diagnostics& diagnostics) : known_(known), diagnostics_(diagnostics) {}

  Value check(const Schema& schema, const Doc& node, const std::string& what) {
    Value value = convert(schema, node, what);
    value.set_mark(node.mark);
    return value;
  }

 private:
  Value convert(const Schema& schema, const Doc& node, const std::string& what) {
    switch (schema.node().kind) {
      case Kind::boolean:
        return boolean(schema, node, what);
      case Kind::integer:
        return integer(schema, node, what);
      case Kind::number:
        return number(schema, node, what);
      case Kind::one_of:
        return word(schema, node, what);
      case Kind::string:
      case Kind::text:
      case Kind::name:
      case Kind::mac:
      case Kind::ip:
      case Kind::prefix:
        return text(schema, node, what);
      case Kind::list:
        return list(schema, node, what);
      case Kind::map:
        return map(schema, node, what);
      case Kind::dictionary:
        return dictionary(schema, node, what);
      case Kind::tagged:
        return tagged(schema, node, what);
      case Kind::either:
        return either(schema, node, what);
      case Kind::stages:
        return stages(schema, node, what);
    }
    return {};
  }

  Value refuse(const Schema& schema, const Doc& node, const std::string& what, const std::string& hint = "") {
    diagnostics_.error(node.mark, (what.empty() ? "" : what + ": ") + "expected " + describe(schema) + ", found " +
                                      describe_found(node) + hint);
    return {};
  }

  Value boolean(const Schema& schema, const Doc& node, const std::string& what) {
    if (node.kind == Doc::Kind::plain && node.text == "true") return Value(true);
    if (node.kind == Doc::Kind::plain && node.text == "false") return Value(false);
    std::string lower = node.text;
    std::transform(lower.begin(), lower.end(), lower.begin(),
                   [](unsigned char c) { return c < 0x80 ? std::tolower(c) : c; });
    for (const auto* yes : {"yes", "on", "y", "true", "1"}) {
      if (is_scalar(node) && lower == yes) return refuse(schema, node, what, "; write true");
    }
    for (const auto* no : {"no", "off", "n", "false", "0"}) {
      if (is_scalar(node) && lower == no) return refuse(schema, node, what, "; write false");
    }
    return refuse(schema, node, what);
  }

  Value integer(const Schema& schema, const Doc& node, const std::string& what) {
    const auto& s = schema.node();
    if (node.kind != Doc::Kind::plain || !is_plain_decimal(node.text)) {
      return refuse(schema, node, what, is_scalar(node) ? number_hint(node) : "");
    }
    std::int64_t v = 0;
    const char* const end = node.text.data() + node.text.size();
    const auto result = std::from_chars(node.text.data(), end, v);
    if (result.ptr != end) return refuse(schema, node, what, number_hint(node));
    if (result.ec != std::errc{} || v < s.min || v > s.max) return refuse(schema, node, what);
    return Value(v);
  }

  Value number(const Schema& schema, const Doc& node, const std::string& what) {
    const auto& s = schema.node();
    if (node.kind != Doc::Kind::plain || !is_plain_decimal(node.text) || resolve_plain(node.text) == ScalarKind::text ||
        node.text.ends_with('.')) {
      return refuse(schema, node, what, is_scalar(node) ? number_hint(node) : "");
    }
    double v = 0;
    const char* const end = node.text.data() + node.text.size();
    const auto result = std::from_chars(node.text.data(), end, v);
    if (result.ptr != end) return refuse(schema, node, what, number_hint(node));
    if (result.ec != std::errc{} || !(v >= s.low && v <= s.high)) return refuse(schema, node, what);
    return Value(v);
  }

  Value word(const Schema& schema, const Doc& node, const std::string& what) {
    const auto& words = schema.node().words;
    if (is_word(node, words)) return Value(node.text);
    const std::string guess = is_scalar(node) ? closest(node.text, words) : "";
    return refuse(schema, node, what, guess.empty() ? "" : "; did you mean '" + guess + "'?");
  }

  Value text(const Schema& schema, const Doc& node, const std::string& what) {
    const std::string& t = node.text;
    const Kind kind = schema.node().kind;
    if (!is_text(node)) {
      const bool quotes_help = node.kind == Doc::Kind::plain && (kind == Kind::string || kind == Kind::text);
      return refuse(schema, node, what, quotes_help ? "; write it in quotes" : "");
    }
    if (kind == Kind::string && t.empty()) return refuse(schema, node, what);
    if (kind == Kind::string || kind == Kind::text) {
      // Names of files, devices and sockets go to system calls, which would end them at a NUL.
      if (t.find('\0') != t.npos) return refuse(schema, node, what);
    } else if (kind == Kind::name) {
      if (!is_name(t)) return refuse(schema, node, what);
    } else if (kind == Kind::mac) {
      if (!wire::MacAddress::parse(t)) return refuse(schema, node, what);
    } else if (kind == Kind::ip) {
      if (!wire::IpAddress::parse(t)) return refuse(schema, node, what);
    } else if (!wire::IpPrefix::parse(t)) {
      const auto address = wire::IpAddress::parse(t);
      const std::string length = address && address->is_v6() ? "/128" : "/32";
      return refuse(schema, node, what, address ? "; a single address is " + t + length : "");
    }
    return Value(t);
  }

  Value list(const Schema& schema, const Doc& node, const std::string& what) {
    const auto& s = schema.node();
    if (node.kind != Doc::Kind::list) {
      return refuse(schema, node, what, node.kind == Doc::Kind::null ? "; an empty list is []" : "");
    }
    if (node.items.size() < s.min_items) {
      diagnostics_.error(node.mark, what + ": expected at least " + std::to_string(s.min_items) + " item" +
                                        (s.min_items == 1 ? "" : "s") + ", found " + std::to_string(node.items.size()));
    }
    Value::List out;
    for (std::size_t i = 0; i < node.items.size(); ++i) {
      out.push_back(check(s.children[0], node.items[i], what + "[" + std::to_string(i) + "]"));
    }
    return Value(std::move(out));
  }

  Value map(const Schema& schema, const Doc& node, const std::string& what) {
    if (node.kind != Doc::Kind::map) return refuse(schema, node, what);
    Value::Map out;
    fill(schema.node().keys, node, what, "", out);
    return Value(std::move(out));
  }

  Value dictionary(const Schema& schema, const Doc& node, const std::string& what) {
    if (node.kind != Doc::Kind::map) return refuse(schema, node, what);
    Value::Map out;
    for (const auto& entry : node.entries) {
      Value value = check(schema.node().children[0], entry.value, entry.key);
      if (!value.is_null()) out.emplace_back(entry.key, std::move(value));
    }
    return Value(std::move(out));
  }

  // Converts the entries of a map. `tag` is the key of a tagged map, converted already, or "".
  void fill(const std::vector<Schema::Key>& keys, const Doc& node, const std::string& what, const std::string& tag,
            Value::Map& out) {
    for (const auto& entry : node.entries) {
      if (!tag.empty() && entry.key == tag) continue;
      const auto key = std::find_if(keys.begin(), keys.end(), [&](const auto& k) { return k.name == entry.key; });
      if (key == keys.end()) {
        unknown_key(keys, node, entry, what, tag);
        continue;
      }
      Value value = check(key->schema, entry.value, key->name);
      if (!value.is_null()) out.emplace_back(key->name, std::move(value));
    }
    for (const auto& key : keys) {
      const auto same = [&](const auto& child) { return child.first == key.name; };
      if (key.fallback && std::none_of(out.begin(), out.end(), same)) out.emplace_back(key.name, *key.fallback);
      if (key.required && find(node, key.name) == nullptr) {
        diagnostics_.error(node.mark, (what.empty() ? "" : what + ": ") + "missing key '" + key.name + "' (" +
                                          describe(key.schema) + ")");
      }
    }
  }

  void unknown_key(const std::vector<Schema::Key>& keys, const Doc& node, const Doc::Entry& entry,
                   const std::string& what, const std::string& tag) {
    // Those that are not there yet are more likely meant; but one that is there may have been meant as well.
    std::vector<std::string> all;
    std::vector<std::string> unused;
    for (const auto& key : keys) all.push_back(key.name);
    if (!tag.empty()) all.push_back(tag);
    std::copy_if(all.begin(), all.end(), std::back_inserter(unused),
                 [&](const std::string& key) { return find(node, key) == nullptr; });
    const auto& candidates = closest(entry.key, unused).empty() ? all : unused;
    diagnostics_.error(entry.mark,
                       (what.empty() ? "" : what + ": ") + "unknown key " + quote(entry.key) +
                           (entry.key == "<<" ? "; merge keys are not supported" : suggestion(entry.key, candidates)));
  }

  static const Doc::Entry* find(const Doc& node, std::string_view key) {
    const auto found =
        std::find_if(node.entries.begin(), node.entries.end(), [&](const Doc::Entry& e) { return e.key == key; });
    return found == node.entries.end() ? nullptr : &*found;
  }

  Value tagged(const Schema& schema, const Doc& node, const std::string& what) {
    const auto& s = schema.node();
    if (node.kind != Doc::Kind::map) return refuse(schema, node, what);
    const auto tags = tags_of(s);
    const auto* entry = find(node, s.tag);
    const auto chosen = std::find_if(s.alternatives.begin(), s.alternatives.end(),
                                     [&](const auto& a) { return entry != nullptr && entry->value.text == a.first; });
    if (entry == nullptr) {
      diagnostics_.error(node.mark, what + ": missing key '" + s.tag + "' (one of " + joined(tags) + ")");
      return undecided(schema, node);
    }
    Value tag = check(Schema::one_of(tags), entry->value, s.tag);
    if (tag.is_null() || chosen == s.alternatives.end()) return undecided(schema, node);
    Value::Map out;
    out.emplace_back(s.tag, std::move(tag));
    fill(chosen->second.node().keys, node, what, s.tag, out);
    return Value(std::move(out));
  }

  // A tagged map whose tag is wrong: the keys that all alternatives share are still worth a check.
  Value undecided(const Schema& schema, const Doc& node) {
    Value::Map out;
    const auto& alternatives = schema.node().alternatives;
    for (const auto& key : alternatives.front().second.node().keys) {
      const auto has_key = [&](const auto& alternative) {
        const auto& keys = alternative.second.node().keys;
        return std::any_of(keys.begin(), keys.end(), [&](const auto& k) { return k.name == key.name; });
      };
      const auto* entry = find(node, key.name);
      if (entry == nullptr || !std::all_of(alternatives.begin(), alternatives.end(), has_key)) continue;
      Value value = check(key.schema, entry->value, key.name);
      if (!value.is_null()) out.emplace_back(key.name, std::move(value));
    }
    return Value(std::move(out));
  }

  Value either(const Schema& schema, const Doc& node, const std::string& what) {
    const auto& first = schema.node().children[0];
    const auto& second = schema.node().children[1];
    const bool first_fits = fits_kind(first, node);
    const bool second_fits = fits_kind(second, node);
    if (!first_fits && !second_fits) return refuse(schema, node, what);
    if (first_fits != second_fits) return check(first_fits ? first : second, node, what);
    for (const auto& candidate : {first, second}) {
      Diagnostics trial;
      Value value = Validator(known_, trial).check(candidate, node, what);
      if (trial.ok()) return value;
    }
    return refuse(schema, node, what);
  }

  Value stages(const Schema& schema, const Doc& node, const std::string& what) {
    if (known_ == nullptr) std::abort();
    if (node.kind != Doc::Kind::list) return refuse(schema, node, what);
    if (node.items.empty()) diagnostics_.error(node.mark, what + ": expected at least 1 item, found 0");
    Value::List out;
    for (const auto& item : node.items) out.push_back(stage(item));
    return Value(std::move(out));
  }

  Value stage(const Doc& node) {
    static const Doc kNoOptions(Doc::Kind::map);
    const bool alone = is_text(node);
    if (!alone && (node.kind != Doc::Kind::map || node.entries.size() != 1)) {
      diagnostics_.error(node.mark,
                         "pipeline: expected a stage, as 'name' or as 'name: {options}', found " +
                             (node.kind == Doc::Kind::map ? "a map of " + std::to_string(node.entries.size()) + " keys"
                                                          : describe_found(node)));
      return {};
    }
    const std::string& name = alone ? node.text : node.entries[0].key;
    const Mark& mark = alone ? node.mark : node.entries[0].mark;
    const Schema* known = known_->options_of(name);
    if (known == nullptr) {
      diagnostics_.error(mark, "unknown stage " + quote(name) + suggestion(name, known_->names()));
      return {};
    }
    Doc options = alone || node.entries[0].value.kind == Doc::Kind::null ? kNoOptions : node.entries[0].value;
    if (options.mark.line == 0) options.mark = mark;
    const std::size_t before = diagnostics_.entries().size();
    Value checked = check(*known, options, name);
    // Half-valid options are of no use to the stage's own check.
    if (diagnostics_.entries().size() != before) checked = Value();
    Value::Map out;
    out.emplace_back(name, std::move(checked));
    Value value{std::move(out)};
    value.set_mark(mark);
    return value;
  }

  const StageSchemas* known_;
  Diagnostics& diagnostics_;
};

}  // namespace

Value validate(const Schema& schema, const DocumentNode& node, const std::string& what, const StageSchemas* known,
               Diagnostics& diagnostics) {
  return Validator(known, diagnostics).check(schema, node, what);
}

}  // namespace weft::config
