// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/system/output_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <utility>

#include "switch/base/file_io.h"

namespace weft {
namespace {

// Writes text, and waits until the disk has it. Pipes and devices cannot be waited for.
bool write_and_close(int file, std::string_view text) {
  const bool fine = write_all(file, text) && (::fsync(file) == 0 || errno == EINVAL || errno == EROFS);
  return close_after(file, fine);
}

// After a power cut a name may be gone although the file is there, until its folder has been written too.
void sync_folder(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  const int file = ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (file < 0) return;
  static_cast<void>(::fsync(file));
  ::close(file);
}

}  // namespace

OutputFile::OutputFile(std::string path) : path_(std::move(path)) {
  struct stat found {};
  const bool exists = ::stat(path_.c_str(), &found) == 0;
  // /dev/stdout may be a regular file: whoever redirected it there goes on writing to it.
  const bool of_the_system = path_.starts_with("/dev/") || path_.starts_with("/proc/");
  in_place_ = exists && (!S_ISREG(found.st_mode) || of_the_system);
  std::error_code error;
  const auto canonical = std::filesystem::weakly_canonical(path_, error);
  target_ = in_place_ || error ? path_ : canonical.string();
  staged_ = in_place_ ? target_ : target_ + "." + std::to_string(::getpid());
}

std::string OutputFile::failure() const {
  return "cannot write " + path_ + ": " + std::strerror(errno);
}

int OutputFile::open_staged() const {
  if (in_place_) return ::open(target_.c_str(), O_WRONLY | O_TRUNC | O_CLOEXEC | O_NOCTTY);
  const auto create = [&] { return ::open(staged_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644); };
  const int file = create();
  if (file >= 0 || errno != EEXIST) return file;
  // A process with the same number has crashed, or somebody has put a link there, which would lead elsewhere.
  return ::unlink(staged_.c_str()) == 0 ? create() : -1;
}

std::string OutputFile::probe() const {
  struct stat found {};
  if (in_place_) {
    if (::stat(target_.c_str(), &found) != 0 || ::access(target_.c_str(), W_OK) != 0) return failure();
    if (S_ISDIR(found.st_mode)) {
      errno = EISDIR;
      return failure();
    }
    // Opening a pipe would wait for its reader, and closing it would end that one; what a terminal gets is seen.
    if (!S_ISCHR(found.st_mode)) return "";
    const int device = ::open(target_.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY);
    if (device < 0) return failure();
    return close_after(device, ::isatty(device) != 0 || write_all(device, "\n")) ? "" : failure();
  }
  // The name may end in a slash, or belong to a folder that is not there.
  const int file = open_staged();
  if (file < 0) return failure();
  // A page: a disk that is full takes a file, and nothing that is in it.
  const bool fine = write_and_close(file, std::string(4096, ' '));
  const std::string error = fine ? "" : failure();
  ::unlink(staged_.c_str());
  return error;
}

std::string OutputFile::write(std::string_view text) const {
  const int file = open_staged();
  if (file < 0) return failure();
  if (write_and_close(file, text) && (in_place_ || std::rename(staged_.c_str(), target_.c_str()) == 0)) {
    if (!in_place_) sync_folder(target_);
    return "";
  }
  const std::string error = failure();
  if (!in_place_) ::unlink(staged_.c_str());
  return error;
}

}  // namespace weft
