// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "nic/agent/pid_namespace.h"

#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>

namespace weft::agent {
namespace {

constexpr std::uint64_t kFirstNamespace = 0xeffffffc;  // PROC_PID_INIT_INO of the kernel
constexpr unsigned kMinorBits = 20;                    // of a device's number in the kernel

}  // namespace

weft_pid_namespace own_pid_namespace() {
  struct stat found {};
  if (stat("/proc/self/ns/pid", &found) != 0 || found.st_ino == kFirstNamespace) return {};
  return {std::uint64_t{major(found.st_dev)} << kMinorBits | minor(found.st_dev), found.st_ino};
}

std::string problem_of_proc() {
  std::array<char, 32> link{};
  const ssize_t bytes = readlink("/proc/self", link.data(), link.size());
  if (bytes < 0) return std::string("/proc/self: ") + std::strerror(errno);
  const std::string_view number(link.data(), static_cast<std::size_t>(bytes));
  if (number == std::to_string(getpid())) return "";
  return "/proc is that of another PID namespace: which processes have ended cannot be seen; mount the own one there, "
         "as unshare(1) does with --mount-proc";
}

}  // namespace weft::agent
