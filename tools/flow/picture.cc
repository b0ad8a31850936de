// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "tools/flow/picture.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <set>
#include <tuple>
#include <vector>

#include "tools/experiment/line_chart.h"

namespace weft::flow {
namespace {

using experiment::escape_html;
using experiment::pixel;
using nlohmann::ordered_json;

constexpr double kWidth = 1000, kMargin = 8, kCores = 24, kSpines = 144, kLeaves = 264, kStacks = 282, kCell = 7;
constexpr std::size_t kMostTrees = 3000, kMostRows = 100;

/// Neighbouring numbers get colours that are far apart: each is a golden angle from the one before.
std::string colour_of(std::size_t job) {
  return "hsl(" + pixel(std::fmod(static_cast<double>(job) * 137.508, 360)) + " 60% 50%)";
}

/// Places of switches by their names, and of GPUs by their numbers.
class Layout {
 public:
  explicit Layout(const ordered_json& fabric)
      : per_leaf_(fabric["gpus_per_leaf"].get<std::size_t>()),
        leaves_(fabric["pods"].get<std::size_t>() * fabric["leaves"].get<std::size_t>()),
        spines_(fabric["pods"].get<std::size_t>() * fabric["spines"].get<std::size_t>()),
        cores_(fabric["pods"] == 1
                   ? 0
                   : fabric["spines"].get<std::size_t>() * fabric["cores_per_spine"].get<std::size_t>()) {}

  struct Point {
    double x = 0, y = 0;
  };
  [[nodiscard]] Point of(const std::string& name) const {
    const std::size_t digits = name.find_first_of("0123456789");
    const std::size_t number = std::stoul(name.substr(digits));
    const std::string row = name.substr(0, digits);
    if (row == "leaf") return {column(number, leaves_), kLeaves};
    return row == "spine" ? Point{column(number, spines_), kSpines} : Point{column(number, cores_), kCores};
  }
  [[nodiscard]] Point gpu(std::size_t number) const {
    return {column(number / per_leaf_, leaves_), kStacks + kCell * static_cast<double>(number % per_leaf_)};
  }
  [[nodiscard]] double cell_width() const { return std::min(24.0, step(leaves_) * 0.85); }
  [[nodiscard]] double height() const { return kStacks + kCell * static_cast<double>(per_leaf_) + kMargin; }
  /// All switches, row by row.
  [[nodiscard]] std::vector<std::string> switches() const {
    std::vector<std::string> out;
    for (std::size_t i = 0; i < cores_; ++i) out.push_back("core" + std::to_string(i));
    for (std::size_t i = 0; i < spines_; ++i) out.push_back("spine" + std::to_string(i));
    for (std::size_t i = 0; i < leaves_; ++i) out.push_back("leaf" + std::to_string(i));
    return out;
  }
  [[nodiscard]] double switch_width(const std::string& name) const {
    return std::min(14.0, step(name[0] == 'l' ? leaves_ : name[0] == 's' ? spines_ : cores_) * 0.7);
  }

 private:
  static double step(std::size_t count) { return (kWidth - 2 * kMargin) / static_cast<double>(count); }
  static double column(std::size_t number, std::size_t count) {
    return kMargin + (static_cast<double>(number) + 0.5) * step(count);
  }

