// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Unix stream sockets as both ends of the control service need them. Knows nothing of gRPC.
#pragma once

#include <sys/socket.h>
#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>

namespace weft::api {

/// Longest path of a control socket in bytes. The kernel allows 107; a listener is bound under a longer, temporary
/// name.
inline constexpr std::size_t kMaxSocketPath = 90;

/// A connected socket, or why there is none.
struct Connection {
  int fd = -1;    ///< owned by the caller; non-blocking, close-on-exec
  int error = 0;  ///< errno when fd is -1
};

/// Connects to `path`; waits up to `patience` for a listener whose backlog is full.
/// @param type  SOCK_STREAM, as ours are, or SOCK_SEQPACKET
[[nodiscard]] Connection connect_unix(const std::string& path, std::chrono::milliseconds patience,
                                      int type = SOCK_STREAM);

/// A socket bound to `path`, which must not exist; owned by the caller, non-blocking, close-on-exec. -1 and errno when
/// that fails.
[[nodiscard]] int bind_unix(const std::string& path);

/// A socket file under its final name, which appears at once with its final mode and is removed when the object goes.
/// Between the constructor and publish() the listener belongs to private_path(), in a directory of mode 0700 beside the
/// final one, so nobody can connect before the mode is right.
class SocketFile {
 public:
  SocketFile() = default;
  ~SocketFile();
  SocketFile(const SocketFile&) = delete;
  SocketFile& operator=(const SocketFile&) = delete;

  /// Makes the parent directory when absent, and the private one. A socket at `path` that nobody answers is removed; an
  /// answered one and any other file are errors. Returns the error as a sentence that names the path, or nothing.
  [[nodiscard]] std::optional<std::string> prepare(const std::string& path);

  /// Where to bind. Valid after prepare().
  [[nodiscard]] std::string private_path() const { return directory_ + "/s"; }

  /// Sets mode 0600 and moves the socket to its final name.
  [[nodiscard]] std::optional<std::string> publish();

  /// Removes the file, unless another one has taken its name.
  void remove();

 private:
  std::string path_;
  std::string directory_;
  bool published_ = false;
  dev_t device_ = 0;
  ino_t inode_ = 0;
};

}  // namespace weft::api
