// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Metrics over HTTP, as Prometheus asks for them.
#pragma once

#include <prometheus/metric_family.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace weft {

/// Answers GET /metrics with what a function gives, on threads of its own, which inherit the CPU affinity of whoever
/// calls start(). There is no authentication: who can reach the address can read.
class MetricsEndpoint {
 public:
  using Source = std::function<std::vector<prometheus::MetricFamily>()>;

  MetricsEndpoint();
  ~MetricsEndpoint();  ///< stop()
  MetricsEndpoint(const MetricsEndpoint&) = delete;
  MetricsEndpoint& operator=(const MetricsEndpoint&) = delete;

  /// Listens on an IPv4 or IPv6 address; port 0 takes a free one. `source` is called on other threads, perhaps several
  /// at once, until stop() returns. Returns the error as a sentence, or "".
  [[nodiscard]] std::string start(const std::string& address, std::uint16_t port, Source source);
  void stop();

  /// Where it answers, as http://127.0.0.1:9795/metrics; "" when it does not.
  [[nodiscard]] const std::string& url() const noexcept { return url_; }

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
  std::string url_;
};

}  // namespace weft
