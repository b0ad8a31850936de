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
#include "collectives/comm/transport.h"
#include "nic/host/interface.h"

namespace weft::inc::comm {

/// Which RNIC a process has, and how it waits.
struct ContextSettings {
  std::optional<wire::IpAddress> address;
  std::string interface;         ///< of weft's own RNIC (RnicTransport::open)
  std::string memif;             ///< socket of a switch, which weft's own RNIC is connected to; empty: an interface
  std::uint8_t prefix_bits = 0;  ///< of the address, with a memif
  std::string device;            ///< of libibverbs (VerbsTransport::open); empty: weft's own RNIC
  nic::Time poll_ns = 0;         ///< who waits looks for so long for what comes before it sleeps
  CacheLimits cache;             ///< of memory that programs have not registered
  bool logs = false;             ///< groups say on standard error what becomes of them, and what hosts run and why
};

/// Opens the RNIC. nullptr, or one that is not to be used: `why` says in words what went wrong.
[[nodiscard]] std::unique_ptr<RunningTransport> open_transport(const ContextSettings& settings, std::string& why);

class Context {
 public:
  /// @param daemon  socket of weft-incd; empty: none
  explicit Context(std::string daemon) : daemon_(std::move(daemon)) {}
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  /// Opens the RNIC and starts the thread. What went wrong, in words, or an empty string.
  [[nodiscard]] std::string open(const ContextSettings& settings);

  /// Of the following, all but wait() are called between lock() and its end.
  [[nodiscard]] std::unique_lock<std::mutex> lock() { return std::unique_lock(mutex_); }
  [[nodiscard]] RunningTransport& transport() noexcept { return *transport_; }
  [[nodiscard]] Memory& memory() noexcept { return *memory_; }
  /// The context runs the group until remove().
  [[nodiscard]] Group& add(std::uint32_t rank, std::uint32_t ranks, const GroupSettings& settings);
  void remove(Group& group);
  [[nodiscard]] bool has_groups() const noexcept { return !groups_.empty(); }
  /// Goes on with everything, without waiting. True when something went on.
  bool run();
  /// The same without a look for what has arrived: sends what has just been posted.
  bool push();

  /// Runs until the condition, which is asked with the lock held, is true. False: the time is over.
  /// @param limit_ns  negative: without end
  bool wait(const std::function<bool()>& condition, std::int64_t limit_ns);

 private:
  void thread();
  void run_daemon();
  void hear(const DaemonMessage& message);
  bool tell(const DaemonMessage& message, Group* from);
  void wake();
  /// Waits for frames, messages or the next deadline, without the lock.
  void sleep(std::unique_lock<std::mutex>& held, std::int64_t limit_ns);

  std::mutex mutex_;
  std::unique_ptr<RunningTransport> transport_;
  std::unique_ptr<Memory> memory_;
  nic::Time poll_ns_ = 0;
  bool logs_ = false;
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
