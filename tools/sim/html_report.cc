// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "tools/sim/html_report.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>
#include <vector>

namespace weft::sim {
namespace {

using nlohmann::ordered_json;
using Points = std::vector<std::pair<double, double>>;

struct Series {
  std::string name;
  Points points;
};

constexpr double kWidth = 760, kHeight = 300, kLeft = 70, kRight = 20, kTop = 30, kBottom = 45;

constexpr const char* kStyle =
    ":root{color-scheme:light dark;--ink:#1c1e22;--muted:#5d626c;--grid:#d9dce1;--paper:#fff;--s0:#2368b0;--s1:#d17a12;"
    "--s2:#23865a}@media(prefers-color-scheme:dark){:root{--ink:#e7e9ed;--muted:#a3a8b3;--grid:#3a3e46;--paper:#17191d;"
    "--s0:#6aa9ec;--s1:#f0a04b;--s2:#5cc596}}body{background:var(--paper);color:var(--ink);font:15px/1.5 system-ui,"
    "sans-serif;max-width:860px;margin:2rem auto;padding:0 1rem}table{border-collapse:collapse}td,th{padding:.2em .7em;"
    "border-bottom:1px solid var(--grid);text-align:right}td:first-child,th:first-child{text-align:left}svg text{fill:"
    "var(--muted);font-size:12px}svg .grid{stroke:var(--grid)}svg path{fill:none;stroke-width:1.8}h1{font-size:1.5rem}"
    "h2{font-size:1.15rem;margin-top:2rem}";

std::string number(double v) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", v);
  return text;
}

std::string escape(const std::string& text) {
  std::string out;
  for (const char c : text) {
    out += c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '&' ? "&amp;" : c == '"' ? "&quot;" : std::string(1, c);
  }
  return out;
}

std::string svg_text(double x, double y, const std::string& text, const char* anchor) {
  return "<text x=\"" + number(x) + "\" y=\"" + number(y) + "\" text-anchor=\"" + anchor + "\">" + escape(text) +
         "</text>";
}

// Five steps of 1, 2 or 5 times a power of ten that cover `most`.
double step_for(double most) {
  const double raw = std::max(most, 1e-9) / 5;
  const double power = std::pow(10.0, std::floor(std::log10(raw)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= raw) return factor * power;
  }
  return 10 * power;
}

std::string line_chart(const std::vector<Series>& series, const std::string& x_label, const std::string& y_label) {
  double x_most = 0, y_most = 0;
  for (const Series& s : series) {
    for (const auto& [x, y] : s.points) {
      x_most = std::max(x_most, x);
      y_most = std::max(y_most, y);
    }
  }
  const double x_step = step_for(x_most), y_step = step_for(y_most);
  const double x_end = x_step * std::max(1.0, std::ceil(x_most / x_step - 1e-9));
  const double y_end = y_step * std::max(1.0, std::ceil(y_most / y_step - 1e-9));
  const auto px = [&](double x) { return kLeft + x / x_end * (kWidth - kLeft - kRight); };
  const auto py = [&](double y) { return kHeight - kBottom - y / y_end * (kHeight - kTop - kBottom); };
  std::string out = "<svg viewBox=\"0 0 760 300\" width=\"760\" style=\"max-width:100%\" role=\"img\" aria-label=\"" +
                    escape(y_label) + "\">";
  for (double y = 0; y <= y_end * 1.0001; y += y_step) {
    out += "<path class=\"grid\" d=\"M" + number(kLeft) + " " + number(py(y)) + "H" + number(kWidth - kRight) + "\"/>";
    out += svg_text(kLeft - 6, py(y) + 4, number(y), "end");
  }
  for (double x = 0; x <= x_end * 1.0001; x += x_step) {
    out += svg_text(px(x), kHeight - kBottom + 18, number(x), "middle");
  }
  out += svg_text(kWidth / 2, kHeight - 8, x_label, "middle") + svg_text(kLeft, 16, y_label, "start");
  for (std::size_t i = 0; i < series.size(); ++i) {
    std::string path;
    for (const auto& [x, y] : series[i].points) {
      path += (path.empty() ? "M" : "L") + number(px(x)) + " " + number(py(y));
    }
    const std::string colour = "var(--s" + std::to_string(i % 3) + ")";
    out += "<path d=\"" + path + "\" style=\"stroke:" + colour + "\"/>";
    if (series.size() > 1) {
      out += "<rect x=\"" + number(300 + 150.0 * static_cast<double>(i)) +
             "\" y=\"6\" width=\"12\" height=\"12\" "
             "style=\"fill:" +
             colour + "\"/>" + svg_text(318 + 150.0 * static_cast<double>(i), 16, series[i].name, "start");
    }
  }
  return out + "</svg>";
}

Points curve(const ordered_json& report, const char* key, double factor = 1) {
  Points points;
  for (const auto& sample : report["curves"]) {
    points.emplace_back(sample["at_us"].get<double>() / 1000, sample[key].get<double>() * factor);
  }
  return points;
}

Points fct_distribution(const ordered_json& report) {
  std::vector<double> slowdowns;
  for (const auto& t : report["transfers"]) {
    if (!t.contains("fct_ns")) continue;
    slowdowns.push_back(std::max(1.0, t["fct_ns"].get<double>() / t["standalone_ns"].get<double>()));
  }
  std::sort(slowdowns.begin(), slowdowns.end());
  Points points;
  const std::size_t stride = slowdowns.size() / 1000 + 1;
  for (std::size_t i = 0; i < slowdowns.size(); i += stride) {
    points.emplace_back(slowdowns[i], 100.0 * static_cast<double>(i + 1) / static_cast<double>(slowdowns.size()));
  }
  return points;
}

// One bar per link, longest first cut off at a number that a page can hold.
std::string path_bars(const ordered_json& report) {
  constexpr std::size_t kMost = 64;
  double most = 1;
  for (const auto& path : report["paths"]) most = std::max(most, path["bytes"].get<double>());
  std::string out = "<table><tr><th>link</th><th>packets</th><th></th></tr>";
  std::size_t shown = 0;
  for (const auto& path : report["paths"]) {
    if (++shown > kMost) break;
    const double share = path["bytes"].get<double>() / most;
    out += "<tr><td>" + escape(path["from"].get<std::string>() + " to " + path["to"].get<std::string>()) + "</td><td>" +
           std::to_string(path["packets"].get<std::uint64_t>()) +
           "</td><td style=\"text-align:left\"><div style=\"background:var(--s0);height:.8em;width:" +
           number(share * 300) + "px\"></div></td></tr>";
  }
  return out + "</table>";
}

}  // namespace

std::string html_report(const ordered_json& report) {
  const std::string name = escape(report["name"].get<std::string>());
  std::string out = "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>" + name +
                    "</title><style>" + kStyle + "</style></head>\n<body><h1>" + name + "</h1>\n<table>";
  for (const auto& [key, value] : report["summary"].items()) {
    out += "<tr><td>" + escape(key) + "</td><td>" +
           (value.is_number_float() ? number(value.get<double>()) : value.dump()) + "</td></tr>";
  }
  out += "</table>\n<h2>Throughput over time</h2>" +
         line_chart({{"goodput, all hosts", curve(report, "goodput_gbps")}}, "ms", "Gbit/s");
  out += "<h2>Mean rate of busy queue pairs</h2>" + line_chart({{"rate", curve(report, "rate_gbps")}}, "ms", "Gbit/s");
  out += "<h2>FCT slowdown</h2>" +
         line_chart({{"slowdown", fct_distribution(report)}}, "FCT / FCT alone", "percent of transfers");
  out += "<h2>NACKs at senders</h2>" + line_chart({{"NACKs", curve(report, "nacks")}}, "ms", "per interval");
  out += "<h2>Paths used</h2>" + path_bars(report);
  return out + "\n</body></html>\n";
}

}  // namespace weft::sim
