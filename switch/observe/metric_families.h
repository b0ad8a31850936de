// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#pragma once

#include <prometheus/metric_family.h>

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace weft {

using MetricLabels = std::vector<prometheus::ClientMetric::Label>;

/// Families in the order in which they were first named; each holds its samples of all switches together, as the
/// exposition format asks.
class MetricFamilies {
 public:
  void counter(const std::string& name, const std::string& help, const MetricLabels& labels, std::uint64_t value) {
    prometheus::ClientMetric metric;
    metric.label = labels;
    metric.counter.value = static_cast<double>(value);
    family(name, help, prometheus::MetricType::Counter).metric.push_back(std::move(metric));
  }
  void seconds(const std::string& name, const std::string& help, const MetricLabels& labels, double value) {
    prometheus::ClientMetric metric;
    metric.label = labels;
    metric.counter.value = value;
    family(name, help, prometheus::MetricType::Counter).metric.push_back(std::move(metric));
  }
  void gauge(const std::string& name, const std::string& help, const MetricLabels& labels, double value) {
    prometheus::ClientMetric metric;
    metric.label = labels;
    metric.gauge.value = value;
    family(name, help, prometheus::MetricType::Gauge).metric.push_back(std::move(metric));
  }
  /// @param buckets  cumulative, without the one of +Inf
  void histogram(const std::string& name, const std::string& help, const MetricLabels& labels,
                 std::vector<prometheus::ClientMetric::Bucket> buckets, std::uint64_t count, double sum) {
    prometheus::ClientMetric metric;
    metric.label = labels;
    metric.histogram.bucket = std::move(buckets);
    metric.histogram.sample_count = count;
    metric.histogram.sample_sum = sum;
    family(name, help, prometheus::MetricType::Histogram).metric.push_back(std::move(metric));
  }
  [[nodiscard]] std::vector<prometheus::MetricFamily> take() { return std::move(families_); }

 private:
  prometheus::MetricFamily& family(const std::string& name, const std::string& help, prometheus::MetricType type) {
    const auto [found, inserted] = index_.emplace(name, families_.size());
    if (inserted) {
      families_.push_back({name, help, type, {}});
    }
    return families_[found->second];
  }

  std::map<std::string, std::size_t> index_;
  std::vector<prometheus::MetricFamily> families_;
};

}  // namespace weft
