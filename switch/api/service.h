// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// The control service of a running process: weft.proto over a unix socket.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "switch/api/backend.h"
#include "switch/api/caller.h"
#include "switch/api/rpc_server.h"

namespace weft::api {

/// Answers weft.control.v1 from a Backend. An idle service sleeps in the kernel; its threads inherit the CPU affinity
/// and the scheduling policy of the thread that calls start(), so call it from one that may use the control CPUs only.
class Service {
 public:
  Service();
  ~Service();  ///< stop() without grace
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  /// Listens on the unix socket `path` (at most 90 bytes) and answers from `backend`, which must outlive stop(). The
  /// socket has mode 0600: who may open it may do everything. An absent parent directory is made (0755); the socket of
  /// a process that died is replaced; one that answers, and a file that is no socket, stay and are errors. Returns the
  /// error as one sentence that names the path, or nothing when the service listens.
  /// An empty path: no unix socket.
  /// @param tcp        listens there too: TLS only, and only for clients whose certificate the authority has signed
  /// @param operators  which of these may do everything; others may run the verbs of which Backend::checks_peer() is
  ///                   true, and nothing else
  [[nodiscard]] std::optional<std::string> start(const std::string& path, Backend& backend,
                                                 const std::optional<TcpAccess>& tcp = std::nullopt,
                                                 const Operators& operators = std::nullopt);

  /// The TCP port that it listens on; 0 when on none.
  [[nodiscard]] std::uint16_t tcp_port() const noexcept;

  /// Refuses new calls at once, cancels those that still run after `grace`, and removes the socket. Returns when no
  /// call runs: a Backend call in progress is waited for. Does nothing when not started.
  void stop(std::chrono::milliseconds grace = std::chrono::milliseconds{0});

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace weft::api
