// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Workloads that come from files.
#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <sstream>

#include "tools/experiment/files.h"
#include "tools/sim/experiment_builder.h"
#include "tools/sim/seeds.h"

namespace weft::sim {
namespace {

using experiment::read_text;

using config::Mark;
using config::Value;

struct Line {
  int number = 0;
  std::vector<double> fields{};
  bool numbers = true;  ///< every field is one
};

std::vector<Line> lines_of(const std::string& text) {
  std::vector<Line> lines;
  std::istringstream in(text);
  std::string line;
  for (int number = 1; std::getline(in, line); ++number) {
    std::istringstream fields(line.substr(0, line.find('#')));
    Line out{.number = number};
    std::string field;
    while (fields >> field) {
      double value = 0;
      const auto [end, code] = std::from_chars(field.data(), field.data() + field.size(), value);
      out.numbers = out.numbers && code == std::errc{} && end == field.data() + field.size();
      out.fields.push_back(value);
    }
    if (!out.fields.empty()) lines.push_back(std::move(out));
  }
  return lines;
}

}  // namespace

std::optional<std::string> ExperimentBuilder::read_file(const Value& name) {
  if (name.is_null()) return std::nullopt;
  const std::filesystem::path path = std::filesystem::path(file_).parent_path() / name.string();
  auto text = read_text(path.string());
  if (!text) error(name.mark(), "file '" + path.string() + "' cannot be read: " + std::strerror(errno));
  return text;
}

void ExperimentBuilder::build_poisson(const Value& w, Experiment& out) {
  const auto text = read_file(w["cdf"]);
  if (!text || w["load"].is_null() || w["duration_ms"].is_null()) return;
  std::vector<std::pair<double, double>> points;
  for (const Line& line : lines_of(*text)) {
    const Mark mark{w["cdf"].string(), line.number, 1};
    if (!line.numbers || line.fields.size() != 2) return error(mark, "expected bytes and cumulative percent");
    const auto [bytes, percent] = std::pair(line.fields[0], line.fields[1]);
    if (!points.empty() && (bytes < points.back().first || percent < points.back().second)) {
      return error(mark, "expected values that do not fall");
    }
    points.emplace_back(bytes, percent);
  }
  if (points.size() < 2 || points.back().second != 100) {
    return error(w["cdf"].mark(), "cdf: expected at least two points, the last one at 100 percent");
  }
  std::vector<std::uint64_t> seeds;
  for (const HostPlan& host : out.topology.hosts()) seeds.push_back(seed_of(out.seed, RandomUse::flows, host.name));
  if (seeds.size() < 2) return error(w.mark(), "workload: poisson takes at least two hosts");
  PoissonSpec spec;
  spec.load = w["load"].number();
  spec.link_bps = out.topology.hosts()[0].wire.rate_mbps * 1'000'000;
  spec.duration = static_cast<TimeNs>(std::llround(w["duration_ms"].number() * 1e6));
  std::vector<Flow> flows = poisson_flows(seeds, SizeDistribution(std::move(points)), spec);
  if (const Value& incast = w["incast"]; !incast.is_null()) {
    const auto hosts = static_cast<std::uint32_t>(seeds.size());
    const IncastSpec beside{.senders = static_cast<std::uint32_t>(incast["senders"].unsigned_integer()),
                            .bytes = incast["bytes"].unsigned_integer(),
                            .every = static_cast<TimeNs>(std::llround(incast["every_us"].number() * 1e3)),
                            .duration = spec.duration};
    if (beside.senders >= hosts) {
      return error(incast["senders"].mark(), "incast: there are " + std::to_string(hosts) + " hosts");
    }
    for (const Flow& flow : incast_flows(seed_of(out.seed, RandomUse::flows, "incast"), hosts, beside)) {
      flows.push_back(flow);
    }
    std::stable_sort(flows.begin(), flows.end(), [](const Flow& a, const Flow& b) { return a.start < b.start; });
  }
  out.plan = flow_list(flows);
  if (out.plan.transfers.empty()) error(w.mark(), "workload: no flow begins within duration_ms");
}

void ExperimentBuilder::build_flows(const Value& w, Experiment& out) {
  const auto text = read_file(w["file"]);
  if (!text || w["layout"].is_null() || w["start_s"].is_null()) return;
  const bool hpcc = w["layout"].string() == "hpcc";
  const std::size_t fields = hpcc ? 6 : 4;
  const auto hosts = static_cast<double>(out.topology.hosts().size());
  std::vector<Flow> flows;
  bool first = true;
  for (const Line& line : lines_of(*text)) {
    const Mark mark{w["file"].string(), line.number, 1};
    // The first line of the hpcc layout is the count of flows.
    if (std::exchange(first, false) && hpcc && line.fields.size() == 1) continue;
    if (!line.numbers || line.fields.size() != fields) {
      return error(mark, hpcc ? "expected source, destination, priority, port, bytes and start"
                              : "expected from, to, bytes and start in seconds");
    }
    const double from = line.fields[0], to = line.fields[1];
    const double bytes = line.fields[hpcc ? 4 : 2], start = line.fields[hpcc ? 5 : 3] - w["start_s"].number();
    if (from < 0 || to < 0 || from >= hosts || to >= hosts || from == to) {
      return error(mark, "expected two different hosts from 0 to " + std::to_string(out.topology.hosts().size() - 1));
    }
    if (bytes < 1 || bytes > 0x80000000u || start < 0) {
      return error(mark, "expected 1 to 2^31 bytes, and a start that is not before start_s");
    }
    flows.push_back({static_cast<std::uint32_t>(from), static_cast<std::uint32_t>(to),
                     static_cast<std::uint64_t>(bytes), static_cast<TimeNs>(std::llround(start * 1e9))});
  }
  if (flows.empty()) return error(w["file"].mark(), "file: there is no flow in it");
  out.plan = flow_list(flows);
}

}  // namespace weft::sim
