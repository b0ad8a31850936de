// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// The numbers of a summary for people: names, units, and what each means.
#pragma once

#include <array>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

namespace weft::sim {

enum class Unit : std::uint8_t { word, count, milliseconds, gbps, share, factor, seconds, per_second };

struct SummaryRow {
  const char* key;   ///< in the summary
  const char* name;  ///< in a table
  Unit unit;
  const char* meaning;
};

/// All keys of a summary but `stages`, `stages_most` and `fct_slowdown_by_bytes`, in the order of a report.
[[nodiscard]] const std::array<SummaryRow, 27>& summary_rows() noexcept;

/// A value with its unit: "1.783 ms", "3.1 %", "1,142,000"; "unknown" for null.
[[nodiscard]] std::string shown_with_unit(const nlohmann::ordered_json& value, Unit unit);

}  // namespace weft::sim
