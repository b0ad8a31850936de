// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/api/rpc_server.h"

#include <google/protobuf/stubs/logging.h>
#include <grpc/grpc.h>
#include <grpc/support/log.h>
#include <grpcpp/resource_quota.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_credentials_options.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <grpcpp/server_posix.h>
#include <spdlog/spdlog.h>

#include <chrono>
#include <limits>
#include <mutex>
#include <string_view>
#include <utility>

#include "switch/api/lock_order.h"
#include "switch/api/unix_listener.h"

namespace weft::api {

namespace {

constexpr int kMaxMetadataBytes = 8 * 1024;
constexpr int kMaxCallsPerConnection = 16;
constexpr std::size_t kQuotaBytes = std::size_t{64} * 1024 * 1024;

// After it, a connection takes no further calls; a client connects again and does not notice. The listener cuts those
// that do not end by themselves.
constexpr int kConnectionAgeMs = 30'000;
// For connections over TCP, gRPC does the listener's work: it cuts those that still live so long after, that do not
// finish their handshake, or whose client takes no data (the kernel's TCP_USER_TIMEOUT follows the keepalive's).
constexpr int kConnectionGraceMs = 30'000;
constexpr int kHandshakeMs = 5'000;
constexpr int kKeepaliveMs = 10'000;
constexpr int kKeepaliveAnswerMs = 5'000;
// How often the files of certificates are looked at.
constexpr unsigned kCertificatesS = 1;
// Otherwise a thread wakes up every ten seconds to find that nothing happened.
constexpr int kPollMs = std::numeric_limits<int>::max();

void set_limits(grpc::ServerBuilder& builder, const RpcLimits& limits) {
  grpc::ResourceQuota quota("weft");
  quota.Resize(kQuotaBytes);
  quota.SetMaxThreads(limits.threads);
  builder.SetResourceQuota(quota);
  builder.SetMaxReceiveMessageSize(limits.request_bytes);
  builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, kMaxMetadataBytes);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kMaxCallsPerConnection);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_AGE_MS, kConnectionAgeMs);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_AGE_GRACE_MS, kConnectionGraceMs);
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, kHandshakeMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveAnswerMs);
  // The window of a request is as large as gRPC makes it: a larger one would let clients fill more memory. So there is
  // nothing to be found out about the path, for which gRPC would ping with most requests.
  builder.AddChannelArgument(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  // A port that somebody uses is an error, not a port to share.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.SetSyncServerOption(grpc::ServerBuilder::NUM_CQS, 1);
  builder.SetSyncServerOption(grpc::ServerBuilder::MIN_POLLERS, 1);
  builder.SetSyncServerOption(grpc::ServerBuilder::MAX_POLLERS, 2);
  builder.SetSyncServerOption(grpc::ServerBuilder::CQ_TIMEOUT_MSEC, kPollMs);
}

// When its last user leaves, gRPC joins threads, one of which may still poll for ten seconds for a client that did not
// read. Whoever stops the service must not wait for it, so gRPC stays until the process ends.
void keep_grpc() {
  static const bool kept = (grpc_init(), true);
  static_cast<void>(kept);
}

// A client whose certificate is refused sees only the end of its connection. Whoever reaches the port can cause such
// lines, so there is at most one a second.
void log_refused_client(std::string_view why) {
  constexpr std::chrono::seconds kPause{1};
  static std::mutex mutex;
  static std::chrono::steady_clock::time_point next;
  static std::uint64_t untold = 0;
  const std::lock_guard lock(mutex);
  const auto now = std::chrono::steady_clock::now();
  if (now < next) {
    ++untold;
    return;
  }
  next = now + kPause;
  const std::string more = untold == 0 ? "" : fmt::format(", as {} before it", untold);
  spdlog::warn("control over TCP: a client is refused{}: {}", more, why);
  untold = 0;
}

// What gRPC says in its log (connections that speak no HTTP/2, mostly) concerns developers, but for failed handshakes:
// "Handshake failed with fatal error SSL_ERROR_SSL: error:0A000086:SSL routines::certificate verify failed."
void log_line_of_grpc(gpr_log_func_args* line) {
  const std::string_view text(line->message);
  spdlog::debug("grpc: {}", text);
  if (!text.starts_with("Handshake failed")) return;
  const std::size_t colons = text.rfind("::");
  std::string_view why = colons == text.npos ? text : text.substr(colons + 2);
  while (why.ends_with('.')) why.remove_suffix(1);
  log_refused_client(why);
}

