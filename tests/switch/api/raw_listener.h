// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// A unix socket that accepts and answers nothing, and what a dead process leaves: a socket file without a listener.
#pragma once

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string>

namespace weft::api {

/// A listening socket at `path`, which must be free; owned by the caller.
inline int listen_on(const std::string& path, int backlog = 8) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) std::abort();
  std::memcpy(address.sun_path, path.data(), path.size());
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) std::abort();
  if (listen(fd, backlog) != 0) std::abort();
  return fd;
}

inline void leave_stale_socket(const std::string& path) {
  close(listen_on(path));
}

}  // namespace weft::api
