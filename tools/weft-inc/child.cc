// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "tools/weft-inc/child.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

namespace weft::inc_tool {
namespace {

using Clock = std::chrono::steady_clock;

/// Reads until the end. An error in words, or "".
std::string read_all(int fd, Clock::time_point deadline, std::size_t most, std::string& out) {
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    pollfd ready{fd, POLLIN, 0};
    if (left <= 0) return "gave no answer in time";
    if (poll(&ready, 1, static_cast<int>(left)) <= 0) continue;
    char some[4096];
    const ssize_t n = read(fd, some, sizeof some);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return std::generic_category().message(errno);
    if (n == 0) return "";
    if (out.size() + static_cast<std::size_t>(n) > most) return "prints more than " + std::to_string(most) + " bytes";
    out.append(some, static_cast<std::size_t>(n));
  }
}

/// The status, or nullopt: it does not end in time.
std::optional<int> wait_for(pid_t pid, Clock::time_point deadline) {
  for (;;) {
    int status = 0;
    if (waitpid(pid, &status, WNOHANG) == pid) return status;
    if (Clock::now() >= deadline) return std::nullopt;
    poll(nullptr, 0, 1);
  }
}

}  // namespace

std::optional<std::string> output_of(const std::vector<std::string>& command, std::chrono::milliseconds limit,
                                     std::size_t most, std::string& error) {
  const auto deadline = Clock::now() + limit;
  int pipe[2];
  if (pipe2(pipe, O_CLOEXEC) != 0) {
    error = std::generic_category().message(errno);
    return std::nullopt;
  }
  std::vector<char*> argv;
  for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, pipe[1], STDOUT_FILENO);
  pid_t pid = 0;
  const int failed = posix_spawnp(&pid, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(pipe[1]);
  std::string out;
  if (failed != 0) {
    error = "cannot start " + command[0] + ": " + std::generic_category().message(failed);
    close(pipe[0]);
    return std::nullopt;
  }
  const std::string why = read_all(pipe[0], deadline, most, out);
  close(pipe[0]);
  auto status = why.empty() ? wait_for(pid, deadline) : std::nullopt;
  if (!status) {
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
    error = command[0] + " " + (why.empty() ? "does not end" : why);
    return std::nullopt;
  }
  if (WIFEXITED(*status) && WEXITSTATUS(*status) == 0) return out;
  error = command[0] + " failed";
  return std::nullopt;
}

}  // namespace weft::inc_tool
