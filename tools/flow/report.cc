// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "tools/flow/report.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <map>

#include "switch/config/schema/value_json.h"
#include "tools/experiment/line_chart.h"
#include "tools/flow/picture.h"

namespace weft::flow {
namespace {

using experiment::escape_html;
using experiment::line_chart;
using experiment::Points;
using experiment::readable;
using nlohmann::ordered_json;

constexpr const char* kStyle =
    "td{padding:.2em .7em;border-bottom:1px solid var(--grid)}p,summary{color:var(--muted)}"
    "svg text{fill:var(--muted)}svg .grid{stroke:var(--grid)}"
    "svg path{fill:none;stroke-width:1.8}";

double seconds(TimeNs ns) {
  return static_cast<double>(ns) / 1e9;
}

/// Of values in order; the least that so many are not above.
ordered_json percentile(const std::vector<double>& sorted, double share) {
  if (sorted.empty()) return nullptr;
  const auto rank = static_cast<std::size_t>(std::ceil(share * static_cast<double>(sorted.size())));
  return sorted[std::max<std::size_t>(rank, 1) - 1];
}

double sum_of(const std::vector<double>& values) {
  double sum = 0;
  for (const double v : values) sum += v;
  return sum;
}

ordered_json mean(const std::vector<double>& values) {
  if (values.empty()) return nullptr;
  return sum_of(values) / static_cast<double>(values.size());
}

ordered_json times_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return {{"mean", mean(values)},
          {"p50", percentile(values, 0.5)},
          {"p99", percentile(values, 0.99)},
          {"most", percentile(values, 1)}};
}

/// What all jobs have done together.
struct Sums {
  Counts counts;
  std::uint64_t iterations = 0;
  std::size_t with_tree = 0, without_tree = 0, inside = 0, started = 0;
  std::size_t moved = 0, fell_back = 0, came_back = 0;
  std::uint64_t iterations_of_ended = 0;
  double gpu_s = 0, gpu_s_arriving = 0;
  TimeNs last = 0, last_arrival = 0;
  std::vector<double> jct, running, waiting, jct_of_8;
};

Sums sums_of(const Cluster& cluster) {
  Sums s;
  if (!cluster.jobs().empty()) s.last_arrival = cluster.jobs().back().arrival_ns;
  for (std::size_t i = 0; i < cluster.jobs().size(); ++i) {
    const Job& job = cluster.jobs()[i];
    const JobResult& r = cluster.results()[i];
    if (!r.started) continue;
    ++s.started;
    s.counts.add(r.counts, 1);
    s.iterations += r.iterations;
    s.with_tree += r.with_tree;
    s.without_tree += r.without_tree;
    s.inside += r.inside;
    s.moved += r.moved;
    s.fell_back += r.fell_back;
    s.came_back += r.came_back;
    s.waiting.push_back(seconds(r.start_ns - job.arrival_ns));
    const TimeNs until = std::min(r.ended ? r.end_ns : cluster.now(), s.last_arrival);
    if (until > r.start_ns) s.gpu_s_arriving += seconds(until - r.start_ns) * job.plan->ranks;
    if (!r.ended) continue;
    s.last = std::max(s.last, r.end_ns);
    s.jct.push_back(seconds(r.end_ns - job.arrival_ns));
    if (job.plan->ranks == 8) s.jct_of_8.push_back(s.jct.back());
    s.iterations_of_ended += r.iterations;
    s.running.push_back(seconds(r.end_ns - r.start_ns));
    s.gpu_s += s.running.back() * job.plan->ranks;
  }
  return s;
}

/// Of all links of each tier together, in both directions.
std::array<double, 3> capacities_of(const Cluster& cluster) {
  std::array<double, 3> out{};
  for (std::uint32_t link = 0; link < cluster.shares().links(); ++link) {
    out[cluster.fabric().tier_of(link)] += cluster.shares().capacity(link);
  }
  return out;
}

ordered_json links_of(const Cluster& cluster, const Sums& s) {
  constexpr const char* kNames[]{"gpu", "leaf_spine", "spine_core"};
  const std::array<double, 3> capacity = capacities_of(cluster);
  ordered_json out = ordered_json::object();
  for (int t = 0; t < 3; ++t) {
    const double all = capacity[t] * static_cast<double>(s.last);
    out[kNames[t]] = all > 0 ? ordered_json(s.counts.tier_bytes[t] / all) : ordered_json(nullptr);
  }
  return out;
}

ordered_json decisions_of(const Cluster& cluster) {
  std::vector<double> us;
  for (const std::uint64_t ns : cluster.decision_times()) us.push_back(static_cast<double>(ns) / 1e3);
  const ordered_json times = times_of(us);
  return {{"count", us.size()},
          {"mean_us", times["mean"]},
          {"p50_us", times["p50"]},
          {"p99_us", times["p99"]},
          {"most_us", times["most"]}};
}

/// By time: shares of what links can carry, of the GPUs, and of the memory of all switches.
ordered_json timeline_of(const Experiment& experiment, const Cluster& cluster) {
  const FabricSpec& f = experiment.cluster.fabric;
  const std::uint64_t leaves = std::uint64_t{f.pods} * f.leaves, spines = std::uint64_t{f.pods} * f.spines;
  const std::uint64_t cores = f.pods > 1 ? std::uint64_t{f.spines} * f.cores_per_spine : 0;
  const auto memory = static_cast<double>(experiment.cluster.memory.of_switch * (leaves + spines + cores));
  const auto [gpu, leaf_spine, spine_core] = capacities_of(cluster);
  const double all[kAmounts]{gpu, leaf_spine, spine_core, static_cast<double>(f.gpus()), memory};  // by Amount
  constexpr const char* kNames[kAmounts]{"gpu_links", "leaf_spine_links", "spine_core_links", "gpus", "memory"};
  const Timeline& t = cluster.timeline();
  ordered_json out{{"interval_s", seconds(t.width())}};
  for (std::size_t v = 0; v < kAmounts; ++v) {
    ordered_json shares = ordered_json::array();
    for (std::size_t i = 0; i < t.used() && all[v] > 0; ++i) {
      shares.push_back(t.at(i, v) / (all[v] * static_cast<double>(t.width())));
    }
    out[kNames[v]] = std::move(shares);
  }
  return out;
}

ordered_json reasons_of(const Cluster& cluster) {
  ordered_json out = ordered_json::object();
  for (const auto& [reason, count] : cluster.reasons()) {
    if (reason != inc::policy::Reason::none) out[std::string(to_string(reason))] = count;
  }
  return out;
}

ordered_json summary_of(const Experiment& experiment, const Cluster& cluster, const RunFacts& facts) {
  const Sums s = sums_of(cluster);
  const ordered_json jct = times_of(s.jct), running = times_of(s.running), waiting = times_of(s.waiting);
  const double collectives = static_cast<double>(s.counts.in_network + s.counts.in_rings);
  const auto share = [](double part, double all) { return all > 0 ? ordered_json(part / all) : ordered_json(nullptr); };
  const double gpus = experiment.cluster.fabric.gpus();
  return {
      {"complete", cluster.ended() == cluster.jobs().size()},
      {"jobs", cluster.jobs().size()},
      {"jobs_ended", cluster.ended()},
      {"jct_mean_s", jct["mean"]},
      {"jct_p50_s", jct["p50"]},
      {"jct_p99_s", jct["p99"]},
      {"jct_most_s", jct["most"]},
      {"jct_of_8_gpus_mean_s", mean(s.jct_of_8)},
      {"running_mean_s", running["mean"]},
      {"iteration_mean_s", share(sum_of(s.running), static_cast<double>(s.iterations_of_ended))},
      {"waiting_mean_s", waiting["mean"]},
      {"makespan_s", seconds(s.last)},
      {"gpus_busy", share(s.gpu_s, gpus * seconds(s.last))},
      {"gpus_busy_until_last_arrival", share(s.gpu_s_arriving, gpus * seconds(s.last_arrival))},
      {"arrival_factor", experiment.arrival_factor},
      {"in_network", share(static_cast<double>(s.counts.in_network), collectives)},
      {"locks_refused", s.counts.refused},
      {"lock_waits", s.counts.waits},
      {"groups_with_tree", s.with_tree},
      {"groups_without_tree", s.without_tree},
      {"groups_inside", s.inside},
      {"groups_moved", s.moved},
      {"groups_fell_back", s.fell_back},
      {"groups_came_back", s.came_back},
      {"memory_most", cluster.most_memory()},
      {"iterations", s.iterations},
      {"iterations_in_closed_form", cluster.iterations_in_closed_form()},
      {"events", cluster.events()},
      {"transfers_per_event",
       share(static_cast<double>(cluster.shares().looked_at()), static_cast<double>(cluster.events()))},
      {"wall_s", facts.wall_s},
      {"cpu_s", facts.cpu_s},
      {"events_per_s", share(static_cast<double>(cluster.events()), facts.cpu_s)},
      {"links", links_of(cluster, s)},
      {"reasons", reasons_of(cluster)},
      {"decisions", decisions_of(cluster)},
  };
}

ordered_json jobs_in(const Experiment& experiment, const Cluster& cluster) {
  ordered_json out = ordered_json::array();
  for (std::size_t i = 0; i < cluster.jobs().size(); ++i) {
    const Job& job = cluster.jobs()[i];
    const JobResult& r = cluster.results()[i];
    ordered_json one{
        {"name", experiment.jobs[i].name}, {"gpus", job.plan->ranks}, {"arrival_s", seconds(job.arrival_ns)}};
    if (r.started) one["start_s"] = seconds(r.start_ns);
    if (r.ended) one["jct_s"] = seconds(r.end_ns - job.arrival_ns);
    one.update({{"iterations", r.iterations},
                {"with_tree", r.with_tree},
                {"without_tree", r.without_tree},
                {"inside", r.inside},
                {"moved", r.moved},
                {"fell_back", r.fell_back},
                {"came_back", r.came_back},
                {"in_network", r.counts.in_network},
                {"in_rings", r.counts.in_rings},
                {"locks_refused", r.counts.refused}});
    out.push_back(std::move(one));
  }
  return out;
}

std::string row(const std::string& name, const std::string& value) {
  return "<tr><td>" + escape_html(name) + "</td><td>" + escape_html(value) + "</td></tr>\n";
}

std::string table_of(const ordered_json& object) {
  std::string rows;
  for (const auto& [key, value] : object.items()) {
    if (value.is_structured()) continue;
    rows += row(key, value.is_number() ? readable(value.get<double>()) : value.is_null() ? "unknown" : value.dump());
  }
  return "<table>\n" + rows + "</table>\n";
}

/// Percent of jobs that took at most so many seconds.
Points distribution(const ordered_json& report, std::uint32_t gpus) {
  std::vector<double> times;
  for (const auto& job : report["jobs"]) {
    if (job.contains("jct_s") && (gpus == 0 || job["gpus"] == gpus)) times.push_back(job["jct_s"].get<double>());
  }
  std::sort(times.begin(), times.end());
  Points points;
  const auto add = [&](std::size_t i) {
    points.emplace_back(times[i], 100.0 * static_cast<double>(i + 1) / static_cast<double>(times.size()));
  };
  const std::size_t stride = times.size() / 1000 + 1;
  for (std::size_t i = 0; i + 1 < times.size(); i += stride) add(i);
  if (!times.empty()) add(times.size() - 1);
  return points;
}

/// @param whose  jobs, for when none of them has ended
std::string times_chart(const Points& points, const std::string& whose) {
  if (points.empty()) return "<p>No job" + whose + " has ended.</p>";
  return line_chart(points, {"job completion time, s"}, {"percent of jobs"});
}

/// Percent by time, of what timeline_of() has.
std::string use_over_time(const ordered_json& timeline, const char* what) {
  Points points;
  const double interval = timeline["interval_s"].get<double>();
  for (const auto& share : timeline[what]) {
    const double at = static_cast<double>(points.size()) * interval;
    points.emplace_back(at + interval / 2, 100 * share.get<double>());
  }
  if (points.empty()) return "<p>Nothing has happened.</p>";
  return line_chart(points, {"time, s"}, {"percent in use"});
}

}  // namespace

