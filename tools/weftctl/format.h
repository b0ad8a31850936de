// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// JSON rows as text for people. Output is ASCII: bytes of strings that are not printable become '?', so that nothing
// in a table can steer the terminal.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace weft::weftctl {

/// How a table is printed.
struct TableStyle {
  std::size_t width = 100;  ///< columns of the screen; 0: no limit
  bool thousands = false;   ///< 1,234,567
  std::string whole{};      ///< a column of text that is not shortened; empty: none
};

/// One value in one line: null and empty are "-", booleans yes and no, lists `a, b`, objects `key=value key=value`, and
/// what lies deeper in [] and {}.
[[nodiscard]] std::string cell_text(const nlohmann::ordered_json& value, bool thousands = false);

/// Rows (objects) under headings: the keys of the first row in its order, then further keys of later rows. Columns that
/// hold nothing but numbers are right aligned. When the width does not suffice, the widest column of text is shortened
/// with "...", down to 12 characters or its heading; when that does not suffice either, columns move to blocks below,
/// each of which repeats the first column (and the second when the first is `switch`). "no rows" for an empty table.
/// Every line ends with a line feed.
[[nodiscard]] std::string format_table(const std::vector<nlohmann::ordered_json>& rows, const TableStyle& style);

/// An object as aligned lines of key and value.
[[nodiscard]] std::string format_facts(const nlohmann::ordered_json& facts);

}  // namespace weft::weftctl
