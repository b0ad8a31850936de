// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "tools/weftctl/format.h"

#include <algorithm>
#include <cstdio>
#include <set>
#include <string_view>
#include <utility>

namespace weft::weftctl {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kGap = 2;       // spaces between columns
constexpr std::size_t kMinText = 12;  // a shortened column keeps so many characters
constexpr std::string_view kDots = "...";

struct Column {
  std::string key;
  std::vector<std::string> cells;
  std::size_t width = 0;
  bool numeric = false;
  bool whole = false;  ///< never shortened
};

std::string with_thousands(std::string digits) {
  const std::size_t first = digits.starts_with('-') ? 1 : 0;
  for (std::size_t at = digits.size(); at > first + 3; at -= 3) digits.insert(at - 3, 1, ',');
  return digits;
}

std::string scalar_text(const Json& value, bool thousands) {
  if (value.is_null()) return "-";
  if (value.is_boolean()) return value.get<bool>() ? "yes" : "no";
  if (value.is_number_float()) {
    char text[32];
    std::snprintf(text, sizeof text, "%.6g", value.get<double>());
    return text;
  }
  if (value.is_number()) return thousands ? with_thousands(value.dump()) : value.dump();
  std::string text = value.is_string() ? value.get<std::string>() : std::string();
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c < 0x20 || c > 0x7e; }, '?');
  return text.empty() ? "-" : text;
}

// `depth` 0 is the cell itself.
std::string nested_text(const Json& value, bool thousands, int depth) {
  if (!value.is_structured()) return scalar_text(value, thousands);
  if (value.empty()) return depth == 0 ? "-" : value.is_array() ? "[]" : "{}";
  std::string text;
  if (value.is_array()) {
    // Objects directly in the list of a cell need no braces: their commas are the list's.
    for (const auto& item : value) {
      const bool plain = depth == 0 && item.is_object() && !item.empty();
      if (!text.empty()) text += ", ";
      text += plain ? nested_text(item, thousands, 0) : nested_text(item, thousands, depth + 1);
    }
    return depth == 0 ? text : "[" + text + "]";
  }
  for (const auto& [key, item] : value.items()) {
    if (!text.empty()) text += ' ';
    text += scalar_text(Json(key), false) + "=" + nested_text(item, thousands, depth + 1);
  }
  return depth == 0 ? text : "{" + text + "}";
}

std::vector<Column> to_columns(const std::vector<Json>& rows, const TableStyle& style) {
  std::vector<Column> columns;
  const auto find = [&](const std::string& key) {
    return std::find_if(columns.begin(), columns.end(), [&](const Column& column) { return column.key == key; });
  };
  for (const auto& row : rows) {
    for (const auto& [key, value] : row.items()) {
      if (find(key) == columns.end()) columns.push_back({key, {}, 0, false, key == style.whole});
    }
  }
  for (auto& column : columns) {
    bool number = false;
    bool other = false;
    column.width = column.key.size();
    for (const auto& row : rows) {
      const auto found = row.find(column.key);
      const Json value = found == row.end() ? Json() : *found;
      number = number || value.is_number();
      other = other || !(value.is_number() || value.is_null());
      column.cells.push_back(cell_text(value, style.thousands));
      column.width = std::max(column.width, column.cells.back().size());
    }
    column.numeric = number && !other;
  }
  return columns;
}

// The width below which a column is not shortened.
std::size_t floor_of(const Column& column) {
  return column.numeric || column.whole ? column.width : std::min(column.width, std::max(column.key.size(), kMinText));
}

template <typename Range, typename F>
std::size_t total_width(const Range& columns, F&& width_of) {
  std::size_t total = 0;
  for (const auto& column : columns) total += width_of(column) + kGap;
  return total == 0 ? 0 : total - kGap;
}

