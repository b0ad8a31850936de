// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "tools/sim/html_report.h"

#include <algorithm>
#include <cstdio>
#include <vector>

#include "tools/experiment/line_chart.h"
#include "tools/sim/summary_rows.h"

namespace weft::sim {
namespace {

using experiment::Axis;
using experiment::escape_html;
using experiment::line_chart;
using experiment::Points;
using experiment::readable;

using nlohmann::ordered_json;

constexpr const char* kStyle =
    "td,th{padding:.2em .7em;border-bottom:1px solid var(--grid);text-align:right}td:first-child,th:first-child,.words "
    "td{text-align:left}"
    "td.number{text-align:right;white-space:nowrap}td.meaning,p,summary{color:var(--muted)}svg text{fill:"
    "var(--muted)}svg .grid{stroke:var(--grid)}svg path{fill:none;stroke-width:1.8}h1{font-size:1.5rem}"
    "h2{font-size:1.15rem;margin:2rem 0 .2rem}p{margin:.2rem 0 .6rem}";

std::string cell(const std::string& text, const char* kind = "") {
  const std::string attribute = *kind == '\0' ? "" : std::string(" class=\"") + kind + "\"";
  return "<td" + attribute + ">" + escape_html(text) + "</td>";
}

std::string row(const std::string& name, const std::string& value, const std::string& meaning = "") {
  return "<tr>" + cell(name) + cell(value, "number") + (meaning.empty() ? "" : cell(meaning, "meaning")) + "</tr>\n";
}

std::string section(const char* title, const std::string& caption, const std::string& body) {
  return std::string("<h2>") + title + "</h2>\n<p>" + caption + "</p>\n" + body + "\n";
}

// What ran, in a line: the file, what replaced its values, seed, version, date.
std::string origin(const ordered_json& report) {
  std::string out = "<p>Seed " + report["seed"].dump();
  if (const auto run = report.find("run"); run != report.end()) {
    out += ", " + escape_html((*run)["file"].get<std::string>());
    for (const auto& set : (*run)["set"]) out += " --set '" + escape_html(set.get<std::string>()) + "'";
    out += ", weft-sim " + escape_html((*run)["version"].get<std::string>()) + ", " +
           escape_html((*run)["date"].get<std::string>());
  }
  out += ".";
  if (report.value("interrupted", false)) out += " The run was interrupted.";
  return out + "</p>\n";
}

// Settings as key = value. Lists and what has no keys of its own stay in one line.
void add_settings(const std::string& key, const ordered_json& value, std::string& rows) {
  if (value.is_object() && !value.empty()) {
    for (const auto& [name, child] : value.items()) add_settings(key.empty() ? name : key + "." + name, child, rows);
    return;
  }
  constexpr std::size_t kMost = 400;
  std::string text = value.is_string() ? value.get<std::string>() : value.dump();
  if (text.size() > kMost) text = text.substr(0, kMost) + "...";
  rows += "<tr>" + cell(key) + cell(text) + "</tr>\n";
}

std::string settings(const ordered_json& report) {
  std::string rows;
  add_settings("", report["experiment"], rows);
  return "<details><summary>All settings of the experiment</summary>\n<table class=\"words\">\n" + rows +
         "</table></details>\n";
}

std::string numbers(const ordered_json& summary) {
  std::string out = "<table class=\"words\">\n";
  for (const SummaryRow& known : summary_rows()) {
    const auto value = summary.find(known.key);
    if (value != summary.end()) out += row(known.name, shown_with_unit(*value, known.unit), known.meaning);
  }
  return out + "</table>\n";
}

Points curve(const ordered_json& report, const char* key) {
  Points points;
  for (const auto& sample : report["curves"]) {
    points.emplace_back(sample["at_us"].get<double>() / 1000, sample[key].get<double>());
  }
  return points;
}

// Of the curves, in microseconds.
std::string interval(const ordered_json& report) {
  const auto& curves = report["curves"];
  if (curves.empty()) return "interval";
  const double before = curves.size() < 2 ? 0 : curves[curves.size() - 2]["at_us"].get<double>();
  return readable(curves.back()["at_us"].get<double>() - before) + " us";
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

// Empty where no transfer has ended.
std::string slowdown_by_size(const ordered_json& summary) {
  const auto sizes = summary.find("fct_slowdown_by_bytes");
  if (sizes == summary.end() || sizes->empty()) return "";
  std::string out =
      "<table><tr><th>at most</th><th>transfers</th><th>mean</th><th>median</th><th>99 %</th><th>99.9 %</th></tr>\n";
  for (const auto& size : *sizes) {
    const double kilobytes = size["at_most_bytes"].get<double>() / 1000;
    out += "<tr>" + cell(kilobytes < 1000 ? readable(kilobytes) + " KB" : readable(kilobytes / 1000) + " MB");
    for (const char* key : {"transfers", "mean", "p50", "p99", "p999"}) out += cell(readable(size[key].get<double>()));
    out += "</tr>\n";
  }
  return section("Slowdown by size",
                 "The time of a transfer by the time that it takes alone, of transfers that are larger than those of "
                 "the line above.",
                 out + "</table>");
}

// One bar per link, up to a number that a page can hold.
std::string path_bars(const ordered_json& report) {
  constexpr std::size_t kMost = 64;
  double most = 1;
  for (const auto& path : report["paths"]) most = std::max(most, path["bytes"].get<double>());
  std::string out = "<table><tr><th>link</th><th>packets</th><th>MB</th><th></th></tr>\n";
  std::size_t shown = 0;
  for (const auto& path : report["paths"]) {
    if (++shown > kMost) break;
    const double bytes = path["bytes"].get<double>();
    char width[16];
    std::snprintf(width, sizeof width, "%.0f", bytes / most * 300);
    out += "<tr>" + cell(path["from"].get<std::string>() + " to " + path["to"].get<std::string>()) +
           cell(readable(path["packets"].get<double>())) + cell(readable(bytes / 1e6)) +
           "<td style=\"text-align:left\"><div style=\"background:var(--s0);height:.8em;width:" + width +
           "px\"></div></td></tr>\n";
  }
  return out + "</table>";
}

// What stayed zero is left out.
std::string stage_counters(const ordered_json& summary) {
  std::string rows;
  const auto stages = summary.find("stages");
  if (stages == summary.end()) return "";
  for (const auto& [stage, counters] : stages->items()) {
    for (const auto& [counter, value] : counters.items()) {
      if (value != 0) rows += row(stage + "." + counter, readable(value.get<double>()));
    }
  }
  return "<table>\n" + rows + "</table>";
}

}  // namespace

std::string html_report(const ordered_json& report) {
  const std::string each = "in each interval of " + interval(report);
  const Axis time{"virtual time, ms"};
  std::string out = experiment::page_head(report["title"].get<std::string>(), kStyle);
  out += origin(report) + numbers(report["summary"]) + settings(report);
  out += section("Throughput over time", "Payload that arrived at all hosts together, " + each + ".",
                 line_chart(curve(report, "goodput_gbps"), time, {"Gbit/s"}));
  out += section("Mean rate of busy queue pairs",
                 "What congestion control allows the queue pairs that have work, at the end of " + each.substr(3) + ".",
                 line_chart(curve(report, "rate_gbps"), time, {"Gbit/s"}));
  out += section(
      "Slowdown of transfers", "How many transfers took at most so many times as long as they take alone.",
      line_chart(fct_distribution(report), {"time of the transfer / its time alone"}, {"percent of transfers"}));
  out += slowdown_by_size(report["summary"]);
  out += section("NACKs at senders", "That arrived " + each + ", right or false.",
                 line_chart(curve(report, "nacks"), time, {"NACKs", true}));
  out += section("Paths used", "What each link between switches carried, ACKs included.", path_bars(report));
  out += section("Counters of stages", "Of all switches together, without those that stayed 0.",
                 stage_counters(report["summary"]));
  return out + "</body></html>\n";
}

}  // namespace weft::sim
