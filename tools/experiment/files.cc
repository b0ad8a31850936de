// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "tools/experiment/files.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "switch/base/file_io.h"

namespace weft::experiment {

std::optional<std::string> read_text(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return std::nullopt;
  std::string text;
  std::array<char, 1 << 16> part;
  ssize_t got = 0;
  do {
    got = ::read(file, part.data(), part.size());
    if (got > 0) text.append(part.data(), static_cast<std::size_t>(got));
  } while (got > 0 || (got < 0 && errno == EINTR));
  if (!close_after(file, got == 0)) return std::nullopt;
  return text;
}

}  // namespace weft::experiment
