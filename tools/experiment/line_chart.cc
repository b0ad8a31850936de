// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "tools/experiment/line_chart.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace weft::experiment {
namespace {

constexpr double kWidth = 760, kHeight = 300, kLeft = 70, kRight = 20, kTop = 30, kBottom = 45;

std::string svg_text(double x, double y, const std::string& text, const char* anchor) {
  return "<text x=\"" + pixel(x) + "\" y=\"" + pixel(y) + "\" text-anchor=\"" + anchor + "\">" + escape_html(text) +
         "</text>";
}

// Where an axis ends, and the distance of its marks: at most five steps of 1, 2 or 5 times a power of ten.
struct Scale {
  double step = 1, end = 1;
};

Scale scale_of(double most, bool whole) {
  if (most <= 0) return {};
  const double raw = most / 5;
  const double power = std::pow(10.0, std::floor(std::log10(raw)));
  double step = 10 * power;
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power < raw) continue;
    step = factor * power;
    break;
  }
  if (whole) step = std::max(step, 1.0);
  return {step, step * std::max(1.0, std::ceil(most / step - 1e-9))};
}

}  // namespace

std::string pixel(double coordinate) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f", coordinate);
  return text;
}

std::string page_head(const std::string& title, const std::string& style) {
  constexpr const char* kStyle =
      ":root{color-scheme:light dark;--ink:#1c1e22;--muted:#5d626c;--grid:#d9dce1;--paper:#fff;--s0:#2368b0}"
      "@media(prefers-color-scheme:dark){:root{--ink:#e7e9ed;--muted:#a3a8b3;--grid:#3a3e46;--paper:#17191d;"
      "--s0:#6aa9ec}}body{background:var(--paper);color:var(--ink);font:15px/1.5 system-ui,sans-serif;max-width:860px;"
      "margin:2rem auto;padding:0 1rem}table{border-collapse:collapse}svg text{font-size:12px}";
  const std::string heading = escape_html(title);
  return "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>" + heading + "</title><style>" +
         kStyle + style + "</style></head>\n<body><h1>" + heading + "</h1>\n";
}

std::string escape_html(const std::string& text) {
  std::string out;
  for (const char c : text) {
    out += c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '&' ? "&amp;" : c == '"' ? "&quot;" : std::string(1, c);
  }
  return out;
}

std::string readable(double value) {
  const bool whole = std::floor(value) == value && std::abs(value) < 1e15;
  char text[40];
  std::snprintf(text, sizeof text, whole || std::abs(value) >= 1000 ? "%.0f" : "%.4g", value);
  std::string out = text;
  if (out.find_first_of(".e") != out.npos) return out;
  const std::ptrdiff_t first = out.starts_with('-') ? 1 : 0;
  for (auto at = static_cast<std::ptrdiff_t>(out.size()) - 3; at > first; at -= 3) {
    out.insert(static_cast<std::size_t>(at), ",");
  }
  return out;
}

std::string line_chart(const Points& points, const Axis& x, const Axis& y) {
  if (points.empty()) return "<p>There is nothing to show: no transfer has ended.</p>";
  double x_most = 0, y_most = 0;
  for (const auto& [at, value] : points) {
    x_most = std::max(x_most, at);
    y_most = std::max(y_most, value);
  }
  const Scale xs = scale_of(x_most, x.whole), ys = scale_of(y_most, y.whole);
  const auto px = [&](double v) { return kLeft + v / xs.end * (kWidth - kLeft - kRight); };
  const auto py = [&](double v) { return kHeight - kBottom - v / ys.end * (kHeight - kTop - kBottom); };
  std::string out = "<svg viewBox=\"0 0 760 300\" width=\"760\" style=\"max-width:100%\" role=\"img\" aria-label=\"" +
                    escape_html(y.label) + "\">";
  for (int i = 0; i * ys.step <= ys.end * 1.0001; ++i) {
    const double at = py(i * ys.step);
    out += "<path class=\"grid\" d=\"M" + pixel(kLeft) + " " + pixel(at) + "H" + pixel(kWidth - kRight) + "\"/>";
    out += svg_text(kLeft - 6, at + 4, readable(i * ys.step), "end");
  }
  for (int i = 0; i * xs.step <= xs.end * 1.0001; ++i) {
    out += svg_text(px(i * xs.step), kHeight - kBottom + 18, readable(i * xs.step), "middle");
  }
  out += svg_text(kWidth / 2, kHeight - 8, x.label, "middle") + svg_text(kLeft, 16, y.label, "start");
  std::string path;
  for (const auto& [at, value] : points) path += (path.empty() ? "M" : "L") + pixel(px(at)) + " " + pixel(py(value));
  return out + "<path d=\"" + path + "\" style=\"stroke:var(--s0)\"/></svg>";
}

}  // namespace weft::experiment
