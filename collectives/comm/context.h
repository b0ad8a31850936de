// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// A process's RNIC, its groups, the link to the daemon, and who runs them: a thread of the library, or whoever waits
// for a request.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "collectives/comm/daemon_link.h"
#include "collectives/comm/group.h"
#include "collectives/comm/rnic_transport.h"

namespace weft::inc::comm {

class Context {
 public:
  /// @param daemon  socket of weft-incd; empty: none
  explicit Context(std::string daemon) : daemon_(std::move(daemon)) {}
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  /// Opens the RNIC (RnicTransport::open) and starts the thread. What went wrong, in words, or an empty string.
  [[nodiscard]] std::string open(const std::optional<wire::IpAddress>& address, const std::string& interface);

  /// Of the following, all but wait() are called between lock() and its end.
  [[nodiscard]] std::unique_lock<std::mutex> lock() { return std::unique_lock(mutex_); }
  [[nodiscard]] RnicTransport& transport() noexcept { return transport_; }
  [[nodiscard]] Memory& memory() noexcept { return memory_; }
  /// The context runs the group until remove().
  [[nodiscard]] Group& add(std::uint32_t rank, std::uint32_t ranks, const GroupSettings& settings);
  void remove(Group& group);
  [[nodiscard]] bool has_groups() const noexcept { return !groups_.empty(); }
  /// Goes on with everything, without waiting.
  void run();

  /// Runs until the condition, which is asked with the lock held, is true. False: the time is over.
  /// @param limit_ns  negative: without end
  bool wait(const std::function<bool()>& condition, std::int64_t limit_ns);

 private:
  void thread();
  void run_daemon();
  void hear(const DaemonMessage& message);
  bool tell(const DaemonMessage& message, Group* from);
  /// Waits for frames, messages or the next deadline, without the lock.
  void sleep(std::unique_lock<std::mutex>& held, std::int64_t limit_ns);

  std::mutex mutex_;
  RnicTransport transport_;
  Memory memory_{transport_};
  DaemonLink daemon_;
  nic::Time next_connect_ = 0, next_daemon_look_ = 0;
  bool was_connected_ = false;
  std::vector<std::unique_ptr<Group>> groups_;
  std::vector<Group*> asking_;  ///< who has asked the daemon for a group, in the order of its answers
  nic::Descriptor wake_;        ///< eventfd: what a sleeper waits for has changed
  nic::Time sleeps_until_ = 0;  ///< of whoever sleeps; 0: nobody does
  unsigned waiters_ = 0;        ///< who run everything themselves
  nic::Time last_wait_ = 0;     ///< when the last of them was through
  std::condition_variable stopped_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace weft::inc::comm
