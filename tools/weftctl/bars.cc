// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "tools/weftctl/bars.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace weft::weftctl {
namespace {

using Json = nlohmann::ordered_json;

double number(const Json& row, const char* key) {
  const auto found = row.find(key);
  return found != row.end() && found->is_number() ? std::max(found->get<double>(), 0.0) : 0;
}

bool limited(const Json& row) {
  return number(row, "threshold_bytes") > 0;
}

// `full` is what the whole width stands for.
std::string bar(double bytes, double peak, double full, std::size_t width) {
  const auto cells = [&](double value) {
    const double part = full <= 0 ? 0 : std::min(value / full, 1.0);
    return static_cast<std::size_t>(std::ceil(part * static_cast<double>(width)));
  };
  std::string text(width, ' ');
  const std::size_t held = cells(bytes);
  std::fill_n(text.begin(), held, '#');
  if (const std::size_t most = cells(peak); most > held) text[most - 1] = '|';
  return "[" + text + "]";
}

}  // namespace

bool tells_occupancy(const std::vector<Json>& rows) {
  return !rows.empty() && std::all_of(rows.begin(), rows.end(), [](const Json& row) {
    return row.contains("bytes") && row.contains("peak_bytes") && row.contains("threshold_bytes");
  });
}

std::size_t add_bars(std::vector<Json>& rows, std::size_t width) {
  const std::size_t gone =
      std::erase_if(rows, [](const Json& row) { return number(row, "bytes") + number(row, "peak_bytes") == 0; });
  double highest = 0;
  for (const Json& row : rows) {
    if (!limited(row)) highest = std::max(highest, number(row, "peak_bytes"));
  }
  for (Json& row : rows) {
    const double full = limited(row) ? number(row, "threshold_bytes") : highest;
    std::string text = bar(number(row, "bytes"), number(row, "peak_bytes"), full, width);
    if (limited(row)) {
      char percent[16];
      std::snprintf(percent, sizeof percent, " %3.0f %%", 100 * std::min(number(row, "bytes") / full, 9.99));
      text += percent;
    }
    Json with_bar = Json::object();
    for (const auto& [key, value] : row.items()) {
      if (key == "bytes") with_bar[kBarColumn] = text;
      with_bar[key] = value;
    }
    row = std::move(with_bar);
  }
  return gone;
}

}  // namespace weft::weftctl
