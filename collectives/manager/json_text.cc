// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "collectives/manager/json_text.h"

#include <array>
#include <charconv>

namespace weft::inc::manager {
namespace {

constexpr std::string_view kHex = "0123456789abcdef";

}  // namespace

JsonText& JsonText::value(std::string_view text) {
  separate();
  out_ += '"';
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out_ += '\\';
      out_ += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out_ += "\\u00";
      out_ += kHex[static_cast<unsigned char>(c) >> 4];
      out_ += kHex[static_cast<unsigned char>(c) & 15];
    } else {
      out_ += c;
    }
  }
  out_ += '"';
  return *this;
}

JsonText& JsonText::number(std::uint64_t n) {
  std::array<char, 20> digits{};  // as many as 2^64 - 1 has
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), n).ptr;
  return plain({digits.data(), static_cast<std::size_t>(end - digits.data())});
}

}  // namespace weft::inc::manager
