// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// How a stage shows a table that is larger than what its worker has time for at once.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <utility>

#include "switch/pipeline/stage.h"

namespace weft::pipeline {

/// Entries that one call of rows() looks at: no packet of the worker moves meanwhile.
inline constexpr std::uint64_t kRowsScanned = 4096;

/// What Stage::rows() and StageShared::rows() give of a table: rows from `cursor` on, at most `max`.
/// @param cursor   goes on behind the last entry that was looked at; kEnd when that was the last of all
/// @param entries  of the table, in use or not
/// @param row_of   gives the row of an entry, by its number below `entries`; null for an entry that has none
template <typename RowOf>
[[nodiscard]] nlohmann::ordered_json scan_rows(std::uint64_t& cursor, std::size_t max, std::uint64_t entries,
                                               RowOf&& row_of) {
  auto rows = nlohmann::ordered_json::array();
  for (std::uint64_t scanned = 0; cursor < entries && rows.size() < max && scanned < kRowsScanned; ++scanned) {
    nlohmann::ordered_json row = row_of(cursor++);
    if (!row.is_null()) rows.push_back(std::move(row));
  }
  if (cursor >= entries) cursor = StageShared::kEnd;
  return rows;
}

}  // namespace weft::pipeline
