// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/observe/metrics_endpoint.h"

#include <netdb.h>
#include <prometheus/collectable.h>
#include <prometheus/exposer.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <exception>
#include <thread>
#include <utility>

namespace weft {
namespace {

// Each connection has a thread until its request ends, so that many idle connections are needed to make a scraper wait.
constexpr const char* kThreads = "16";
constexpr const char* kRequestTimeoutMs = "2000";
constexpr std::chrono::milliseconds kBetweenWakes{10};

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

// Connects and hangs up.
void touch(const std::string& address, std::uint16_t port) {
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* to = nullptr;
  if (getaddrinfo(address.c_str(), std::to_string(port).c_str(), &hints, &to) != 0) return;
  const int fd = socket(to->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd >= 0) {
    static_cast<void>(connect(fd, to->ai_addr, to->ai_addrlen));
    close(fd);
  }
  freeaddrinfo(to);
}

}  // namespace

struct MetricsEndpoint::Impl {
  std::shared_ptr<prometheus::Collectable> collected;
  std::unique_ptr<prometheus::Exposer> exposer;
  std::string address;
  std::uint16_t port = 0;
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
  impl->address = address;
  impl->port = static_cast<std::uint16_t>(impl->exposer->GetListeningPorts().front());
  url_ = "http://" + host + ":" + std::to_string(impl->port) + "/metrics";
  impl_ = std::move(impl);
  return "";
}

// The library's thread waits for connections, up to two seconds, before it sees that it shall end: one wakes it.
void MetricsEndpoint::stop() {
  if (impl_ == nullptr) return;
  const std::string address = impl_->address;
  const std::uint16_t port = impl_->port;
  std::atomic<bool> ended{false};
  std::thread ending([&] {
    impl_.reset();
    ended = true;
  });
  while (!ended) {
    std::this_thread::sleep_for(kBetweenWakes);
    touch(address, port);
  }
  ending.join();
  url_.clear();
}

}  // namespace weft
