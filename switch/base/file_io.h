// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// What write(2) and close(2) leave to their callers. For files that a person asked for: a full disk is noticed.
#pragma once

#include <unistd.h>

#include <cerrno>
#include <string_view>

namespace weft {

/// Writes all of `text`, however little each write(2) takes. False with errno.
inline bool write_all(int file, std::string_view text) noexcept {
  while (!text.empty()) {
    const ssize_t written = ::write(file, text.data(), text.size());
    if (written < 0 && errno != EINTR) return false;
    if (written > 0) text.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

/// Closes a file. False when this fails (it may be when a full disk is noticed), or when what came before was not
/// `fine`; errno is of the first failure.
inline bool close_after(int file, bool fine) noexcept {
  const int error = errno;
  const bool closed = ::close(file) == 0;
  if (!fine) errno = error;
  return fine && closed;
}

}  // namespace weft
