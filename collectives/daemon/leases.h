// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Which groups the processes of a host have, and what weft-incd does for them. No socket, thread or clock.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "collectives/comm/daemon_messages.h"

namespace weft::inc::daemon {

/// Nanoseconds of the clock that the caller counts by.
using Time = std::int64_t;
inline constexpr Time kNever = INT64_MAX;

/// A connected process. Numbers are not used again.
using ClientId = std::uint64_t;

struct GroupName {
  std::uint32_t group = 0;
  std::uint64_t generation = 0;

  friend auto operator<=>(const GroupName&, const GroupName&) = default;
};

/// What has to be done. Answers of the manager come later: on_created(), on_renewed(), on_explained().
class Orders {
 public:
  virtual ~Orders() = default;
  virtual void create(ClientId client, const comm::CreateGroup& request) = 0;
  virtual void renew(const GroupName& name, const std::vector<std::uint32_t>& ranks) = 0;
  virtual void destroy(const GroupName& name) = 0;
  virtual void explain(ClientId client, const GroupName& name) = 0;
  virtual void tell(ClientId client, const comm::DaemonMessage& message) = 0;
};

class Leases {
 public:
  /// Of one process: groups and explanations that it waits for, and ranks of groups that it has.
  static constexpr std::size_t kMaxAsked = 64, kMaxHeld = 4096;

  /// @param orders  outlives it
  explicit Leases(Orders& orders) noexcept : orders_(orders) {}

  /// False: the message is none for a daemon, or one too many, and the process is to be cut off.
  [[nodiscard]] bool on_message(Time now, ClientId client, const comm::DaemonMessage& message);
  /// A process is gone: so are its groups, for all ranks.
  void on_gone(ClientId client);
  /// What the manager has answered to create().
  void on_created(Time now, ClientId client, std::uint32_t rank, const comm::GroupCreated& answer);
  /// What the manager has answered to renew(). nullopt: it cannot be reached.
  /// @param why  of a group that does not run: what its switches said of it; "": nothing is known
  void on_renewed(Time now, const GroupName& name, std::optional<bool> running, const std::string& why = "");
  /// What the manager has answered to explain().
  void on_explained(ClientId client, const GroupName& name, const std::string& why);
  /// Renews what is due.
  void on_timer(Time now);
  [[nodiscard]] Time next_deadline() const noexcept;
  /// Groups that processes hold.
  [[nodiscard]] std::size_t groups() const noexcept { return held_.size(); }

 private:
  struct Holder {
    ClientId client = 0;
    bool confirmed = false;  ///< it has been told that the lease runs
  };
  struct Held {
    std::map<std::uint32_t, Holder> ranks;
    Time interval = 0;
    Time next = 0;
    bool asked = false;  ///< the manager has not answered yet
  };
  bool hold(Time now, ClientId client, const comm::HoldGroup& m);
  void leave(ClientId client, const comm::LeaveGroup& m);
  void renew(const GroupName& name, Held& held);

  Orders& orders_;
  std::map<GroupName, Held> held_;
  std::map<ClientId, std::size_t> asked_;  ///< groups that a process waits for, and explanations
  std::map<ClientId, std::size_t> has_;    ///< ranks that it holds
};

}  // namespace weft::inc::daemon
