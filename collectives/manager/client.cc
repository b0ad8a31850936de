// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "collectives/manager/client.h"

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "collectives/manager/inc.grpc.pb.h"
#include "switch/api/channel.h"
#include "switch/api/unix_socket.h"

namespace weft::inc::manager {

struct Client::Impl {
  template <class Method, class Request, class Reply>
  std::optional<std::string> call(Method method, const Request& request, Reply& reply) {
    const auto deadline = std::chrono::system_clock::now() + call_time;
    const grpc::Status status = api::call_until(
        deadline, [&](grpc::ClientContext& context) { return (stub.get()->*method)(&context, request, &reply); });
    unanswered = status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED ||
                 status.error_code() == grpc::StatusCode::UNAVAILABLE;
    switch (status.error_code()) {
      case grpc::StatusCode::OK:
        return std::nullopt;
      case grpc::StatusCode::DEADLINE_EXCEEDED:
        return "no answer on " + where + " within " + std::to_string(call_time.count()) + " ms";
      case grpc::StatusCode::UNAVAILABLE:
        return "cannot use " + where + ": " + status.error_message() + "; is weft-inc-manager running?";
      default:
        if (api::lacked_a_thread(status)) return where + " answers too many calls at once; try again";
        return status.error_message();
    }
  }

  bool unanswered = false;
  std::string where;
  std::chrono::milliseconds call_time{};
  std::shared_ptr<grpc::Channel> channel;
  std::unique_ptr<v1::IncManager::Stub> stub;
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
  impl_->where = path;
  impl_->call_time = call_time;
  impl_->channel = api::unix_channel(connection.fd);
  impl_->stub = v1::IncManager::NewStub(impl_->channel);
  return std::nullopt;
}

std::optional<std::string> Client::connect_tls(const std::string& address, const config::TlsFiles& files,
                                               std::chrono::milliseconds call_time) {
  impl_.reset();
  config::TlsTexts texts;
  if (const auto mistakes = config::read_tls_files(files, texts); !mistakes.empty()) return mistakes.front().text;
  impl_ = std::make_unique<Impl>();
  impl_->where = address;
  impl_->call_time = call_time;
  impl_->channel = api::tls_channel(address, texts);
  impl_->stub = v1::IncManager::NewStub(impl_->channel);
  return std::nullopt;
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

std::optional<std::string> Client::report(const v1::ReportNeighboursRequest& request,
                                          v1::ReportNeighboursReply& reply) {
  return impl_->call(&v1::IncManager::Stub::ReportNeighbours, request, reply);
}

}  // namespace weft::inc::manager
