// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#pragma once

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <charconv>
#include <cstdint>
#include <string>

namespace weft::weftctl {

/// A whole number that is not below `least`. CLI11 reads "-1" as the largest number of 64 bits.
inline CLI::Validator at_least(std::uint64_t least) {
  const auto check = [least](std::string& text) -> std::string {
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error == std::errc{} && end == text.data() + text.size() && value >= least) return "";
    return "expected a whole number from " + std::to_string(least) + " on, found '" + text + "'";
  };
  return CLI::Validator(check, "", "at_least");
}

}  // namespace weft::weftctl
