// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Runs a program and reads what it prints.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <string>
#include <vector>

namespace weft::weftctl {

/// A child process with stdout and stderr in pipes; killed and reaped when the object goes.
class Program {
 public:
  explicit Program(const std::vector<std::string>& arguments) {
    std::array<int, 2> out{};
    std::array<int, 2> err{};
    if (pipe(out.data()) != 0 || pipe(err.data()) != 0) std::abort();
    std::vector<char*> argv;
    for (const auto& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
    argv.push_back(nullptr);
    // Nothing but system calls between vfork and exec: the test has other threads.
    pid_ = vfork();
    if (pid_ == 0) {
      dup2(out[1], STDOUT_FILENO);
      dup2(err[1], STDERR_FILENO);
      for (const int fd : {out[0], out[1], err[0], err[1]}) close(fd);
      execv(argv[0], argv.data());
      _exit(127);
    }
    if (pid_ < 0) std::abort();
    close(out[1]);
    close(err[1]);
    out_ = out[0];
    err_ = err[0];
  }

  ~Program() {
    if (pid_ > 0) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
    close(out_);
    close(err_);
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  /// Reads stdout until it holds `text` so many times; false at its end.
  bool read_until(const std::string& text, int times) {
    std::string seen;
    char buffer[4096];
    while (true) {
      const ssize_t got = read(out_, buffer, sizeof buffer);
      if (got <= 0) return false;
      seen.append(buffer, static_cast<std::size_t>(got));
      int count = 0;
      for (std::size_t at = seen.find(text); at != std::string::npos; at = seen.find(text, at + 1)) ++count;
      if (count >= times) return true;
    }
  }

  /// Reads all that it prints (an amount that fits a pipe on stderr), waits for its end, and gives the exit status.
  int finish(std::string& out, std::string& err) {
    out = read_all(out_);
    err = read_all(err_);
    int status = 0;
    waitpid(pid_, &status, 0);
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

 private:
  static std::string read_all(int fd) {
    std::string text;
    char buffer[4096];
    for (ssize_t got = 0; (got = read(fd, buffer, sizeof buffer)) > 0;)
      text.append(buffer, static_cast<std::size_t>(got));
    return text;
  }

  pid_t pid_ = -1;
  int out_ = -1;
  int err_ = -1;
};

}  // namespace weft::weftctl
