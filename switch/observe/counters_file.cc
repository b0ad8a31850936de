// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/observe/counters_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "switch/base/file_io.h"

namespace weft {

CountersFile::CountersFile(std::string path) : path_(std::move(path)) {
  std::error_code error;
  const std::filesystem::path target = std::filesystem::weakly_canonical(path_, error);
  target_ = error ? path_ : target.string();
  in_place_ = std::filesystem::exists(target_, error) && !std::filesystem::is_regular_file(target_, error);
  staged_ = in_place_ ? target_ : target_ + "." + std::to_string(getpid());
}

std::string CountersFile::failure() const {
  return "cannot write " + path_ + ": " + std::strerror(errno);
}

std::string CountersFile::probe() const {
  // Opening a pipe would wait for its reader, and closing it would end that one.
  if (in_place_) return ::access(target_.c_str(), W_OK) == 0 ? "" : failure();
  const int file = ::open(staged_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (file < 0) return failure();
  ::close(file);
  ::unlink(staged_.c_str());
  return "";
}

std::string CountersFile::write(std::string_view text) const {
  const int file = ::open(staged_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (file < 0) return failure();
  if (close_after(file, write_all(file, text)) && (in_place_ || std::rename(staged_.c_str(), target_.c_str()) == 0))
    return "";
  const std::string error = failure();
  if (!in_place_) ::unlink(staged_.c_str());
  return error;
}

}  // namespace weft