// Takes from the widest column of text until the columns fit or none can give.
void shrink(std::vector<Column>& columns, std::size_t width) {
  while (true) {
    const std::size_t total = total_width(columns, [](const Column& column) { return column.width; });
    if (total <= width) return;
    Column* widest = nullptr;
    std::size_t next = 0;  // of the second widest
    for (auto& column : columns) {
      if (column.width == floor_of(column)) continue;
      if (widest == nullptr || column.width >= widest->width) {
        next = widest == nullptr ? 0 : widest->width;
        widest = &column;
      } else {
        next = std::max(next, column.width);
      }
    }
    if (widest == nullptr) return;
    // Down to just below the second widest, which is then the next to give.
    const std::size_t least = std::max(floor_of(*widest), next > 0 ? next - 1 : 0);
    widest->width = std::max(least, widest->width - std::min(widest->width, total - width));
  }
}

std::string padded(const Column& column, std::string text) {
  if (text.size() > column.width) {
    text.resize(column.width - kDots.size());
    text += kDots;
  }
  const std::string space(column.width - text.size(), ' ');
  return column.numeric ? space + text : text + space;
}

void append_line(std::string& out, const std::vector<Column>& columns, std::size_t row, bool heading) {
  std::string line;
  for (const auto& column : columns) {
    if (!line.empty()) line.append(kGap, ' ');
    line += padded(column, heading ? column.key : column.cells[row]);
  }
  line.erase(line.find_last_not_of(' ') + 1);
  out += line + '\n';
}

std::string print_block(std::vector<Column> columns, std::size_t rows, std::size_t width) {
  if (width > 0) shrink(columns, width);
  std::string out;
  append_line(out, columns, 0, true);
  for (std::size_t row = 0; row < rows; ++row) append_line(out, columns, row, false);
  return out;
}

// Splits columns so that each block can fit; every block starts with the `keys` first columns.
std::vector<std::vector<Column>> to_blocks(const std::vector<Column>& columns, std::size_t keys, std::size_t width) {
  std::vector<std::vector<Column>> blocks;
  std::vector<Column> block;
  for (const auto& column : columns) {
    const std::size_t used = total_width(block, floor_of) + kGap + floor_of(column);
    if (width > 0 && block.size() > keys && used > width) {
      std::vector<Column> next(block.begin(), block.begin() + static_cast<std::ptrdiff_t>(keys));
      blocks.push_back(std::exchange(block, std::move(next)));
    }
    block.push_back(column);
  }
  blocks.push_back(std::move(block));
  return blocks;
}

// The first columns that tell the rows apart: they stand in every block. One, behind the switch, where it would take
// more than half of the width.
std::size_t key_columns(const std::vector<Column>& columns, std::size_t rows, std::size_t width) {
  const std::size_t least = columns[0].key == "switch" ? 2 : 1;
  std::size_t used = 0;
  std::vector<std::string> names(rows);
  for (std::size_t count = 0; count < columns.size() && used <= width / 2; ++count) {
    if (count >= least && std::set<std::string>(names.begin(), names.end()).size() == rows) return count;
    used += floor_of(columns[count]) + kGap;
    for (std::size_t row = 0; row < rows; ++row) names[row] += columns[count].cells[row] + '\n';
  }
  return least;
}

}  // namespace

std::string cell_text(const Json& value, bool thousands) {
  return nested_text(value, thousands, 0);
}

std::string format_table(const std::vector<Json>& rows, const TableStyle& style) {
  const std::vector<Column> columns = to_columns(rows, style);
  if (columns.empty()) return "no rows\n";
  const std::size_t keys = key_columns(columns, rows.size(), style.width);
  std::string out;
  for (auto& block : to_blocks(columns, keys, style.width)) {
    if (!out.empty()) out += '\n';
    out += print_block(std::move(block), rows.size(), style.width);
  }
  return out;
}

std::string format_facts(const Json& facts) {
  std::size_t width = 0;
  for (const auto& [key, value] : facts.items()) width = std::max(width, key.size());
  std::string out;
  for (const auto& [key, value] : facts.items()) {
    out += key + std::string(width - key.size() + kGap, ' ') + cell_text(value) + '\n';
  }
  return out;
}

}  // namespace weft::weftctl
