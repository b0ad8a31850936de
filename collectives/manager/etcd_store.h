// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// The manager's store in etcd, for several managers of which one leads: the one whose key, with a lease, is there.
// Every write is made on the condition that this key still is: a manager that was away for longer than its lease
// changes nothing any more.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "collectives/manager/agents.h"
#include "collectives/manager/etcd_client.h"

namespace etcdserverpb {
class TxnRequest;
}

namespace weft::inc::manager {

class EtcdStore : public Store {
 public:
  EtcdStore() = default;
  /// Writes what is left, and gives up the lead, so that the next manager need not wait for the end of the lease.
  ~EtcdStore() override;
  EtcdStore(const EtcdStore&) = delete;
  EtcdStore& operator=(const EtcdStore&) = delete;

  /// @param name  of this manager, for people
  [[nodiscard]] std::optional<std::string> open(const EtcdPlace& place, const std::string& name);
  /// Waits until this process leads, for as long as etcd does not answer, too.
  /// @param say   receives a sentence whenever what is waited for changes
  /// @param stop  asked several times a second: true ends the waiting
  /// @param lost  called once, in a thread of the store's, when another manager may lead
  /// @return nothing: it leads, or `stop` has said so; otherwise why it cannot
  [[nodiscard]] std::optional<std::string> lead(const std::function<void(const std::string&)>& say,
                                                const std::function<bool()>& stop, std::function<void()> lost);
  /// Whether no other manager can lead, as far as this one's clock and etcd's lease say.
  [[nodiscard]] bool leads() const;

  /// Writes are sent in their order, by a thread of their own; sync() tells what has come of them.
  [[nodiscard]] std::optional<std::string> put(GroupId group, std::uint64_t generation,
                                               const std::string& record) override;
  [[nodiscard]] std::optional<std::string> erase(GroupId group) override;
  [[nodiscard]] std::optional<std::string> put_links(const std::string& text) override;
  [[nodiscard]] std::optional<std::string> load(Content& content) override;
  [[nodiscard]] std::optional<std::string> sync() override;
  [[nodiscard]] bool shared() const noexcept override { return true; }

 private:
  using Clock = std::chrono::steady_clock;
  struct Write {
    std::string key;
    std::optional<std::string> value;  ///< nullopt: the key is erased
    std::uint64_t generation = 0;      ///< of a group's record; 0: none
  };

  [[nodiscard]] std::string key(const std::string& below) const { return place_.prefix + "/" + below; }
  [[nodiscard]] std::string group_key(GroupId group) const;
  /// Tries once to become the leader of the managers, and does not wait.
  /// @return nullopt when this manager leads; otherwise why it does not: who leads, or an error of etcd
  [[nodiscard]] std::optional<std::string> try_to_lead();
  [[nodiscard]] std::optional<std::string> check_version();
  /// On the condition that this manager leads.
  [[nodiscard]] etcdserverpb::TxnRequest transaction() const;
  void add(Write write);
  /// Sends the first writes that fit into one transaction. Holds no lock.
  /// @return how many, or why not
  [[nodiscard]] std::optional<std::string> send(std::size_t& sent);
  void write_all();
  void keep_lease();
  void lose();

  EtcdPlace place_;
  std::string name_;
  EtcdClient client_;
  std::int64_t lease_ = 0;
  std::int64_t leading_since_ = 0;  ///< revision in which the leader's key was made
  std::function<void()> lost_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Write> waiting_;
  std::uint64_t added_ = 0, written_ = 0;  ///< writes
  std::uint64_t tries_ = 0;                ///< that have begun
  std::uint64_t failed_ = 0;               ///< the last one of them that has failed
  std::string error_;                      ///< of that one
  std::uint64_t last_generation_ = 0;      ///< that is in etcd
  Clock::time_point leads_until_{};        ///< the lease is good until then
  bool leading_ = false, stop_ = false;
  std::thread writer_, keeper_;
};

/// Agents of switches for a manager that may lose its lead: without it, nothing is installed or removed any more,
/// because the groups are another manager's. Reading goes on.
class AgentsOfLeader : public Agents {
 public:
  /// Both outlive this.
  AgentsOfLeader(Agents& agents, const EtcdStore& store) : agents_(agents), store_(store) {}
  [[nodiscard]] std::vector<Outcome> install(std::span<const InstallOrder> orders) override;
  [[nodiscard]] std::vector<Outcome> remove(std::span<const RemoveOrder> orders) override;
  [[nodiscard]] std::vector<std::optional<std::vector<GroupId>>> list(std::span<const policy::NodeId> nodes,
                                                                      const Pace& pace) override {
    return agents_.list(nodes, pace);
  }
  [[nodiscard]] std::vector<std::optional<std::vector<GroupActivity>>> activity(
      std::span<const policy::NodeId> nodes) override {
    return agents_.activity(nodes);
  }
  [[nodiscard]] std::vector<std::optional<policy::Abilities>> abilities(
      std::span<const policy::NodeId> nodes) override {
    return agents_.abilities(nodes);
  }

 private:
  Agents& agents_;
  const EtcdStore& store_;
};

}  // namespace weft::inc::manager
