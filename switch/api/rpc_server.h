// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// A server of one gRPC service on a unix socket, and over TCP with certificates on both sides, with the limits that
// keep clients from exhausting the process.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "switch/config/tls_files.h"

namespace grpc {
class ServerCompletionQueue;
class Service;
}  // namespace grpc

namespace weft::api {

/// Where to listen for clients with certificates.
struct TcpAccess {
  std::string address;
  std::uint16_t port = 0;  ///< 0: a free one
  config::TlsFiles files;  ///< whoever has a certificate of the authority may do everything
};

struct RpcLimits {
  int request_bytes = 64 * 1024;  ///< of the largest request
  int threads = 8;                ///< calls that run at the same time
};

/// Calls of a service that hold no thread of the server while they wait.
class AsyncCalls {
 public:
  virtual ~AsyncCalls() = default;
  /// The server is up: from now on it hands over calls by `queue`.
  virtual void begin(std::unique_ptr<grpc::ServerCompletionQueue> queue) = 0;
  /// The server is down, and has ended the calls. Returns when nothing uses the queue any more.
  virtual void end() = 0;
};

/// An idle server sleeps in the kernel; its threads inherit the CPU affinity and the scheduling policy of the thread
/// that calls start().
class RpcServer {
 public:
  RpcServer();
  ~RpcServer();  ///< stop() without grace
  RpcServer(const RpcServer&) = delete;
  RpcServer& operator=(const RpcServer&) = delete;

  /// Listens on the unix socket `path` (at most 90 bytes; empty: none) and answers from `service`, which must outlive
  /// stop(). The socket has mode 0600: who may open it may do everything. An absent parent directory is made (0755);
  /// the socket of a process that died is replaced; one that answers, and a file that is no socket, stay and are
  /// errors. Returns the error as one sentence that names the path, or nothing when the service listens.
  /// @param tcp    listens there too: TLS only, and only for clients whose certificate the authority has signed
  /// @param async  calls of `service` that are not made by threads of the server; nullptr: it has none. Must outlive
  ///               stop(), too
  [[nodiscard]] std::optional<std::string> start(const std::string& path, const std::optional<TcpAccess>& tcp,
                                                 const RpcLimits& limits, grpc::Service& service,
                                                 AsyncCalls* async = nullptr);
  /// The TCP port that it listens on; 0 when on none.
  [[nodiscard]] std::uint16_t tcp_port() const noexcept;

  /// Refuses new calls at once, cancels those that still run after `grace`, and removes the socket. Returns when no
  /// call runs: one in progress is waited for. Does nothing when not started.
  void stop(std::chrono::milliseconds grace = std::chrono::milliseconds{0});

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace weft::api
