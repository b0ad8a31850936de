// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "tools/weftctl/capture_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace weft::weftctl {

CaptureFile::~CaptureFile() {
  static_cast<void>(close());
}

std::string CaptureFile::open(const std::string& path) {
  owned_ = path != "-";
  fd_ = owned_ ? ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600) : STDOUT_FILENO;
  return fd_ < 0 ? std::strerror(errno) : "";
}

std::string CaptureFile::write(std::string_view units) {
  std::size_t done = 0;
  while (done < units.size()) {
    const ssize_t count = ::write(fd_, units.data() + done, units.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) {
      const int error = count == 0 ? ENOSPC : errno;
      reader_gone_ = error == EPIPE;
      cut_to_whole_units(units.substr(0, done));
      return std::strerror(error);
    }
    done += static_cast<std::size_t>(count);
  }
  bytes_ += done;
  return "";
}

namespace {

std::size_t whole_lines(std::string_view written) {
  return written.rfind('\n') + 1;  // 0 without any
}

// The second word of a block is its length.
std::size_t whole_blocks(std::string_view written) {
  std::size_t whole = 0;
  while (written.size() - whole >= 8) {
    std::uint32_t length = 0;
    std::memcpy(&length, written.data() + whole + 4, sizeof length);
    if (length < 12 || length > written.size() - whole) break;
    whole += length;
  }
  return whole;
}

}  // namespace

void CaptureFile::cut_to_whole_units(std::string_view written) {
  bytes_ += unit_ == Unit::line ? whole_lines(written) : whole_blocks(written);
  struct stat status {};
  if (!owned_ || fstat(fd_, &status) != 0 || !S_ISREG(status.st_mode)) return;
  if (ftruncate(fd_, static_cast<off_t>(bytes_)) != 0) return;  // what is there stays; readers say that it was cut
}

std::string CaptureFile::close() {
  if (fd_ < 0 || !owned_) return "";
  const int result = ::close(fd_);
  fd_ = -1;
  return result != 0 ? std::strerror(errno) : "";
}

}  // namespace weft::weftctl
