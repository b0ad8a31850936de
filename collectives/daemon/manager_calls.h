// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Calls of weft.inc.v1 that others do not wait for. One thread makes groups, one gives them back, one renews leases and
// one asks why groups have ended, each in the order in which it was asked to.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "collectives/comm/daemon_messages.h"
#include "collectives/daemon/leases.h"
#include "switch/config/tls_files.h"

namespace weft::inc::manager {
class Client;
}

namespace weft::inc::daemon {

/// Where the manager is.
struct ManagerPlace {
  std::string socket = "/run/weft/inc-manager.sock";
  std::string address;  ///< HOST:PORT, or several with commas between, of which one leads; empty: the socket
  config::TlsFiles files;
};

/// What has come of calls.
struct Created {
  ClientId client = 0;
  std::uint32_t rank = 0;
  comm::GroupCreated answer;
};
struct Renewed {
  GroupName name;
  std::optional<bool> running;  ///< nullopt: the manager cannot be reached
  std::string why;              ///< of one that does not run: what its switches said; "": nothing is known
};
struct Explained {
  ClientId client = 0;
  GroupName name;
  std::string why;  ///< "": nothing is known
};
using CallResult = std::variant<Created, Renewed, Explained>;

class ManagerCalls {
 public:
  /// What new groups need may be what earlier ones had: their making waits so long for what was to be destroyed before.
  /// A manager that does not answer costs no more than that.
  static constexpr std::chrono::milliseconds kDestroyedFirst{500};

  /// @param ready  called in a thread of ours when there are results
  ManagerCalls(ManagerPlace place, std::function<void()> ready);
  ~ManagerCalls();
  ManagerCalls(const ManagerCalls&) = delete;
  ManagerCalls& operator=(const ManagerCalls&) = delete;

  /// Connects before there is anything to ask: a first call takes three times as long as later ones. The log says what
  /// came of it.
  void greet();
  void create(ClientId client, const comm::CreateGroup& request);
  void renew(const GroupName& name, const std::vector<std::uint32_t>& ranks);
  void destroy(const GroupName& name);
  void explain(ClientId client, const GroupName& name);
  [[nodiscard]] std::vector<CallResult> results();

 private:
  using Job = std::function<void()>;
  struct Worker {
    std::deque<Job> jobs;
    std::thread thread;
    // Of the thread alone:
    std::unique_ptr<manager::Client> client;
    std::chrono::steady_clock::time_point connected{};
  };
  struct Failure {
    std::string why;
    bool unanswered = false;  ///< nobody answered; otherwise the manager did not take it
  };
  enum : std::size_t { kCreate, kDestroy, kLeases, kExplain, kWorkers };

  void work(std::size_t worker);
  void add(std::size_t worker, Job job);
  void add(CallResult result);
  /// Connects, unless the last call's connection still is of use.
  [[nodiscard]] std::optional<std::string> connect(Worker& worker);
  template <class Call>
  [[nodiscard]] std::optional<Failure> ask(std::size_t worker, Call&& call);
  void call_greet(std::size_t worker);
  [[nodiscard]] comm::GroupCreated call_create(const comm::CreateGroup& request);
  [[nodiscard]] std::string call_explain(const GroupName& name);
  void call_renew(const GroupName& name, const std::vector<std::uint32_t>& ranks);
  void call_destroy(const GroupName& name);
  /// Until so many groups have been destroyed, or that moment.
  void wait_for_destroyed(std::uint64_t count, std::chrono::steady_clock::time_point end);

  ManagerPlace place_;
  std::atomic<std::size_t> leader_{0};  ///< of the managers, the one that answered last
  std::function<void()> ready_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stop_ = false;
  std::array<Worker, kWorkers> workers_;
  std::vector<CallResult> results_;
  std::uint64_t to_destroy_ = 0, destroyed_ = 0;  ///< groups so far
};

}  // namespace weft::inc::daemon