ordered_json report_of(const Experiment& experiment, const Cluster& cluster, const RunFacts& facts) {
  char hash[24];
  std::snprintf(hash, sizeof hash, "%016llx", static_cast<unsigned long long>(cluster.trace_hash()));
  return {
      {"title", experiment.name},
      {"seed", experiment.seed},
      {"run", {{"file", facts.file}, {"set", facts.sets}, {"version", facts.version}, {"date", facts.date}}},
      {"interrupted", facts.interrupted},
      {"trace_hash", hash},
      {"summary", summary_of(experiment, cluster, facts)},
      {"experiment", config::to_json(experiment.source)},
      {"jobs", jobs_in(experiment, cluster)},
      {"timeline", timeline_of(experiment, cluster)},
      {"trees", trees_of(cluster)},
  };
}

std::string html_report(const ordered_json& report) {
  const ordered_json& summary = report["summary"];
  std::string out = experiment::page_head(report["title"].get<std::string>(), kStyle) + "<p>" +
                    escape_html(report["run"]["file"].get<std::string>());
  for (const auto& set : report["run"]["set"]) out += " --set '" + escape_html(set.get<std::string>()) + "'";
  out += ", seed " + report["seed"].dump() + ", weft-flow " + escape_html(report["run"]["version"].get<std::string>()) +
         (report["interrupted"] == true ? ". The run was interrupted." : ".") + "</p>\n" + table_of(summary);
  out += "<h2>Job completion times</h2>\n" + times_chart(distribution(report, 0), "");
  out += "<h2>Those of jobs with 8 GPUs</h2>\n" + times_chart(distribution(report, 8), " with 8 GPUs");
  out += "<h2>Why groups have no tree</h2>\n" + table_of(summary["reasons"]);
  if (summary["decisions"]["count"] > 0) {
    out += "<h2>How long the policy took for a group</h2>\n" + table_of(summary["decisions"]);
  }
  out += "<h2>Trees on the fabric</h2>\n" + picture_of(report["trees"], report["experiment"]["fabric"], report["jobs"]);
  out +=
      "<h2>Mean use of links</h2>\n<p>Share of what they can carry, both directions, until the last job ended.</p>\n" +
      table_of(summary["links"]);
  constexpr std::pair<const char*, const char*> kPlots[]{{"gpus", "GPUs"},
                                                         {"memory", "Memory of switches"},
                                                         {"gpu_links", "Links of GPUs"},
                                                         {"leaf_spine_links", "Links from leaves to spines"},
                                                         {"spine_core_links", "Links from spines to cores"}};
  for (const auto& [what, title] : kPlots) {
    out += "<h2>" + std::string(title) + " in use</h2>\n" + use_over_time(report["timeline"], what);
  }
  return out + "<details><summary>All settings</summary><pre>" + escape_html(report["experiment"].dump(1)) +
         "</pre></details></body></html>\n";
}

}  // namespace weft::flow
