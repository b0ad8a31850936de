// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Switches and a store that outlive a manager, and fail when they are told to.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "collectives/manager/manager.h"

namespace weft::inc::manager {

/// The process ends.
struct Crash {};

/// What happens at a step.
enum class Fault : std::uint8_t {
  none,
  refuse,        ///< it does not happen, and says so
  lost_before,   ///< it does not happen, and nobody knows
  lost_after,    ///< it happens, and nobody knows
  crash_before,  ///< it does not happen, and the process ends
  crash_after,   ///< it happens, and the process ends
};
inline constexpr Fault kFaults[] = {Fault::refuse, Fault::lost_before, Fault::lost_after, Fault::crash_before,
                                    Fault::crash_after};

/// Counts the steps of all that can fail.
struct Steps {
  std::function<Fault(std::uint64_t)> fault = [](std::uint64_t) { return Fault::none; };
  std::uint64_t done = 0;

  /// Runs a step with its fault; `happen` is what it does.
  template <class Happen>
  Outcome run(Happen&& happen) {
    const Fault f = fault(std::atomic_ref(done).fetch_add(1) + 1);
    if (f == Fault::crash_before) throw Crash{};
    if (f == Fault::refuse) return {Outcome::Kind::refused, "told to"};
    if (f == Fault::lost_before) return {Outcome::Kind::unknown, "told to"};
    const Outcome outcome = happen();
    if (f == Fault::crash_after) throw Crash{};
    if (f == Fault::lost_after) return {Outcome::Kind::unknown, "told to"};
    return outcome;
  }
};

class FakeSwitches : public Agents {
 public:
  explicit FakeSwitches(Steps& steps) : steps_(steps) {}

  std::vector<Outcome> install(std::span<const InstallOrder> orders) override {
    const std::lock_guard lock(mutex_);
    std::vector<Outcome> out;
    if (lead_lost) return std::vector<Outcome>(orders.size(), {Outcome::Kind::not_asked, "another manager may lead"});
    for (const InstallOrder& o : orders) {
      out.push_back(steps_.run([&]() -> Outcome {
        if (silent.contains(o.node)) return {Outcome::Kind::unknown, "silent"};
        if (!groups[o.node].emplace(o.group, o.spec).second) return {Outcome::Kind::refused, "it is there already"};
        return {};
      }));
    }
    return out;
  }
  std::vector<Outcome> remove(std::span<const RemoveOrder> orders) override {
    const std::lock_guard lock(mutex_);
    std::vector<Outcome> out;
    for (const RemoveOrder& o : orders) {
      out.push_back(steps_.run([&]() -> Outcome {
        if (silent.contains(o.node)) return {Outcome::Kind::unknown, "silent"};
        groups[o.node].erase(o.group);
        return {};
      }));
    }
    return out;
  }
  std::vector<std::optional<std::vector<GroupId>>> list(std::span<const policy::NodeId> nodes, const Pace&) override {
    const std::lock_guard lock(mutex_);
    std::vector<std::optional<std::vector<GroupId>>> out;
    for (const policy::NodeId node : nodes) {
      std::optional<std::vector<GroupId>>& has = out.emplace_back();
      if (silent.contains(node)) continue;
      has.emplace();
      for (const auto& [id, spec] : groups[node]) has->push_back(id);
    }
    return out;
  }

  std::vector<std::optional<std::vector<GroupActivity>>> activity(std::span<const policy::NodeId> nodes) override {
    const std::lock_guard lock(mutex_);
    std::vector<std::optional<std::vector<GroupActivity>>> out;
    for (const policy::NodeId node : nodes) {
      const auto at = activities.find(node);
      out.push_back(at == activities.end() ? std::nullopt : std::optional(at->second));
    }
    return out;
  }

  std::vector<std::optional<policy::Abilities>> abilities(std::span<const policy::NodeId> nodes) override {
    const std::lock_guard lock(mutex_);
    std::vector<std::optional<policy::Abilities>> out;
    for (const policy::NodeId node : nodes) {
      ++asked_for_abilities[node];
      const auto at = able.find(node);
      out.push_back(at == able.end() || silent.contains(node) ? std::nullopt : std::optional(at->second));
    }
    return out;
  }

