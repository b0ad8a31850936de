// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/api/unix_socket.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "switch/base/unix_address.h"

namespace weft::api {
namespace {

constexpr mode_t kOwnerOnly = 0600;

std::string because(const std::string& what, const std::string& path, int error) {
  return what + " " + path + ": " + std::generic_category().message(error);
}

// What stands at the final path before we listen there.
std::optional<std::string> clear_stale(const std::string& path) {
  struct stat info {};
  if (lstat(path.c_str(), &info) != 0) {
    if (errno == ENOENT) return std::nullopt;
    return because("cannot examine", path, errno);
  }
  if (!S_ISSOCK(info.st_mode)) return "the control socket cannot be made: " + path + " exists and is not a socket";
  // No patience: a full backlog (EAGAIN) is a living listener too.
  const Connection probe = connect_unix(path, std::chrono::milliseconds{0});
  if (probe.fd >= 0) close(probe.fd);
  if (probe.fd >= 0 || probe.error == EAGAIN) {
    return "another weft-switch answers on " + path + "; stop it, or choose another control socket";
  }
  if (probe.error != ECONNREFUSED && probe.error != ENOENT) return because("cannot examine", path, probe.error);
  if (unlink(path.c_str()) != 0 && errno != ENOENT) return because("cannot replace the stale socket", path, errno);
  return std::nullopt;
}

}  // namespace

Connection connect_unix(const std::string& path, std::chrono::milliseconds patience, int type) {
  sockaddr_un address;
  if (!write_unix_address(path, address)) return {-1, path.empty() ? ENOENT : ENAMETOOLONG};
  const int fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
  if (fd < 0) return {-1, errno};
  const bool wait = patience.count() > 0;
  // The send timeout is also that of connect(); zero would mean for ever.
  timeval limit{};
  limit.tv_sec = patience.count() / 1000;
  limit.tv_usec = patience.count() % 1000 * 1000;
  const bool ready = setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit) == 0 &&
                     (wait || fcntl(fd, F_SETFL, O_NONBLOCK) == 0) &&
                     connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 &&
                     fcntl(fd, F_SETFL, O_NONBLOCK) == 0;
  if (ready) return {fd, 0};
  const int error = errno;
  close(fd);
  return {-1, error};
}

int bind_unix(const std::string& path) {
  sockaddr_un address;
  if (!write_unix_address(path, address)) {
    errno = ENAMETOOLONG;
    return -1;
  }
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0 || bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) return fd;
  const int error = errno;
  close(fd);
  errno = error;
  return -1;
}

SocketFile::~SocketFile() {
  remove();
}

std::optional<std::string> SocketFile::prepare(const std::string& path) {
  if (path.empty()) return "the path of the control socket is empty";
  if (path.size() > kMaxSocketPath) {
    return "the path of the control socket is longer than " + std::to_string(kMaxSocketPath) + " bytes: " + path;
  }
  std::error_code error;
  // The process may change its directory before it removes the socket.
  const std::filesystem::path full = std::filesystem::absolute(path, error);
  if (error) return because("cannot find", path, error.value());
  path_ = full.string();
  const std::string parent = full.parent_path().string();
  std::filesystem::create_directories(parent, error);
  if (error) return because("cannot make the directory of the control socket,", parent, error.value());
  if (auto problem = clear_stale(path_)) return problem;

  std::string name = parent + "/.weft-XXXXXX";
  if (mkdtemp(name.data()) == nullptr) return because("cannot make the control socket", path_, errno);
  directory_ = name;
  return std::nullopt;
}

std::optional<std::string> SocketFile::publish() {
  const std::string from = private_path();
  struct stat info {};
  if (chmod(from.c_str(), kOwnerOnly) != 0 || lstat(from.c_str(), &info) != 0 ||
      renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, path_.c_str(), RENAME_NOREPLACE) != 0) {
    return because("cannot make the control socket", path_, errno);
  }
  device_ = info.st_dev;
  inode_ = info.st_ino;
  published_ = true;
  rmdir(directory_.c_str());
  directory_.clear();
  return std::nullopt;
}

void SocketFile::remove() {
  if (!directory_.empty()) {
    unlink(private_path().c_str());
    rmdir(directory_.c_str());
    directory_.clear();
  }
  if (!published_) return;
  published_ = false;
  struct stat info {};
  if (lstat(path_.c_str(), &info) == 0 && info.st_dev == device_ && info.st_ino == inode_) unlink(path_.c_str());
}

}  // namespace weft::api
