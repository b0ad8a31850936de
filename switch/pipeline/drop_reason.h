// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace weft::pipeline {

/// How much a drop should worry an operator.
enum class Severity : std::uint8_t { info, warning, error };

/// Why a packet was dropped; see drop_reason.def.
enum class DropReason : std::uint8_t {
#define WEFT_DROP(name, severity, text) name,
#include "switch/pipeline/drop_reason.def"
#undef WEFT_DROP
};

/// One row of drop_reason.def.
struct DropReasonInfo {
  std::string_view name;
  Severity severity;
  std::string_view text;
};

inline constexpr std::array kDropReasons{
#define WEFT_DROP(name, severity, text) DropReasonInfo{#name, Severity::severity, text},
#include "switch/pipeline/drop_reason.def"
#undef WEFT_DROP
};
inline constexpr std::size_t kDropReasonCount = kDropReasons.size();

[[nodiscard]] constexpr const DropReasonInfo& info(DropReason r) noexcept {
  return kDropReasons[static_cast<std::size_t>(r)];
}

/// The reason spelled `name`, if there is one.
[[nodiscard]] constexpr std::optional<DropReason> drop_reason_from(std::string_view name) noexcept {
  for (std::size_t i = 0; i < kDropReasonCount; ++i) {
    if (kDropReasons[i].name == name) return static_cast<DropReason>(i);
  }
  return std::nullopt;
}

[[nodiscard]] constexpr std::string_view to_string(Severity s) noexcept {
  constexpr std::array<std::string_view, 3> kNames{"info", "warning", "error"};
  return kNames[static_cast<std::size_t>(s)];
}

}  // namespace weft::pipeline
