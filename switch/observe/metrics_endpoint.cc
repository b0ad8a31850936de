// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/observe/metrics_endpoint.h"

#include <prometheus/collectable.h>
#include <prometheus/exposer.h>

#include <exception>
#include <utility>

namespace weft {
namespace {

// A scraper or two at a time. One that does not finish its request in time makes room for others.
constexpr const char* kThreads = "2";
constexpr const char* kRequestTimeoutMs = "2000";

class Collected : public prometheus::Collectable {
 public:
  explicit Collected(MetricsEndpoint::Source source) : source_(std::move(source)) {}
  [[nodiscard]] std::vector<prometheus::MetricFamily> Collect() const override { return source_(); }

 private:
  MetricsEndpoint::Source source_;
};

std::string host_text(const std::string& address) {
  return address.find(':') == std::string::npos ? address : "[" + address + "]";
}

}  // namespace

struct MetricsEndpoint::Impl {
  std::shared_ptr<Collected> collected;
  std::unique_ptr<prometheus::Exposer> exposer;
};

MetricsEndpoint::MetricsEndpoint() = default;
MetricsEndpoint::~MetricsEndpoint() {
  stop();
}

std::string MetricsEndpoint::start(const std::string& address, std::uint16_t port, Source source) {
  const std::string host = host_text(address);
  const std::string where = host + ":" + std::to_string(port);
  auto impl = std::make_unique<Impl>();
  impl->collected = std::make_shared<Collected>(std::move(source));
  try {
    impl->exposer = std::make_unique<prometheus::Exposer>(std::vector<std::string>{
        "listening_ports", where, "num_threads", kThreads, "request_timeout_ms", kRequestTimeoutMs});
  } catch (const std::exception&) {
    return "cannot listen on " + where + " for metrics; is the port in use, or the address not this machine's?";
  }
  impl->exposer->RegisterCollectable(impl->collected);
  url_ = "http://" + host + ":" + std::to_string(impl->exposer->GetListeningPorts().front()) + "/metrics";
  impl_ = std::move(impl);
  return "";
}

void MetricsEndpoint::stop() {
  impl_.reset();
  url_.clear();
}

}  // namespace weft
