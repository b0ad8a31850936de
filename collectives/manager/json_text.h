// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// JSON that is written from the beginning to the end. Records and orders are written some hundred times a second:
// values of nlohmann::json, with several allocations each, took most of the time that it takes to make a large group.
#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace weft::inc::manager {

/// Writes one value. Whoever uses it opens and closes objects and arrays in pairs, and writes a key before each value
/// of an object; commas come by themselves. Text is UTF-8.
class JsonText {
 public:
  JsonText& open_object() { return open('{'); }
  JsonText& close_object() { return close('}'); }
  JsonText& open_array() { return open('['); }
  JsonText& close_array() { return close(']'); }
  JsonText& key(std::string_view name) {
    value(name);
    out_ += ':';
    return *this;
  }
  JsonText& value(std::string_view text);
  JsonText& value(const char* text) { return value(std::string_view(text)); }
  JsonText& value(bool b) { return plain(b ? "true" : "false"); }
  template <std::unsigned_integral N>
  JsonText& value(N number) {
    return this->number(number);
  }
  /// An array of numbers.
  template <class Numbers>
  JsonText& values(const Numbers& numbers) {
    open_array();
    for (const auto n : numbers) value(n);
    return close_array();
  }
  template <class T>
  JsonText& member(std::string_view name, const T& v) {
    return key(name).value(v);
  }

  [[nodiscard]] std::string take() { return std::exchange(out_, {}); }

 private:
  /// A comma, but for the first of an object or array and after a key. Text ends with a quotation mark.
  void separate() {
    if (!out_.empty() && out_.back() != '{' && out_.back() != '[' && out_.back() != ':') out_ += ',';
  }
  JsonText& open(char bracket) {
    separate();
    out_ += bracket;
    return *this;
  }
  JsonText& close(char bracket) {
    out_ += bracket;
    return *this;
  }
  JsonText& plain(std::string_view text) {
    separate();
    out_ += text;
    return *this;
  }
  JsonText& number(std::uint64_t n);

  std::string out_;
};

}  // namespace weft::inc::manager
