// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace weft::pipeline {

/// A counter only grows. A gauge says how much there is now.
enum class CounterKind : std::uint8_t { counter, gauge };

[[nodiscard]] constexpr std::string_view to_string(CounterKind kind) noexcept {
  return kind == CounterKind::gauge ? "gauge" : "counter";
}

/// A counter of a stage, declared once: tables, metrics and traces take all that they say of it from here.
struct CounterInfo {
  std::string name;  ///< lower case with underscores, unique within the stage
  std::string unit;  ///< what is counted, as a plural: packets, bytes, messages, ...
  CounterKind kind;
  std::string help;  ///< a sentence
};

}  // namespace weft::pipeline