  std::size_t per_leaf_, leaves_, spines_, cores_;
};

std::string rectangle(double x, double y, double width, double height, const std::string& more,
                      const std::string& title) {
  return "<rect x=\"" + pixel(x) + "\" y=\"" + pixel(y) + "\" width=\"" + pixel(width) + "\" height=\"" +
         pixel(height) + "\" " + more + "><title>" + escape_html(title) + "</title></rect>\n";
}

std::string job_name(const ordered_json& group, const ordered_json& jobs) {
  const auto job = group["job"].get<std::size_t>();
  return "job " + std::to_string(job) + " (" + jobs[job]["name"].get<std::string>() + ")";
}

std::string lines_of(const Layout& layout, const ordered_json& group, const ordered_json& jobs) {
  std::string path;
  for (const auto& link : group["links"]) {
    const auto from = layout.of(link[0].get<std::string>()), to = layout.of(link[1].get<std::string>());
    path += "M" + pixel(from.x) + " " + pixel(from.y) + "L" + pixel(to.x) + " " + pixel(to.y);
  }
  if (path.empty()) return "";  // all below one leaf
  return "<path d=\"" + path + "\" style=\"stroke:" + colour_of(group["job"].get<std::size_t>()) +
         ";stroke-opacity:.55;stroke-width:1\"><title>" + escape_html(job_name(group, jobs)) + ": a " +
         group["kind"].get<std::string>() + " group under " + group["root"].get<std::string>() + "</title></path>\n";
}

/// GPUs in the colours of their jobs; a ring around those that are in a group without a tree.
std::string gpus_of(const Layout& layout, const ordered_json& groups, const ordered_json& jobs) {
  std::map<std::size_t, const ordered_json*> shown;
  std::set<std::size_t> without;
  for (const ordered_json& group : groups) {
    for (const auto& gpu : group["gpus"]) {
      shown[gpu.get<std::size_t>()] = &group;
      if (group.contains("reason")) without.insert(gpu.get<std::size_t>());
    }
  }
  std::string out;
  for (const auto& [gpu, group] : shown) {
    const auto at = layout.gpu(gpu);
    const bool lacks = without.contains(gpu);
    const std::string style = "style=\"fill:" + colour_of((*group)["job"].get<std::size_t>()) +
                              (lacks ? ";stroke:var(--ink);stroke-width:1.2" : "") + "\"";
    out += rectangle(
        at.x - layout.cell_width() / 2, at.y, layout.cell_width(), kCell - 1.5, style,
        "GPU " + std::to_string(gpu) + ": " + job_name(*group, jobs) + (lacks ? ", in a group without a tree" : ""));
  }
  return out;
}

std::string switches_of(const Layout& layout, const ordered_json& groups) {
  std::map<std::string, std::size_t> trees;
  for (const ordered_json& group : groups) {
    if (group.contains("reason")) continue;
    std::set<std::string> on{group["root"].get<std::string>()};
    for (const auto& link : group["links"]) on.insert(link[0].get<std::string>());
    for (const std::string& name : on) ++trees[name];
  }
  std::size_t most = 1;
  for (const auto& entry : trees) most = std::max(most, entry.second);
  std::string out;
  for (const std::string& name : layout.switches()) {
    const auto at = layout.of(name);
    const double share = static_cast<double>(trees[name]) / static_cast<double>(most),
                 width = layout.switch_width(name);
    out += rectangle(at.x - width / 2, at.y - 4, width, 8,
                     "style=\"fill:var(--ink);stroke:var(--ink);stroke-width:.5;fill-opacity:" + pixel(share) + "\"",
                     name + ": trees of " + std::to_string(trees[name]) + " groups");
  }
  return out;
}

/// Groups without a tree, those of a job and reason in one row.
std::string lacking_table(const ordered_json& groups, const ordered_json& jobs) {
  std::map<std::tuple<std::size_t, std::string, std::string, std::string>, std::size_t> counts;
  for (const ordered_json& group : groups) {
    if (!group.contains("reason")) continue;
    ++counts[{group["job"].get<std::size_t>(), group["kind"].get<std::string>(), group["reason"].get<std::string>(),
              group.value("at", "")}];
  }
  if (counts.empty()) return "<p>All groups have trees.</p>\n";
  std::string out = "<table><tr><td>job</td><td>groups without a tree</td><td>why</td><td>where first</td></tr>\n";
  std::size_t rows = 0;
  for (const auto& [what, count] : counts) {
    const auto& [job, kind, reason, at] = what;
    if (++rows > kMostRows) break;
    out += "<tr><td>" + std::to_string(job) + " (" + escape_html(jobs[job]["name"].get<std::string>()) + ")</td><td>" +
           std::to_string(count) + " " + kind + "</td><td>" + escape_html(reason) + "</td><td>" + escape_html(at) +
           "</td></tr>\n";
  }
  out += "</table>\n";
  if (counts.size() > kMostRows) out += "<p>And " + std::to_string(counts.size() - kMostRows) + " rows more.</p>\n";
  return out;
}

}  // namespace

ordered_json trees_of(const Cluster& cluster) {
  const Snapshot& snapshot = cluster.snapshot();
  if (snapshot.groups.empty()) return nullptr;
  const inc::policy::Topology topology = cluster.fabric().topology({});
  ordered_json groups = ordered_json::array();
  for (const GroupState& g : snapshot.groups) {
    ordered_json one{{"job", g.job}, {"kind", to_string(g.kind)}, {"gpus", g.gpus}};
    if (g.root == inc::policy::kNoNode) {
      one["reason"] = to_string(g.reason);
      if (g.blocked_at != inc::policy::kNoNode) one["at"] = topology.node(g.blocked_at).name;
    } else {
      one["root"] = topology.node(g.root).name;
      ordered_json links = ordered_json::array();
      for (const inc::policy::LinkId id : g.links) {
        const inc::policy::Link& link = topology.link(id);
        if (!topology.node(link.lower).is_switch) continue;
        links.push_back({topology.node(link.lower).name, topology.node(link.upper).name});
      }
      one["links"] = std::move(links);
    }
    groups.push_back(std::move(one));
  }
  return {{"at_s", static_cast<double>(snapshot.at) / 1e9}, {"groups", std::move(groups)}};
}

std::string picture_of(const ordered_json& trees, const ordered_json& fabric, const ordered_json& jobs) {
  if (trees.is_null()) return "<p>No group had a tree.</p>\n";
  const Layout layout(fabric);
  const ordered_json& groups = trees["groups"];
  std::string out =
      "<p>After " + experiment::readable(trees["at_s"].get<double>()) +
      " s, when groups had about the most memory. From above: cores, spines, leaves (the darker, the more "
      "trees), and the GPUs of each leaf, with a colour for each job. GPUs with a frame are in a group "
      "without a tree.</p>\n<svg viewBox=\"0 0 " +
      pixel(kWidth) + " " + pixel(layout.height()) + "\" role=\"img\" aria-label=\"trees\">\n";
  std::size_t drawn = 0, all = 0;
  for (const ordered_json& group : groups) {
    if (group.contains("reason")) continue;
    if (++all <= kMostTrees) out += lines_of(layout, group, jobs);
  }
  drawn = std::min(all, kMostTrees);
  out += switches_of(layout, groups) + gpus_of(layout, groups, jobs) + "</svg>\n";
  if (drawn < all) {
    out += "<p>Lines are those of " + std::to_string(drawn) + " of " + std::to_string(all) + " trees.</p>\n";
  }
  return out + lacking_table(groups, jobs);
}

}  // namespace weft::flow
