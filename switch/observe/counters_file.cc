// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/observe/counters_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

namespace weft {
namespace {

// False with errno.
bool write_all(int file, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(file, text.data(), text.size());
    if (written < 0 && errno != EINTR) return false;
    if (written > 0) text.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

// Closing a file may be when a full disk is noticed.
bool write_and_close(int file, std::string_view text) {
  const bool written = write_all(file, text);
  const int error = errno;
  const bool closed = ::close(file) == 0;
  if (!written) errno = error;
  return written && closed;
}

}  // namespace

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
  if (write_and_close(file, text) && (in_place_ || std::rename(staged_.c_str(), target_.c_str()) == 0)) return "";
  const std::string error = failure();
  if (!in_place_) ::unlink(staged_.c_str());
  return error;
}

}  // namespace weft
