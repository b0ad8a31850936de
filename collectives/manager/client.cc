// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "collectives/manager/client.h"

#include <fcntl.h>
#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <sstream>
#include <system_error>
#include <utility>
#include <vector>

#include "collectives/manager/inc.grpc.pb.h"
#include "switch/api/channel.h"
#include "switch/api/unix_socket.h"

namespace weft::inc::manager {

namespace {

/// A manager that does not lead does not listen; a machine that is off does not even refuse.
constexpr std::chrono::milliseconds kConnectTime{500};

}  // namespace

struct Client::Impl {
  ~Impl() {
    if (watched >= 0) ::close(watched);
  }

  struct Place {
    std::string where;
    std::shared_ptr<grpc::Channel> channel;
    std::unique_ptr<v1::IncManager::Stub> stub;
  };

  void add(std::string where, std::shared_ptr<grpc::Channel> channel) {
    auto stub = v1::IncManager::NewStub(channel);
    places.push_back({std::move(where), std::move(channel), std::move(stub)});
  }

  template <class Method, class Request, class Reply>
  std::optional<std::string> call(Method method, const Request& request, Reply& reply) {
    std::optional<std::string> error;
    for (std::size_t i = 0; i < places.size(); ++i) {
      const bool last = i + 1 == places.size();
      const Place& place = places[current];
      if (last || place.channel->WaitForConnected(std::chrono::system_clock::now() + kConnectTime)) {
        error = call(place, method, request, reply);
        if (!unanswered) break;
      }
      if (!last) current = (current + 1) % places.size();
    }
    return error;
  }

  template <class Method, class Request, class Reply>
  std::optional<std::string> call(const Place& place, Method method, const Request& request, Reply& reply) {
    const std::string& where = place.where;
    const auto deadline = std::chrono::system_clock::now() + call_time;
    const grpc::Status status = api::call_until(
        deadline, [&](grpc::ClientContext& context) { return (place.stub.get()->*method)(&context, request, &reply); });
    unanswered = api::went_unanswered(status);
    switch (status.error_code()) {
      case grpc::StatusCode::OK:
        return std::nullopt;
      case grpc::StatusCode::DEADLINE_EXCEEDED:
        return "no answer on " + where + " within " + std::to_string(call_time.count()) + " ms";
      case grpc::StatusCode::UNAVAILABLE:
        return "cannot use " + where + ": " + status.error_message() + "; is weft-inc-manager running?";
      case grpc::StatusCode::CANCELLED:  // it was told to end, or has lost the lead
        return "cannot use " + where + ": weft-inc-manager ended before it answered";
      default:
        if (api::lacked_a_thread(status)) return where + " answers too many calls at once; try again";
        return status.error_message();
    }
  }

  bool unanswered = false;
  std::chrono::milliseconds call_time{};
  std::vector<Place> places;
  std::size_t current = 0;  ///< which of them is asked first
  int watched = -1;         ///< the unix socket once more: gRPC closes its own when it likes
};

Client::Client() = default;
Client::~Client() = default;

std::optional<std::string> Client::connect(const std::string& path, std::chrono::milliseconds call_time) {
  impl_.reset();
  const api::Connection connection = api::connect_unix(path, call_time);
  if (connection.fd < 0) {
    const std::string why =
        connection.error == ECONNREFUSED ? "nobody listens" : std::generic_category().message(connection.error);
    return "cannot reach " + path + ": " + why + "; is weft-inc-manager running?";
  }
  impl_ = std::make_unique<Impl>();
  impl_->call_time = call_time;
  impl_->watched = fcntl(connection.fd, F_DUPFD_CLOEXEC, 0);
  impl_->add(path, api::unix_channel(connection.fd));
  return std::nullopt;
}

std::optional<std::string> Client::connect_tls(const std::string& addresses, const config::TlsFiles& files,
                                               std::chrono::milliseconds call_time, std::size_t first) {
  impl_.reset();
  config::TlsTexts texts;
  if (const auto mistakes = config::read_tls_files(files, texts); !mistakes.empty()) return mistakes.front().text;
  impl_ = std::make_unique<Impl>();
  impl_->call_time = call_time;
  std::istringstream list(addresses);
  for (std::string address; std::getline(list, address, ',');) impl_->add(address, api::tls_channel(address, texts));
  if (impl_->places.empty()) return "expected HOST:PORT of a manager, found nothing";
  impl_->current = first % impl_->places.size();
  return std::nullopt;
}

void Client::set_call_time(std::chrono::milliseconds call_time) noexcept {
  if (impl_ != nullptr) impl_->call_time = call_time;
}

bool Client::is_open() const noexcept {
  if (impl_ == nullptr) return false;
  // Over TCP, gRPC connects again by itself.
  if (impl_->watched < 0) return true;
  pollfd socket{impl_->watched, POLLRDHUP, 0};
  return poll(&socket, 1, 0) == 0;
}

std::size_t Client::answered_by() const noexcept {
  return impl_ == nullptr ? 0 : impl_->current;
}

bool Client::unanswered() const noexcept {
  return impl_ == nullptr || impl_->unanswered;
}

std::optional<std::string> Client::create(const v1::CreateGroupRequest& request, v1::CreateGroupReply& reply) {
  return impl_->call(&v1::IncManager::Stub::CreateGroup, request, reply);
}

std::optional<std::string> Client::explain(const v1::CreateGroupRequest& request, v1::CreateGroupReply& reply) {
  return impl_->call(&v1::IncManager::Stub::ExplainGroup, request, reply);
}

std::optional<std::string> Client::renew(const v1::RenewLeaseRequest& request, v1::RenewLeaseReply& reply) {
  return impl_->call(&v1::IncManager::Stub::RenewLease, request, reply);
}

std::optional<std::string> Client::destroy(const v1::DestroyGroupRequest& request, v1::DestroyGroupReply& reply) {
  return impl_->call(&v1::IncManager::Stub::DestroyGroup, request, reply);
}

std::optional<std::string> Client::groups(v1::ListGroupsReply& reply) {
  return impl_->call(&v1::IncManager::Stub::ListGroups, v1::ListGroupsRequest(), reply);
}

std::optional<std::string> Client::topology(v1::ShowTopologyReply& reply) {
  return impl_->call(&v1::IncManager::Stub::ShowTopology, v1::ShowTopologyRequest(), reply);
}

std::optional<std::string> Client::activity(v1::ShowActivityReply& reply) {
  return impl_->call(&v1::IncManager::Stub::ShowActivity, v1::ShowActivityRequest(), reply);
}

std::optional<std::string> Client::why_ended(const v1::WhyEndedRequest& request, v1::WhyEndedReply& reply) {
  return impl_->call(&v1::IncManager::Stub::WhyEnded, request, reply);
}

std::optional<std::string> Client::report(const v1::ReportNeighboursRequest& request,
                                          v1::ReportNeighboursReply& reply) {
  return impl_->call(&v1::IncManager::Stub::ReportNeighbours, request, reply);
}

}  // namespace weft::inc::manager
