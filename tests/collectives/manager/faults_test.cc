// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// The manager ends, switches refuse or stay silent, and the store fails, at every step and at random ones.
#include <gmock/gmock.h>

#include <memory>

#include "switch/base/rng.h"
#include "switch/base/time.h"
#include "tests/collectives/manager/fake_fabric.h"

namespace weft::inc::manager {
namespace {

/// Switches and store, and one manager after another.
class World {
 public:
  World() { restart(); }

  /// Runs `act`; when the process ends in it, another one starts. False: it ended.
  template <class Act>
  bool run(Act&& act) {
    try {
      act(*manager);
      return true;
    } catch (const Crash&) {
      restart();
      return false;
    }
  }
  void restart() {
    ManagerOptions options;
    options.policy.kind = policy::PolicyKind::edge_disjoint;
    manager = std::make_unique<Manager>(small_fabric(), options, switches, store, 1);
    ASSERT_EQ(manager->recover(now), std::nullopt);
  }
  /// Nothing fails any more; all that was begun comes to its end.
  void settle() {
    steps.fault = [](std::uint64_t) { return Fault::none; };
    switches.silent.clear();
    for (int i = 0; i < 2; ++i) manager->tick(now += kSecond);
  }
  /// Every switch has its part of every group that runs, and nothing else; so have the books and the store.
  void expect_all_or_nothing() const {
    std::map<policy::NodeId, std::set<GroupId>> expected, has;
    std::map<policy::NodeId, std::uint64_t> bytes;
    for (const auto& [id, group] : manager->groups()) {
      EXPECT_EQ(group.record.state, GroupState::running) << "group " << id;
      for (const auto& a : group.record.decision.memory) {
        expected[a.node].insert(id);
        bytes[a.node] += a.bytes;
      }
      ASSERT_TRUE(store.records.contains(id));
      EXPECT_EQ(from_text(store.records.at(id), manager->fabric().topology), group.record);
      EXPECT_LE(group.record.generation, store.last_generation);
    }
    EXPECT_EQ(store.records.size(), manager->groups().size());
    for (const auto& [node, groups] : switches.groups) {
      for (const auto& [id, spec] : groups) has[node].insert(id);
    }
    EXPECT_EQ(has, expected);
    EXPECT_EQ(manager->policy().groups().size(), manager->groups().size());
    for (policy::NodeId n = 0; n < manager->fabric().topology.nodes().size(); ++n) {
      EXPECT_EQ(manager->policy().ledger().at(n).bytes, bytes[n]);
    }
  }

  Steps steps;
  FakeSwitches switches{steps};
  FakeStore store{steps};
  TimeNs now = 0;
  std::unique_ptr<Manager> manager;
};

/// Makes a group with a fault at a step; returns whether the step was reached.
bool make_with(Fault fault, std::uint64_t at) {
  SCOPED_TRACE("fault " + std::to_string(static_cast<int>(fault)) + " at step " + std::to_string(at));
  World world;
  world.steps.fault = [&](std::uint64_t n) { return n == at ? fault : Fault::none; };
  CreateReply reply;
  const bool ended = !world.run([&](Manager& m) { reply = m.create(world.now, request_of({0, 1, 2, 3}, 7)); });
  const bool reached = world.steps.done >= at;
  const bool told = !ended && reply.refusal == Refusal::none;
  world.settle();
  world.expect_all_or_nothing();
  if (told) {
    EXPECT_TRUE(world.manager->renew(world.now, 7, reply.generation, 0)) << "its ranks were told that it is there";
  }
  if (!ended && !told) {
    EXPECT_TRUE(world.manager->groups().empty()) << "its ranks were told that it is not there";
  }
  return reached;
}

TEST(Faults, AtEveryStepOfMakingAGroup) {
  for (const Fault fault : kFaults) {
    std::uint64_t step = 1;
    while (make_with(fault, step)) ++step;
    EXPECT_GT(step, 5u) << "a record, three switches, a record";
  }
}

bool destroy_with(Fault fault, std::uint64_t at) {
  SCOPED_TRACE("fault " + std::to_string(static_cast<int>(fault)) + " at step " + std::to_string(at));
  World world;
  EXPECT_EQ(world.manager->create(world.now, request_of({0, 1, 2, 3}, 7)).refusal, Refusal::none);
  world.steps.done = 0;
  world.steps.fault = [&](std::uint64_t n) { return n == at ? fault : Fault::none; };
  const bool ended = !world.run([&](Manager& m) { EXPECT_EQ(m.destroy(world.now, 7, 0), Refusal::none); });
  const bool reached = world.steps.done >= at;
  world.settle();
  world.expect_all_or_nothing();
  if (!ended) {
    EXPECT_TRUE(world.manager->groups().empty());
  }
  return reached;
}

TEST(Faults, AtEveryStepOfDestroyingAGroup) {
  for (const Fault fault : kFaults) {
    std::uint64_t step = 1;
    while (destroy_with(fault, step)) ++step;
    EXPECT_GT(step, 4u) << "three switches, a record";
  }
}

void random_life(std::uint64_t seed, int& crashes, int& made) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  Rng rng(seed);
  World world;
  const auto random_fault = [&](std::uint64_t) { return rng.below(12) == 0 ? kFaults[rng.below(5)] : Fault::none; };
  for (int i = 0; i < 60; ++i) {
    world.steps.fault = random_fault;
    if (rng.below(6) == 0) world.switches.silent.insert(static_cast<policy::NodeId>(rng.below(4)));
    if (rng.below(3) == 0) world.switches.silent.clear();
    const auto what = rng.below(10);
    const auto id = static_cast<GroupId>(1 + rng.below(4));
    if (what == 9) world.switches.groups[static_cast<policy::NodeId>(rng.below(4))].clear();  // it restarts
    const bool stayed = world.run([&](Manager& m) {
      if (what < 5) {
        std::vector<int> hosts;
        for (int host = 0; host < 4; ++host) {
          if (rng.below(2) == 0) hosts.push_back(host);
        }
        made += m.create(world.now, request_of(hosts, id)).refusal == Refusal::none ? 1 : 0;
      } else if (what < 7) {
        static_cast<void>(m.destroy(world.now, id, 0));
      } else {
        m.tick(world.now += kSecond);
        for (const auto& [group, state] : m.groups()) {
          if (rng.below(4) != 0) static_cast<void>(m.renew(world.now, group, state.record.generation, std::nullopt));
        }
      }
    });
    crashes += stayed ? 0 : 1;
    // Whatever failed: no switch gives more than it has, and no link twice.
    for (policy::NodeId n = 0; n < world.manager->fabric().topology.nodes().size(); ++n) {
      ASSERT_LE(world.manager->policy().ledger().at(n).bytes, std::uint64_t{1} << 20);
    }
    for (policy::LinkId l = 0; l < world.manager->fabric().topology.links().size(); ++l) {
      ASSERT_LE(world.manager->policy().ledger().link(l).groups.size(), 1u);
    }
  }
  world.settle();
  world.expect_all_or_nothing();
}

TEST(Faults, AtRandomStepsOfALongLife) {
  int crashes = 0, made = 0;
  for (std::uint64_t seed = 1; seed <= 500 && !testing::Test::HasFailure(); ++seed) random_life(seed, crashes, made);
  EXPECT_GT(crashes, 500);
  EXPECT_GT(made, 500);
}

}  // namespace
}  // namespace weft::inc::manager
