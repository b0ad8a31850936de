// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/observe/latency.h"

#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace weft {
namespace {

using nlohmann::ordered_json;
using pipeline::PortInfo;
using pipeline::Residence;
using Buckets = Residence::Buckets;

constexpr double kNsPerS = 1e9;
// The histogram for Prometheus has a bucket for each power of two between these, in ns.
constexpr unsigned kFirstBound = 8, kLastBound = 34;

// What all workers have seen of one queue.
struct Stayed {
  std::array<std::uint64_t, Buckets::kCount> counts{};
  std::uint64_t total = 0, sum_ns = 0;
};

Stayed stayed_in(const RunningSwitch& s, pipeline::PortIndex port, unsigned queue) {
  Stayed sum;
  for (const auto& p : s.pipelines) {
    const Residence* residence = p->residence(port, queue);
    if (residence == nullptr) continue;
    sum.sum_ns += residence->sum_ns();
    for (std::size_t b = 0; b < Buckets::kCount; ++b) {
      const std::uint64_t count = residence->count(b);
      sum.counts[b] += count;
      sum.total += count;
    }
  }
  return sum;
}

template <typename Visit>
void for_each_queue(const RunningSwitch& s, Visit&& visit) {
  const unsigned queues = s.state.info().qos ? qos::kClasses : 1;
  for (const PortInfo& port : s.state.info().ports) {
    for (unsigned queue = 0; queue < queues; ++queue) {
      const Stayed sum = stayed_in(s, port.index, queue);
      if (sum.total != 0) visit(port, queue, sum);
    }
  }
}

}  // namespace

ordered_json latency_rows(const RunningSwitch& s) {
  ordered_json rows = ordered_json::array();
  for_each_queue(s, [&](const PortInfo& port, unsigned queue, const Stayed& sum) {
    rows.push_back({{"port", port.name},
                    {"queue", queue},
                    {"samples", sum.total},
                    {"sum_ns", sum.sum_ns},
                    {"buckets", sum.counts}});
    compute_latency(rows.back());
  });
  return rows;
}

void compute_latency(ordered_json& row) {
  const auto counts = row.at("buckets").get<std::vector<std::uint64_t>>();
  const auto samples = row.at("samples").get<std::uint64_t>(), sum_ns = row.at("sum_ns").get<std::uint64_t>();
  const auto us = [](double ns) { return std::round(ns / 10) / 100; };
  const auto quantile = [&](double share) {
    const auto count_of = [&](std::size_t bucket) { return counts[bucket]; };
    return us(static_cast<double>(Buckets::quantile(count_of, samples, share, Buckets::upper(Buckets::kCount - 1))));
  };
  row["mean_us"] = samples == 0 ? 0.0 : us(static_cast<double>(sum_ns) / static_cast<double>(samples));
  row["p50_us"] = quantile(0.5);
  row["p99_us"] = quantile(0.99);
  row["p999_us"] = quantile(0.999);
  row["max_us"] = quantile(1);
}

void add_latency(MetricFamilies& out, const RunningSwitch& s) {
  for_each_queue(s, [&](const PortInfo& port, unsigned queue, const Stayed& sum) {
    std::vector<prometheus::ClientMetric::Bucket> bounds;
    std::uint64_t below = 0;
    std::size_t bucket = 0;
    for (unsigned bit = kFirstBound; bit <= kLastBound; ++bit) {
      for (; Buckets::upper(bucket) < std::uint64_t{1} << bit; ++bucket) below += sum.counts[bucket];
      bounds.push_back({below, static_cast<double>(std::uint64_t{1} << bit) / kNsPerS});
    }
    out.histogram("weft_port_residence_seconds",
                  "Time in the switch of packets of one transmitted burst in " +
                      std::to_string(Residence::kSampleEvery) + ", by egress queue.",
                  {{"switch", s.state.info().name}, {"port", port.name}, {"queue", std::to_string(queue)}},
                  std::move(bounds), sum.total, static_cast<double>(sum.sum_ns) / kNsPerS);
  });
}

}  // namespace weft
