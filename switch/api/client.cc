// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/api/client.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/create_channel_posix.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/support/channel_arguments.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "switch/api/client_impl.h"
#include "switch/api/unix_socket.h"
#include "switch/api/weft.grpc.pb.h"

namespace weft::api {
namespace {

using Kind = CallError::Kind;

CallError unreachable(const std::string& path, int error) {
  if (error == EACCES || error == EPERM) {
    return {Kind::unreachable,
            "cannot open " + path + ": permission denied; only the user who runs weft-switch, and root, may"};
  }
  const std::string why = error == ECONNREFUSED ? "nobody listens" : std::generic_category().message(error);
  return {Kind::unreachable, "cannot reach " + path + ": " + why + "; is weft-switch running?"};
}

ReloadResult result_of(const v1::ChangesReply& reply) {
  ReloadResult result;
  for (const auto& row : reply.changes_json()) {
    result.changes.push_back(nlohmann::ordered_json::parse(row, nullptr, false));
  }
  result.mistakes.assign(reply.mistakes().begin(), reply.mistakes().end());
  result.notes.assign(reply.notes().begin(), reply.notes().end());
  result.applied = reply.applied();
  return result;
}

}  // namespace

// gRPC's server queues no call: while all its threads are busy, as when a client breaks off a thousand calls at once,
// it refuses those of others with this status, before the service sees them. Its text alone tells it from our refusals.
bool Client::Impl::lacked_a_thread(const grpc::Status& status) {
  return status.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED &&
         status.error_message() == "Server Threadpool Exhausted";
}

std::optional<CallError> Client::Impl::to_error(const grpc::Status& status) const {
  switch (status.error_code()) {
    case grpc::StatusCode::OK:
      return std::nullopt;
    case grpc::StatusCode::DEADLINE_EXCEEDED:
      return CallError{Kind::unreachable, "no answer on " + path + " within " + std::to_string(call_time.count()) +
                                              " ms; is weft-switch running?"};
    case grpc::StatusCode::UNAVAILABLE:
      if (tls) return CallError{Kind::unreachable, "cannot use " + path + ": " + status.error_message()};
      [[fallthrough]];
    case grpc::StatusCode::CANCELLED:
      return CallError{Kind::unreachable, "the connection to " + path + " broke; is weft-switch running?"};
    case grpc::StatusCode::UNIMPLEMENTED:
      return CallError{Kind::refused, "the process on " + path + " does not know this request: another version?"};
    case grpc::StatusCode::RESOURCE_EXHAUSTED:
      if (lacked_a_thread(status)) {
        return CallError{Kind::refused, "the process on " + path + " answers too many calls at once; try again"};
      }
      [[fallthrough]];
    default:
      return CallError{Kind::refused, status.error_message()};
  }
}

Client::Client() = default;
Client::~Client() = default;

std::optional<CallError> Client::connect(const std::string& path, std::chrono::milliseconds call_time) {
  impl_.reset();
  const Connection connection = connect_unix(path, call_time);
  if (connection.fd < 0) return unreachable(path, connection.error);
  auto impl = std::make_unique<Impl>();
  impl->path = path;
  impl->call_time = call_time;
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);
  // Our own connect() knows why it failed; a channel that connects by itself knows only that it did.
  impl->channel = grpc::CreateCustomInsecureChannelFromFd("weft", connection.fd, arguments);
  impl->stub = v1::Control::NewStub(impl->channel);
  impl_ = std::move(impl);
  return std::nullopt;
}

std::optional<CallError> Client::connect_tls(const std::string& address, const config::TlsFiles& files,
                                             std::chrono::milliseconds call_time) {
  impl_.reset();
  config::TlsTexts texts;
  if (const auto mistakes = config::read_tls_files(files, texts); !mistakes.empty()) {
    return CallError{Kind::unreachable, mistakes.front().text};
  }
  auto impl = std::make_unique<Impl>();
  impl->path = address;
  impl->tls = true;
  impl->call_time = call_time;
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  const auto credentials = grpc::SslCredentials({texts.authority, texts.key, texts.certificate});
  impl->channel = grpc::CreateCustomChannel("dns:///" + address, credentials, arguments);
  impl->stub = v1::Control::NewStub(impl->channel);
  impl_ = std::move(impl);
  return std::nullopt;
}

std::optional<CallError> Client::about(ProcessInfo& info) {
  v1::AboutReply reply;
  if (auto error = impl_->call([&](auto& context) { return impl_->stub->About(&context, {}, &reply); })) return error;
  info.facts = nlohmann::ordered_json::parse(reply.facts_json(), nullptr, false);
  info.switches.assign(reply.switches().begin(), reply.switches().end());
  if (!info.facts.is_object()) return CallError{Kind::refused, "the process on " + impl_->path + " answers no JSON"};
  return std::nullopt;
}

std::optional<CallError> Client::tables(std::vector<TableInfo>& tables) {
  v1::ListTablesReply reply;
  if (auto error = impl_->call([&](auto& context) { return impl_->stub->ListTables(&context, {}, &reply); }))
    return error;
  tables.clear();
  for (const auto& table : reply.tables()) tables.push_back({table.name(), table.summary()});
  return std::nullopt;
}

std::optional<CallError> Client::diff(const std::string& path, ReloadResult& result) {
  v1::DiffRequest request;
  request.set_path(path);
  v1::ChangesReply reply;
  if (auto error = impl_->call([&](auto& context) { return impl_->stub->Diff(&context, request, &reply); }))
    return error;
  result = result_of(reply);
  return std::nullopt;
}

std::optional<CallError> Client::reload(ReloadResult& result) {
  v1::ChangesReply reply;
  if (auto error = impl_->call([&](auto& context) { return impl_->stub->Reload(&context, {}, &reply); })) return error;
  result = result_of(reply);
  return std::nullopt;
}

std::optional<CallError> Client::show(const Question& question,
                                      const std::function<void(const std::string& row_json)>& on_row,
                                      ShowSummary& summary) {
  v1::ShowRequest request;
  request.set_table(question.table);
  request.set_switch_name(question.switch_name);
  request.set_max_rows(question.max_rows);
  summary = {};
  return impl_->call([&](auto& context) {
    const auto reader = impl_->stub->Show(&context, request);
    v1::ShowReply reply;
    while (reader->Read(&reply)) {
      for (const auto& row : reply.rows_json()) on_row(row);
      for (const auto& name : reply.switches()) summary.switches.push_back(name);
      summary.truncated = reply.truncated();
    }
    return reader->Finish();
  });
}

}  // namespace weft::api
