// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "tools/flow/workload.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <memory>
#include <utility>

#include "switch/base/rng.h"
#include "switch/config/schema/suggest.h"

namespace weft::flow {
namespace {

constexpr std::uint32_t kMostTensor = 8;

struct Field {
  std::string_view text;
  int column = 1;
};

std::vector<Field> fields_of(std::string_view line) {
  std::vector<Field> out;
  for (std::size_t at = 0; at <= line.size();) {
    const std::size_t comma = std::min(line.find(',', at), line.size());
    out.push_back({line.substr(at, comma - at), static_cast<int>(at) + 1});
    at = comma + 1;
  }
  return out;
}

std::optional<double> number_of(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || !std::isfinite(value)) return std::nullopt;
  return value;
}

class TraceReader {
 public:
  TraceReader(const std::string& file, config::Diagnostics& diagnostics) : file_(file), diagnostics_(diagnostics) {}

  /// False when a column is missing.
  bool header(std::string_view line) {
    const std::vector<Field> fields = fields_of(line);
    bool fine = true;
    for (std::size_t c = 0; c < kColumns.size(); ++c) {
      const auto at = std::find_if(fields.begin(), fields.end(), [&](const Field& f) { return f.text == kColumns[c]; });
      if (at == fields.end()) error(1, "there is no column " + config::quote(kColumns[c]));
      fine = fine && at != fields.end();
      places_[c] = static_cast<std::size_t>(at - fields.begin());
    }
    columns_ = fields.size();
    return fine;
  }

  std::optional<TraceJob> job(std::string_view line) {
    ++line_;
    const std::vector<Field> fields = fields_of(line);
    if (fields.size() != columns_) {
      error(1, "expected " + std::to_string(columns_) + " fields, found " + std::to_string(fields.size()));
      return std::nullopt;
    }
    std::array<double, 3> values{};
    bool fine = true;
    for (std::size_t c = 0; c < kColumns.size(); ++c) {
      const Field& field = fields[places_[c]];
      const auto value = number_of(field.text);
      const bool whole = c == 2;
      if (!value || *value < kLeast[c] || *value > static_cast<double>(kMost) ||
          (whole && *value != std::floor(*value))) {
        error(field.column, std::string(kColumns[c]) + ": expected a " +
                                (whole ? "whole number from 1" : "number from 0") + " to " + std::to_string(kMost) +
                                ", found " + config::quote(field.text));
        fine = false;
      }
      values[c] = value.value_or(0);
    }
    if (!fine) return std::nullopt;
    return TraceJob{values[0], values[1], static_cast<std::uint32_t>(values[2]), line_, fields[places_[2]].column};
  }

 private:
  static constexpr std::array<std::string_view, 3> kColumns{"submission_time", "duration", "num_gpu"};
  static constexpr std::array<double, 3> kLeast{0, 0, 1};
  static constexpr std::uint64_t kMost = 1'000'000'000;

  void error(int column, std::string text) { diagnostics_.error({file_, line_, column}, std::move(text)); }

  const std::string& file_;
  config::Diagnostics& diagnostics_;
  std::array<std::size_t, 3> places_{};
  std::size_t columns_ = 0;
  int line_ = 1;
};

}  // namespace

std::vector<TraceJob> read_trace(std::string_view text, const std::string& file, std::size_t most,
                                 config::Diagnostics& diagnostics) {
  TraceReader reader(file, diagnostics);
  std::vector<TraceJob> jobs;
  bool first = true;
  while (!text.empty() && jobs.size() < most) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (std::exchange(first, false)) {
      if (!reader.header(line)) return {};
    } else if (const auto job = reader.job(line)) {
      jobs.push_back(*job);
    }
  }
  if (jobs.empty() && diagnostics.ok()) diagnostics.error({file, 1, 1}, "there is no job");
  std::stable_sort(jobs.begin(), jobs.end(),
                   [](const TraceJob& a, const TraceJob& b) { return a.submission_s < b.submission_s; });
  return jobs;
}

std::vector<std::uint32_t> trace1_sizes(std::size_t jobs, std::uint64_t seed) {
  constexpr std::array<std::pair<std::uint32_t, std::size_t>, 5> kPercent{
      {{8, 30}, {16, 60}, {32, 85}, {64, 95}, {128, 100}}};  // so many have this size or a smaller one
  std::vector<std::uint32_t> sizes;
  for (const auto& [size, percent] : kPercent) sizes.resize((jobs * percent + 50) / 100, size);
  Rng rng(seed);
  for (std::size_t i = sizes.size(); i > 1; --i) std::swap(sizes[i - 1], sizes[rng.below(i)]);
  return sizes;
}

Division division_of(std::uint32_t gpus) {
  Division d;
  while (d.tp < kMostTensor && gpus % (2 * d.tp) == 0) d.tp *= 2;
  d.dp = gpus / d.tp;
  return d;
}

double least_iteration_ns(const Model& model, const Division& division, double bytes_per_ns) {
  constexpr double kTooLong = 1e18;  // does not fit the times of a plan
  const double computing = compute_ns(model, division);
  if (!(computing < kTooLong)) return computing;
  const JobPlan plan = plan_of(model, division, 1);
  double ns = 0;
  for (const Phase& phase : plan.phases) {
    double most = 0;
    for (const Collective& c : phase.collectives) most = std::max(most, c.bytes * c.count);
    ns += static_cast<double>(phase.compute_ns);
    if (!phase.collectives.empty()) ns += std::max(1.0, most / bytes_per_ns);
  }
  return ns;
}

TimeNs iteration_alone(const ClusterOptions& options, const Model& model, const Division& division) {
  ClusterOptions rings = options;
  rings.policy = std::nullopt;
  Cluster cluster(rings, {{std::make_shared<const JobPlan>(plan_of(model, division, 1)), 0}});
  static_cast<void>(cluster.run({}));
  return cluster.results()[0].end_ns;
}

}  // namespace weft::flow
