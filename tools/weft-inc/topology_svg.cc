// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "tools/weft-inc/topology_svg.h"

#include <algorithm>
#include <map>

namespace weft::inc_tool {
namespace {

constexpr unsigned kWidth = 96, kHeight = 40, kGap = 16, kRow = 120, kMargin = 20;

struct Place {
  unsigned x = 0, y = 0;  ///< of the middle
};

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '<' || c == '>' || c == '&' || c == '"') {
      out += "&#" + std::to_string(static_cast<int>(c)) + ";";
    } else {
      out += c;
    }
  }
  return out;
}

std::string number(unsigned n) {
  return "\"" + std::to_string(n) + "\"";
}

}  // namespace

std::string draw_topology(const std::vector<DrawnNode>& nodes, const std::vector<DrawnLink>& links) {
  std::map<unsigned, unsigned> in_row;
  for (const DrawnNode& n : nodes) ++in_row[n.tier];
  unsigned widest = 1, highest = 0;
  for (const auto& [tier, count] : in_row) {
    widest = std::max(widest, count);
    highest = std::max(highest, tier);
  }
  const unsigned width = 2 * kMargin + widest * (kWidth + kGap), height = 2 * kMargin + kHeight + highest * kRow;
  std::map<std::string, Place> places;
  std::map<unsigned, unsigned> next;
  for (const DrawnNode& n : nodes) {
    const unsigned step = (width - 2 * kMargin) / in_row[n.tier];
    places[n.name] = {kMargin + step * next[n.tier]++ + step / 2, kMargin + kHeight / 2 + (highest - n.tier) * kRow};
  }
  std::string out = "<svg xmlns=\"http://www.w3.org/2000/svg\" width=" + number(width) + " height=" + number(height) +
                    " font-family=\"sans-serif\" font-size=\"12\" text-anchor=\"middle\">\n";
  for (const DrawnLink& l : links) {
    const Place a = places[l.lower], b = places[l.upper];
    out += "<line x1=" + number(a.x) + " y1=" + number(a.y) + " x2=" + number(b.x) + " y2=" + number(b.y) +
           (l.groups > 0 ? " stroke=\"#1f4e8c\" stroke-width=\"3\"" : " stroke=\"#999\"") + "><title>" +
           escaped(l.lower + " - " + l.upper) + ": " + std::to_string(l.groups) + " groups</title></line>\n";
  }
  for (const DrawnNode& n : nodes) {
    const Place at = places[n.name];
    const auto used = static_cast<unsigned>(std::clamp(n.used, 0.0, 1.0) * 100 + 0.5);
    out += "<rect x=" + number(at.x - kWidth / 2) + " y=" + number(at.y - kHeight / 2) + " width=" + number(kWidth) +
           " height=" + number(kHeight) + " rx=\"4\" fill=\"" + (n.up ? "#fff" : "#ddd") + "\" stroke=\"#333\"" +
           (n.up ? "" : " stroke-dasharray=\"4\"") + "/>\n<text x=" + number(at.x) +
           " y=" + number(n.tier == 0 ? at.y + 4 : at.y - 2) + ">" + escaped(n.name) + "</text>\n";
    if (n.tier == 0) continue;
    out += "<text x=" + number(at.x) + " y=" + number(at.y + 13) + " font-size=\"10\">" + std::to_string(n.groups) +
           " groups, " + std::to_string(used) + " %</text>\n";
  }
  return out + "</svg>\n";
}

}  // namespace weft::inc_tool
