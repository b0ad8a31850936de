// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// All ranks of a group on a Fabric, with a daemon that answers as a test says.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "collectives/comm/group.h"
#include "tests/collectives/comm/memory_fabric.h"

namespace weft::inc::comm::testing {

class World {
 public:
  /// @param daemons  false: no host has one
  World(std::uint64_t seed, std::uint32_t ranks, const GroupSettings& settings, bool daemons = false)
      : fabric(seed, ranks), draw_(seed + 1), told(ranks) {
    for (std::uint32_t r = 0; r < ranks; ++r) {
      transports_.push_back(std::make_unique<MemoryTransport>(fabric, r));
      memories.push_back(std::make_unique<Memory>(*transports_.back()));
      const auto tell = [this, r, daemons](const DaemonMessage& m) {
        if (daemons) told[r].push_back(m);
        return daemons;
      };
      groups.push_back(std::make_unique<Group>(*memories[r], tell, r, ranks, settings));
    }
  }
  ~World() {
    groups.clear();
    EXPECT_TRUE(fabric.regions.empty()) << "memory is still registered";
  }

  std::vector<Handle> handles() const {
    std::vector<Handle> out;
    for (const auto& g : groups) out.push_back(*read_handle(write_handle(g->handle())));
    return out;
  }
  void connect(bool to_known_switch) {
    const auto all = handles();
    for (std::uint32_t r = 0; r < groups.size(); ++r) {
      std::optional<SwitchEnd> known;
      if (to_known_switch) known = {Fabric::switch_address(), Fabric::kFirstSwitchQp + r, 7, 4};
      EXPECT_EQ(groups[r]->connect(all, known), "");
    }
  }
  /// What a manager answers that has made group 7.
  GroupCreated created() const {
    GroupCreated out;
    out.refusal = "none";
    out.group = 7;
    out.generation = 42;
    out.window = 4;
    out.lease_ms = 5000;
    for (std::uint32_t r = 0; r < groups.size(); ++r) {
      out.endpoints.push_back({Fabric::switch_address(), Fabric::kFirstSwitchQp + r});
    }
    return out;
  }

  /// Until the condition holds, or nothing goes on any more. `awake`: ranks that run.
  bool run(const std::function<bool()>& condition, std::uint32_t awake = UINT32_MAX) {
    for (int still = 0; still < 3;) {
      if (condition()) return true;
      bool some = false;
      for (std::size_t i = draw_.below(4); i > 0; --i) some |= fabric.step();
      const std::size_t first = draw_.below(groups.size());
      for (std::size_t i = 0; i < groups.size(); ++i) {
        const std::size_t r = (first + i) % groups.size();
        if ((awake >> r & 1) != 0) some |= groups[r]->progress();
      }
      some |= fabric.step();
      still = some ? 0 : still + 1;
    }
    return condition();
  }
  bool run_to(Group::State state) {
    return run([&] {
      for (const auto& g : groups) {
        if (g->state() != state) return false;
      }
      return true;
    });
  }

  Fabric fabric;

 private:
  Rng draw_;
  std::vector<std::unique_ptr<MemoryTransport>> transports_;

 public:
  std::vector<std::vector<DaemonMessage>> told;  ///< by rank: what its daemon has heard
  std::vector<std::unique_ptr<Memory>> memories;
  std::vector<std::unique_ptr<Group>> groups;
};

inline bool over(const std::shared_ptr<Request>& r) {
  return r->state == Request::State::done || r->state == Request::State::failed;
}
inline bool all_over(const std::vector<std::shared_ptr<Request>>& all) {
  for (const auto& r : all) {
    if (!over(r)) return false;
  }
  return true;
}

}  // namespace weft::inc::comm::testing