// So does what protobuf says of requests that it cannot read: their senders are told.
void log_protobuf_at_debug(google::protobuf::LogLevel, const char*, int, const std::string& message) {
  spdlog::debug("protobuf: {}", message);
}

}  // namespace

struct RpcServer::Impl {
  // The only place that says where the service listens and who may connect.
  std::optional<std::string> open(const std::string& path) { return listener.open(path); }
  void serve() {
    listener.serve([this](int fd) { grpc::AddInsecureChannelFromFd(server.get(), fd); }, ListenerLimits{});
  }

  // The same for TCP. `port` is what gRPC will have chosen when the server starts.
  std::optional<std::string> open(const TcpAccess& tcp, grpc::ServerBuilder& builder) {
    config::TlsTexts texts;
    if (const auto mistakes = read_tls_files(tcp.files, texts); !mistakes.empty()) return mistakes.front().text;
    // Certificates expire: gRPC looks after the files from now on, and new connections get what they hold.
    const auto files = std::make_shared<grpc::experimental::FileWatcherCertificateProvider>(
        tcp.files.key, tcp.files.certificate, tcp.files.authority, kCertificatesS);
    grpc::experimental::TlsServerCredentialsOptions options(files);
    options.watch_root_certs();
    options.watch_identity_key_cert_pairs();
    options.set_cert_request_type(GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
    builder.AddListeningPort(text_of(tcp), grpc::experimental::TlsServerCredentials(options), &port);
    return std::nullopt;
  }
  static std::string text_of(const TcpAccess& tcp) {
    const bool v6 = tcp.address.find(':') != std::string::npos;
    return (v6 ? "[" + tcp.address + "]" : tcp.address) + ":" + std::to_string(tcp.port);
  }

  int port = 0;
  std::unique_ptr<grpc::Server> server;
  UnixListener listener;
  AsyncCalls* async = nullptr;
};

RpcServer::RpcServer() = default;
RpcServer::~RpcServer() {
  stop();
}

std::uint16_t RpcServer::tcp_port() const noexcept {
  return impl_ == nullptr ? 0 : static_cast<std::uint16_t>(impl_->port);
}

std::optional<std::string> RpcServer::start(const std::string& path, const std::optional<TcpAccess>& tcp,
                                            const RpcLimits& limits, grpc::Service& service, AsyncCalls* async) {
  stop();
  keep_grpc();
  ignore_lock_order();
  // Threads of the server log until it stops. What is made before a static server is destroyed after it.
  static_cast<void>(spdlog::default_logger());
  gpr_set_log_function(log_line_of_grpc);
  google::protobuf::SetLogHandler(log_protobuf_at_debug);
  auto impl = std::make_unique<Impl>();
  grpc::ServerBuilder builder;
  if (!path.empty()) {
    if (auto problem = impl->open(path)) return problem;
  }
  if (tcp) {
    if (auto problem = impl->open(*tcp, builder)) return problem;
  }
  set_limits(builder, limits);
  builder.RegisterService(&service);
  auto queue = async == nullptr ? nullptr : builder.AddCompletionQueue();
  impl->server = builder.BuildAndStart();
  if (impl->server == nullptr) {
    return tcp ? "cannot listen on " + Impl::text_of(*tcp) + "; is the port in use, or the address not this machine's?"
               : "gRPC did not start to serve " + path;
  }
  if (async != nullptr) async->begin(std::move(queue));
  impl->async = async;
  if (!path.empty()) impl->serve();
  impl_ = std::move(impl);
  return std::nullopt;
}

void RpcServer::stop(std::chrono::milliseconds grace) {
  if (impl_ == nullptr) return;
  impl_->listener.stop(grace);
  impl_->server->Shutdown(std::chrono::system_clock::now() + grace);
  if (impl_->async != nullptr) impl_->async->end();
  impl_.reset();
}

}  // namespace weft::api
