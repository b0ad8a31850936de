// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#pragma once

#include <sys/socket.h>
#include <sys/un.h>

#include <string>

namespace weft {

/// Writes the address of a unix socket.
/// @return false when there is no such address: a path has 1 to 107 bytes
[[nodiscard]] inline bool write_unix_address(const std::string& path, sockaddr_un& out) noexcept {
  out = {};
  out.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof out.sun_path) return false;
  path.copy(out.sun_path, path.size());
  return true;
}

}  // namespace weft
