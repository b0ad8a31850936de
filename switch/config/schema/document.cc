// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/config/schema/document.h"

#include <array>
#include <charconv>
#include <cstddef>

#include "switch/config/schema/suggest.h"

namespace weft::config {
namespace {

bool is_digit(char c) noexcept {
  return c >= '0' && c <= '9';
}

// Removes digits from the front and says how many there were.
std::size_t skip_digits(std::string_view& text) noexcept {
  std::size_t n = 0;
  while (n < text.size() && is_digit(text[n])) ++n;
  text.remove_prefix(n);
  return n;
}

void skip_sign(std::string_view& text) noexcept {
  if (!text.empty() && (text[0] == '+' || text[0] == '-')) text.remove_prefix(1);
}

// [-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?, and the words of infinity and not-a-number.
bool is_float(std::string_view text) noexcept {
  for (const std::string_view word : {".nan", ".NaN", ".NAN"}) {
    if (text == word) return true;
  }
  skip_sign(text);
  for (const std::string_view word : {".inf", ".Inf", ".INF"}) {
    if (text == word) return true;
  }
  const std::size_t whole = skip_digits(text);
  std::size_t fraction = 0;
  if (!text.empty() && text[0] == '.') {
    text.remove_prefix(1);
    fraction = skip_digits(text);
  }
  if (whole + fraction == 0) return false;
  if (text.empty()) return true;
  if (text[0] != 'e' && text[0] != 'E') return false;
  text.remove_prefix(1);
  skip_sign(text);
  return skip_digits(text) > 0 && text.empty();
}

bool is_integer(std::string_view text) noexcept {
  std::string_view digits = text;
  skip_sign(digits);
  if (skip_digits(digits) > 0 && digits.empty()) return true;
  if (text.size() < 3 || text[0] != '0') return false;
  const auto rest = text.substr(2);
  if (text[1] == 'x') return rest.find_first_not_of("0123456789abcdefABCDEF") == rest.npos;
  return text[1] == 'o' && rest.find_first_not_of("01234567") == rest.npos;
}

}  // namespace

ScalarKind resolve_plain(std::string_view text) noexcept {
  for (const std::string_view word : {"true", "True", "TRUE", "false", "False", "FALSE"}) {
    if (text == word) return ScalarKind::boolean;
  }
  if (is_integer(text)) return ScalarKind::integer;
  return is_float(text) ? ScalarKind::number : ScalarKind::text;
}

std::string describe_found(const DocumentNode& node) {
  switch (node.kind) {
    case DocumentNode::Kind::null:
      return "nothing";
    case DocumentNode::Kind::plain:
      return resolve_plain(node.text) == ScalarKind::text ? quote(node.text) : node.text.substr(0, 40);
    case DocumentNode::Kind::quoted:
      return "the text " + quote(node.text);
    case DocumentNode::Kind::list:
      return "a list";
    case DocumentNode::Kind::map:
      return "a map";
  }
  return {};
}

DocumentNode to_document(const Value& value) {
  DocumentNode node;
  node.mark = value.mark();
  value.visit([&node](const auto& v) {
    using T = std::decay_t<decltype(v)>;
    if constexpr (std::is_same_v<T, bool>) {
      node.kind = DocumentNode::Kind::plain;
      node.text = v ? "true" : "false";
    } else if constexpr (std::is_arithmetic_v<T>) {
      std::array<char, 32> out;
      node.kind = DocumentNode::Kind::plain;
      node.text.assign(out.data(), std::to_chars(out.data(), out.data() + out.size(), v).ptr);
    } else if constexpr (std::is_same_v<T, std::string>) {
      node.kind = DocumentNode::Kind::quoted;
      node.text = v;
    } else if constexpr (std::is_same_v<T, Value::List>) {
      node.kind = DocumentNode::Kind::list;
      for (const auto& item : v) node.items.push_back(to_document(item));
    } else if constexpr (std::is_same_v<T, Value::Map>) {
      node.kind = DocumentNode::Kind::map;
      for (const auto& [key, child] : v) {
        auto& entry = node.entries.emplace_back();
        entry.key = key;
        entry.value = to_document(child);
        // Values do not say where their keys stand: mistakes about them are shown where the value begins.
        entry.mark = child.mark();
      }
    }
  });
  return node;
}

}  // namespace weft::config
