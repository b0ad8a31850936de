// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "tools/experiment/sweep_report.h"

#include <algorithm>
#include <optional>
#include <set>
#include <vector>

#include "tools/experiment/line_chart.h"

namespace weft::experiment {
namespace {

using nlohmann::ordered_json;

constexpr const char* kStyle =
    "body{max-width:1100px}.wide{overflow-x:auto}td,th{padding:.2em .7em;"
    "border-bottom:1px solid var(--grid);text-align:right;white-space:nowrap}td.set,th.set{text-align:left}"
    "p{color:var(--muted);margin:.2rem 0 .6rem}svg text{fill:var(--ink)}svg rect{fill:var(--s0)}"
    "h1{font-size:1.5rem}h2{font-size:1.15rem;margin:2rem 0 .2rem}";

std::string label_of(const ordered_json& item) {
  std::string label;
  for (const auto& [key, value] : item["set"].items()) {
    label += (label.empty() ? "" : " ") + key + "=" + value.get<std::string>();
  }
  return label.empty() ? "as it is" : label;
}

std::optional<double> number_of(const ordered_json& item, const std::string& name) {
  const auto at = item["summary"].find(name);
  if (at == item["summary"].end() || !at->is_number()) return std::nullopt;
  return at->get<double>();
}

// Names of the numbers of all summaries, in the order in which they first appear.
std::vector<std::string> numbers_of(const ordered_json& list) {
  std::vector<std::string> names;
  for (const ordered_json& item : list) {
    for (const auto& [name, value] : item["summary"].items()) {
      if (value.is_number() && std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    }
  }
  return names;
}

bool differs(const ordered_json& list, const std::string& name) {
  std::set<std::optional<double>> values;
  for (const ordered_json& item : list) values.insert(number_of(item, name));
  return values.size() > 1;
}

// A bar for each run, from zero. A run that cannot tell the number has a dash.
std::string bars(const ordered_json& list, const std::string& name) {
  constexpr double kRow = 20, kBars = 520, kValues = 120, kLetter = 6.5;  // of text of 12 px, on average
  double most = 0, labels = 0;
  for (const ordered_json& item : list) {
    most = std::max(most, number_of(item, name).value_or(0));
    labels = std::max(labels, 16 + kLetter * static_cast<double>(label_of(item).size()));
  }
  const double height = kRow * static_cast<double>(list.size());
  std::string out = "<svg viewBox=\"0 0 " + pixel(labels + kBars + kValues) + " " + pixel(height) +
                    "\" role=\"img\" aria-label=\"" + escape_html(name) + "\">\n";
  double y = 0;
  for (const ordered_json& item : list) {
    const auto value = number_of(item, name);
    const double width = most > 0 ? std::max(0.0, value.value_or(0)) / most * kBars : 0;
    const std::string middle = pixel(y + kRow * 0.7);
    out += "<text x=\"" + pixel(labels - 8) + "\" y=\"" + middle + "\" text-anchor=\"end\">" +
           escape_html(label_of(item)) + "</text><rect x=\"" + pixel(labels) + "\" y=\"" + pixel(y + 3) +
           "\" width=\"" + pixel(width) + "\" height=\"" + pixel(kRow - 6) + "\"/><text x=\"" +
           pixel(labels + width + 6) + "\" y=\"" + middle + "\">" + (value ? readable(*value) : "-") + "</text>\n";
    y += kRow;
  }
  return out + "</svg>\n";
}

std::string table(const ordered_json& list, const std::vector<std::string>& names) {
  std::string out = "<div class=\"wide\"><table><tr><th class=\"set\">run</th>";
  for (const std::string& name : names) out += "<th>" + escape_html(name) + "</th>";
  out += "<th>trace_hash</th></tr>\n";
  for (const ordered_json& item : list) {
    out += "<tr><td class=\"set\">" + escape_html(label_of(item)) + "</td>";
    for (const std::string& name : names) {
      const auto value = number_of(item, name);
      out += "<td>" + (value ? readable(*value) : "-") + "</td>";
    }
    out += "<td>" + escape_html(item["trace_hash"].get<std::string>()) + "</td></tr>\n";
  }
  return out + "</table></div>\n";
}

}  // namespace

std::string sweep_report(const std::string& title, const ordered_json& list) {
  std::string out = page_head(title, kStyle) + "<p>" + std::to_string(list.size()) +
                    " runs. Numbers that are the same in all of them have no chart.</p>\n";
  const auto names = numbers_of(list);
  for (const std::string& name : names) {
    if (differs(list, name)) out += "<h2>" + escape_html(name) + "</h2>\n" + bars(list, name);
  }
  return out + "<h2>All numbers</h2>\n" + table(list, names) + "</body></html>\n";
}

}  // namespace weft::experiment
