// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/api/unix_listener.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <system_error>
#include <utility>

namespace weft::api {
namespace {

constexpr int kBacklog = 64;
constexpr int kRetryMs = 100;

}  // namespace

UnixListener::~UnixListener() {
  stop(std::chrono::milliseconds{0});
  if (thread_.joinable()) thread_.join();
  if (listener_ >= 0) close(listener_);
  if (wake_ >= 0) close(wake_);
}

std::optional<std::string> UnixListener::open(const std::string& path) {
  if (auto problem = file_.prepare(path)) return problem;
  wake_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  listener_ = bind_unix(file_.private_path());
  if (wake_ < 0 || listener_ < 0 || listen(listener_, kBacklog) != 0) {
    return "cannot listen on " + path + ": " + std::generic_category().message(errno);
  }
  return file_.publish();
}

void UnixListener::serve(std::function<void(int fd)> on_connection, const ListenerLimits& limits) {
  on_connection_ = std::move(on_connection);
  limits_ = limits;
  accepting_ = true;
  thread_ = std::thread([this] { run(); });
}

void UnixListener::stop(std::chrono::milliseconds grace) {
  file_.remove();
  std::unique_lock lock(mutex_);
  const Clock::time_point end = Clock::now() + grace;
  stop_at_ = stop_at_ ? std::min(*stop_at_, end) : end;
  wake();
  changed_.wait(lock, [this] { return !accepting_; });
}

void UnixListener::wake() const {
  const std::uint64_t one = 1;
  if (wake_ >= 0) static_cast<void>(!write(wake_, &one, sizeof one));
}

void UnixListener::run() {
  while (true) {
    {
      const std::lock_guard lock(mutex_);
      if (stop_at_) {
        // Clients that wait in the backlog get the end of the connection at once.
        if (accepting_) close(std::exchange(listener_, -1));
        accepting_ = false;
        changed_.notify_all();
        for (auto& connection : connections_) connection.end = std::min(connection.end, *stop_at_);
        if (connections_.empty()) return;
      }
    }
    std::vector<pollfd> wait{{wake_, POLLIN, 0}, {out_of_descriptors_ ? -1 : listener_, POLLIN, 0}};
    // Waits for the end of the connection only: the data is for gRPC to read.
    for (const auto& connection : connections_) wait.push_back({connection.fd, POLLRDHUP, 0});
    poll(wait.data(), wait.size(), out_of_descriptors_ ? kRetryMs : milliseconds_to_next_end());
    std::uint64_t count = 0;
    static_cast<void>(!read(wake_, &count, sizeof count));
    std::vector<bool> hung_up;
    for (std::size_t i = 2; i < wait.size(); ++i) hung_up.push_back(wait[i].revents != 0);
    reap(hung_up);
    out_of_descriptors_ = false;
    if (wait[1].revents != 0) accept_one();
  }
}

void UnixListener::accept_one() {
  const int fd = accept4(listener_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
  if (fd < 0) {
    // A client that is gone already (ECONNABORTED) is no reason to wait.
    out_of_descriptors_ = errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM;
    return;
  }
  const int ours = connections_.size() < limits_.connections ? fcntl(fd, F_DUPFD_CLOEXEC, 0) : -1;
  if (ours < 0) {
    close(fd);
    return;
  }
  connections_.push_back({ours, Clock::now() + limits_.connection_age});
  on_connection_(fd);
}

// Ends connections that are due, or of which one side has ended: what the other still writes, nobody would read.
void UnixListener::reap(const std::vector<bool>& hung_up) {
  const Clock::time_point now = Clock::now();
  std::size_t kept = 0;
  for (std::size_t i = 0; i < connections_.size(); ++i) {
    if (hung_up[i] || connections_[i].end <= now) {
      shutdown(connections_[i].fd, SHUT_RDWR);
      close(connections_[i].fd);
    } else {
      connections_[kept++] = connections_[i];
    }
  }
  connections_.resize(kept);
}

int UnixListener::milliseconds_to_next_end() const {
  if (connections_.empty()) return -1;
  const auto by_end = [](const Connection& a, const Connection& b) { return a.end < b.end; };
  const auto next = std::min_element(connections_.begin(), connections_.end(), by_end)->end;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(next - Clock::now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, 3'600'000));
}

}  // namespace weft::api