  std::map<policy::NodeId, policy::Abilities> able;                 ///< of switches that say it
  std::map<policy::NodeId, int> asked_for_abilities;                ///< how often
  std::map<policy::NodeId, std::map<GroupId, std::string>> groups;  ///< what each switch has
  std::map<policy::NodeId, std::vector<GroupActivity>> activities;  ///< of switches that answer
  std::set<policy::NodeId> silent;
  bool lead_lost = false;  ///< nobody is asked

 private:
  Steps& steps_;
  std::mutex mutex_;
};

class FakeStore : public Store {
 public:
  explicit FakeStore(Steps& steps) : steps_(steps) {}

  std::optional<std::string> put(GroupId group, std::uint64_t generation, const std::string& record) override {
    return error_of(steps_.run([&]() -> Outcome {
      records[group] = record;
      last_generation = std::max(last_generation, generation);
      return {};
    }));
  }
  std::optional<std::string> erase(GroupId group) override {
    return error_of(steps_.run([&]() -> Outcome {
      records.erase(group);
      return {};
    }));
  }
  std::optional<std::string> put_links(const std::string& text) override {
    return error_of(steps_.run([&]() -> Outcome {
      links = text;
      return {};
    }));
  }
  std::optional<std::string> load(Content& content) override {
    content.last_generation = last_generation;
    content.links = links;
    content.records.clear();
    for (const auto& [id, text] : records) content.records.push_back(text);
    return std::nullopt;
  }

  std::optional<std::string> sync() override {
    auto error = on_sync();
    if (!error) disk_ = {records, last_generation, links};
    return error;
  }
  bool shared() const noexcept override { return is_shared; }
  /// What was not on the disk is lost.
  void lose_power() { std::tie(records, last_generation, links) = disk_; }

  bool is_shared = false;
  std::function<std::optional<std::string>()> on_sync = [] { return std::nullopt; };
  std::map<GroupId, std::string> records;
  std::uint64_t last_generation = 0;
  std::string links;

 private:
  static std::optional<std::string> error_of(const Outcome& o) {
    return o.kind == Outcome::Kind::done ? std::nullopt : std::optional<std::string>("the disk is full");
  }
  Steps& steps_;
  std::tuple<std::map<GroupId, std::string>, std::uint64_t, std::string> disk_;
};

/// Two leaves with two hosts each under two spines, with addresses: host N is 10.0.N.2, its leaf 10.0.N.1.
inline Fabric small_fabric(std::uint64_t memory_bytes = 1 << 20) {
  Fabric f{policy::leaf_spine(2, 2, 2, policy::weft_abilities(memory_bytes), 10'000), {}};
  std::uint8_t subnet = 0;
  for (policy::LinkId id = 0; id < f.topology.links().size(); ++id) {
    const policy::Node& lower = f.topology.node(f.topology.link(id).lower);
    const bool host = !lower.is_switch;
    const std::string net = host ? "10.0." + lower.name.substr(1) : "10.1." + std::to_string(subnet++);
    f.addresses.push_back({*wire::IpAddress::parse(net + ".2"), *wire::IpAddress::parse(net + ".1")});
  }
  return f;
}

/// As if a file had stated all of it, with its hosts' addresses.
inline StatedFabric stated_by_file(const Fabric& fabric) {
  StatedFabric stated{fabric.topology, fabric.addresses, {}};
  for (const auto& [address, host] : fabric.by_address) stated.hosts.emplace(host, address);
  return stated;
}

inline CreateRequest request_of(const std::vector<int>& hosts, GroupId group = 0) {
  CreateRequest r;
  r.group = group;
  for (const int host : hosts) {
    const auto n = static_cast<std::uint32_t>(host);
    r.members.push_back(
        {*wire::IpAddress::parse("10.0." + std::to_string(host) + ".2"), 17 + n, 1000 + n, 2000 + n, "gbn"});
  }
  return r;
}

}  // namespace weft::inc::manager
