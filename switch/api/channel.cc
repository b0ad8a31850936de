// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/api/channel.h"

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/create_channel_posix.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/support/channel_arguments.h>
#include <grpcpp/support/status.h>

#include <algorithm>
#include <thread>

#include "switch/api/lock_order.h"

namespace weft::api {
namespace {

/// Bytes of an answer that a service may send before the client has read any.
constexpr int kStreamWindow = 1 << 20;

grpc::ChannelArguments common_arguments() {
  ignore_lock_order();
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);
  // gRPC would ping with most answers to find out how large a window the path needs. One that is large enough for all
  // of them costs nothing.
  arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  arguments.SetInt(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, kStreamWindow);
  return arguments;
}

std::shared_ptr<grpc::Channel> to_address(const std::string& address,
                                          const std::shared_ptr<grpc::ChannelCredentials>& credentials) {
  grpc::ChannelArguments arguments = common_arguments();
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  // A service that is back is found soon: usually gRPC waits up to two minutes. Its "minimum backoff" stays, because
  // that is how long one handshake may take.
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000);
  return grpc::CreateCustomChannel("dns:///" + address, credentials, arguments);
}

}  // namespace

std::shared_ptr<grpc::Channel> unix_channel(int fd) {
  return grpc::CreateCustomInsecureChannelFromFd("weft", fd, common_arguments());
}

std::shared_ptr<grpc::Channel> tls_channel(const std::string& address, const config::TlsTexts& texts) {
  return to_address(address, grpc::SslCredentials({texts.authority, texts.key, texts.certificate}));
}

std::shared_ptr<grpc::Channel> plain_channel(const std::string& address) {
  return to_address(address, grpc::InsecureChannelCredentials());
}

// While all threads are busy, as when a client breaks off a thousand calls at once, gRPC's server refuses those of
// others with this status, before the service sees them. Its text alone tells it from our refusals.
bool lacked_a_thread(const grpc::Status& status) {
  return status.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED &&
         status.error_message() == "Server Threadpool Exhausted";
}

bool went_unanswered(const grpc::Status& status) {
  const grpc::StatusCode code = status.error_code();
  return code == grpc::StatusCode::UNAVAILABLE || code == grpc::StatusCode::DEADLINE_EXCEEDED ||
         code == grpc::StatusCode::CANCELLED;
}

grpc::Status call_until(std::chrono::system_clock::time_point deadline,
                        const std::function<grpc::Status(grpc::ClientContext&)>& body) {
  for (auto pause = kFirstPause;; pause = std::min(2 * pause, kLongestPause)) {
    grpc::ClientContext context;
    context.set_deadline(deadline);
    grpc::Status status = body(context);
    if (!lacked_a_thread(status) || std::chrono::system_clock::now() + pause >= deadline) return status;
    std::this_thread::sleep_for(pause);
  }
}

}  // namespace weft::api
