// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/api/service.h"

#include <utility>

#include "switch/api/handler.h"

namespace weft::api {
namespace {

// Requests are a few names; what is larger is no request of ours.
constexpr RpcLimits kLimits{.request_bytes = 64 * 1024, .threads = 8};

}  // namespace

struct Service::Impl {
  Impl(Backend& backend, const Operators& operators) : handler(make_handler(backend, operators)) {}

  Handler handler;
  RpcServer server;
};

Service::Service() = default;
Service::~Service() {
  stop();
}

std::uint16_t Service::tcp_port() const noexcept {
  return impl_ == nullptr ? 0 : impl_->server.tcp_port();
}

std::optional<std::string> Service::start(const std::string& path, Backend& backend,
                                          const std::optional<api::TcpAccess>& tcp, const Operators& operators) {
  stop();
  auto impl = std::make_unique<Impl>(backend, operators);
  if (auto problem = impl->server.start(path, tcp, kLimits, *impl->handler.service, impl->handler.streams))
    return problem;
  impl_ = std::move(impl);
  return std::nullopt;
}

void Service::stop(std::chrono::milliseconds grace) {
  if (impl_ == nullptr) return;
  impl_->server.stop(grace);
  impl_.reset();
}

}  // namespace weft::api
