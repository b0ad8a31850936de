// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Accepts connections on a unix socket and can end every one of them, whatever its user does. gRPC's own listener
// cannot: while a peer does not read, a transport waits for its write, and neither a deadline, nor a ping, nor the
// shutdown of the server ends it.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "switch/api/unix_socket.h"

namespace weft::api {

/// What a listener allows.
struct ListenerLimits {
  std::chrono::milliseconds connection_age{60'000};  ///< then a connection is cut
  std::size_t connections = 256;                     ///< at the same time; further ones are closed at once
};

/// A listening socket and one thread, which sleeps while nothing happens.
class UnixListener {
 public:
  UnixListener() = default;
  ~UnixListener();  ///< stop() without grace
  UnixListener(const UnixListener&) = delete;
  UnixListener& operator=(const UnixListener&) = delete;

  /// Listens on `path` as SocketFile describes. Returns the error as a sentence that names the path, or nothing.
  [[nodiscard]] std::optional<std::string> open(const std::string& path);

  /// Starts to accept. `on_connection` gets a connected, non-blocking socket, which it owns, on the listener's thread.
  /// Once per open().
  void serve(std::function<void(int fd)> on_connection, const ListenerLimits& limits);

  /// Accepts no more: when it returns, on_connection does not run and will not. Removes the socket file. Connections
  /// that still live are cut after `grace`, in the background. May be called when not open.
  void stop(std::chrono::milliseconds grace);

 private:
  using Clock = std::chrono::steady_clock;

  struct Connection {
    int fd;  // shares the connection with the one that was given away, which may be closed at any time
    Clock::time_point end;
  };

  void run();
  void accept_one();
  void reap(const std::vector<bool>& hung_up);
  [[nodiscard]] int milliseconds_to_next_end() const;
  void wake() const;

  SocketFile file_;
  int listener_ = -1;
  int wake_ = -1;
  ListenerLimits limits_;
  std::function<void(int fd)> on_connection_;
  std::vector<Connection> connections_;  // of the thread
  bool out_of_descriptors_ = false;      // of the thread: accepting again at once would spin

  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Clock::time_point> stop_at_;  // set: stop() was called; when to cut
  bool accepting_ = false;
  std::thread thread_;
};

}  // namespace weft::api
