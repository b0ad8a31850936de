// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// A Manager for several threads, with the time of a monotonic clock. While switches are asked for anything, and while
// the disk is waited for, other calls go on. Leases are renewed without waiting for any of them.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "collectives/manager/manager.h"
#include "collectives/policy/patience.h"

namespace weft::inc::manager {

/// What running groups do.
struct Activity {
  struct Switch {
    std::string name;
    bool root = false;
    std::optional<GroupActivity> says;  ///< nullopt: it does not answer, or does not have the group
  };
  struct Group {
    GroupId id = 0;
    std::uint64_t generation = 0;
    std::vector<std::string> hosts;  ///< by rank
    std::vector<Switch> switches;    ///< from lower to higher tiers
  };
  TimeNs at = 0;  ///< when switches had answered
  std::vector<Group> groups;
};

class RunningManager {
 public:
  /// @param manager  has recovered, and outlives this
  explicit RunningManager(Manager& manager);
  ~RunningManager();
  RunningManager(const RunningManager&) = delete;
  RunningManager& operator=(const RunningManager&) = delete;

  /// With ManagerOptions::patience_ns a group for which there is no tree waits for one, behind those that came before.
  /// @param gone  whoever asks does not wait for the answer any more
  [[nodiscard]] CreateReply create(const CreateRequest& request, const std::function<bool()>& gone = {});
  [[nodiscard]] CreateReply explain(const CreateRequest& request);
  /// Returns when its switches have answered, or are found to be silent; of a group that is being removed already, at
  /// once.
  [[nodiscard]] Refusal destroy(GroupId group, std::uint64_t generation, const Caller& caller = {});
  /// `none`: the group runs, and its ranks were heard of.
  /// @param ranks  none: all
  [[nodiscard]] Refusal renew(GroupId group, std::uint64_t generation, const std::vector<std::uint32_t>& ranks,
                              const Caller& caller = {});
  /// See Manager::report(); what contradicts the file comes into the log, too.
  [[nodiscard]] std::vector<std::string> report(const NeighbourReport& report);
  /// What groups do that concern the caller. Asks switches; other calls go on meanwhile.
  [[nodiscard]] Activity activity(const Caller& caller = {});
  /// What switches say of a group that they have ended, for people; "": nothing is known, or it is another tenant's.
  /// Asks its switches unless the answer is known; other calls go on meanwhile.
  [[nodiscard]] std::string why_ended(GroupId group, std::uint64_t generation, const Caller& caller = {});
  /// The same, of what has been asked for already; also when the group is gone.
  [[nodiscard]] std::string known_why(GroupId group, std::uint64_t generation, const Caller& caller = {});
  [[nodiscard]] const Tenants& tenants() const noexcept { return manager_.options().tenants; }
  [[nodiscard]] std::uint64_t lease_ms() const noexcept { return manager_.options().lease_ns / 1'000'000; }
  /// Reads what there is; no call runs meanwhile.
  void read(const std::function<void(const Manager&, TimeNs now)>& reader);

 private:
  /// Manager::begin_create(), when it has its turn.
  /// @param lock  of mutex_, which is free while it waits
  [[nodiscard]] Manager::Creation begin_in_turn(std::unique_lock<std::mutex>& lock, const CreateRequest& request,
                                                const std::function<bool()>& gone);
  /// Those who wait may try again, now and then, when something has become free. Holds mutex_.
  void tell_waiting(TimeNs now);
  /// Asks switches for their parts of a group, without mutex_.
  [[nodiscard]] CreateReply finish(Manager::Creation creation);
  /// Asks switches to forget the groups that calls have ended.
  /// @param lock  of mutex_, which is free meanwhile
  void remove_ended(std::unique_lock<std::mutex>& lock);
  /// Of groups that do not run any more.
  void end_leases(const std::vector<RemoveOrder>& orders);
  struct Lease {
    std::uint64_t generation = 0;
    std::string tenant;
    std::vector<std::optional<TimeNs>> heard;  ///< by rank: since the manager was told last
  };
  /// Ends groups whose leases are over. Switches that do not answer a look do not hold it up.
  void watch_leases();
  void watch_switches();
  /// False: it ends.
  [[nodiscard]] bool sleep(std::chrono::nanoseconds pause);
  /// Asks all switches what they have, when it is time.
  /// @param lock  of mutex_, which is free while they are asked
  void look(std::unique_lock<std::mutex>& lock);
  /// Tells the manager who was heard of. Holds mutex_.
  void tell_leases();
  /// Notes which groups there are, and says in the log what has changed. Holds mutex_.
  void note_groups();
  /// The same for one, which may be gone.
  void note_group(GroupId id);
  void note(GroupId id, const Manager::Group& group);
  void forget(GroupId id);

  /// Ended groups of which is known why.
  static constexpr std::size_t kMostKnown = 256;
  struct Why {
    GroupId group = 0;
    std::string tenant, text;
  };

  Manager& manager_;
  std::mutex mutex_;          ///< of the manager
  policy::WaitingLine line_;  ///< groups without a tree
  std::condition_variable line_moves_;
  std::uint64_t line_told_ = 0;  ///< Manager::freed() when it was told last
  TimeNs line_told_at_ = 0;
  std::mutex why_mutex_;
  std::map<std::uint64_t, Why> why_;  ///< by generation
  std::mutex lease_mutex_;
  std::map<GroupId, Lease> leases_;
  std::vector<std::string> contradictions_;  ///< that the log has spoken of
  std::map<GroupId, Ending> noted_;          ///< groups that the log has spoken of
  std::mutex wake_mutex_;
  std::condition_variable wake_;
  std::stop_source stop_;
  std::thread leases_thread_, switches_thread_;
};

}  // namespace weft::inc::manager
