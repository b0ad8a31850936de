// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// The manager ends, switches refuse or stay silent, and the store fails, at every step and at random ones; and calls
// that go on while switches are asked meet in every order.
#include <gmock/gmock.h>

#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

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
      if (power_fails) store.lose_power();
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
    std::uint64_t all = 0;
    for (policy::NodeId n = 0; n < manager->fabric().topology.nodes().size(); ++n) {
      EXPECT_EQ(manager->policy().ledger().at(n).bytes, bytes[n]);
      all += bytes[n];
    }
    EXPECT_EQ(manager->memory_of(""), all);
  }

  Steps steps;
  FakeSwitches switches{steps};
  FakeStore store{steps};
  TimeNs now = 0;
  bool power_fails = false;  ///< when the process ends, the machine does
  std::unique_ptr<Manager> manager;
};

/// Makes a group with a fault at a step; returns whether the step was reached.
bool make_with(Fault fault, std::uint64_t at, bool power_fails) {
  SCOPED_TRACE("fault " + std::to_string(static_cast<int>(fault)) + " at step " + std::to_string(at) +
               (power_fails ? " and a power failure" : ""));
  World world;
  world.power_fails = power_fails;
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
    for (const bool power_fails : {false, true}) {
      std::uint64_t step = 1;
      while (make_with(fault, step, power_fails)) ++step;
      EXPECT_GT(step, 5u) << "a record, three switches, a record";
    }
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
  world.power_fails = seed % 2 == 0;
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

/// Calls of several threads, cut where they let others go on: an order is carried out at any time between the parts.
class Threads {
 public:
  explicit Threads(std::uint64_t seed) : rng_(seed) {
    world.steps.fault = [this](std::uint64_t) {
      const auto what = calm ? 99 : rng_.below(100);
      return what == 0 ? Fault::lost_before : what == 1 ? Fault::lost_after : what == 2 ? Fault::refuse : Fault::none;
    };
  }

  void step() {
    switch (rng_.below(10)) {
      case 0:
      case 1:
        return create();
      case 2:
        static_cast<void>(world.manager->begin_destroy(any_group(), 0));
        return remove_ended();
      case 3:
        return time_passes();
      case 4:
        return rng_.below(10) == 0 ? mishap() : look();
      default:
        return go_on();
    }
  }
  /// What was begun comes to its end.
  void finish() {
    calm = true;
    while (!making_.empty() || !removing_.empty() || looking_) go_on();
  }

  World world;
  bool calm = false;
  std::uint64_t made = 0, restarts = 0;

 private:
  struct Making {
    Manager::Creation creation;
    std::vector<Outcome> outcomes{};
  };
  struct Removing {
    std::vector<RemoveOrder> orders;
    std::vector<Outcome> outcomes{};
  };
  struct Looking {
    std::vector<policy::NodeId> nodes;
    std::vector<std::optional<std::vector<GroupId>>> has{};
  };

  GroupId any_group() { return static_cast<GroupId>(1 + rng_.below(4)); }

  void create() {
    std::vector<int> hosts;
    for (int host = 0; host < 4; ++host) {
      if (rng_.below(2) == 0) hosts.push_back(host);
    }
    auto creation = world.manager->begin_create(world.now, request_of(hosts, any_group()));
    if (!creation.orders.empty()) making_.push_back({std::move(creation)});
    remove_ended();
  }
  void time_passes() {
    world.now += rng_.below(kSecond / 2);
    for (const auto& [id, group] : world.manager->groups()) {
      if (rng_.below(8) == 0) continue;
      static_cast<void>(world.manager->renew(world.now, id, group.record.generation, std::nullopt));
    }
    world.manager->expire(world.now);
    remove_ended();
  }
  void look() {
    if (looking_) return;
    auto nodes = world.manager->begin_probe(world.now);
    if (!nodes.empty()) looking_ = Looking{std::move(nodes)};
  }
  /// The store may still say of a group that it runs which the last manager had begun to remove.
  void restart() {
    making_.clear();
    removing_.clear();
    looking_.reset();
    ++restarts;
    world.restart();
    for (const auto& [id, group] : world.manager->groups()) {
      for (const auto& s : group.record.decision.tree.switches) {
        if (!world.switches.groups[s.node].contains(id)) lost_.insert({s.node, id});
      }
    }
  }
  /// The manager or a switch starts anew, or a switch has what nobody gave it.
  void mishap() {
    constexpr const char* kNames[] = {"spine0", "spine1", "leaf0", "leaf1"};
    const policy::NodeId node = world.manager->fabric().topology.find(kNames[rng_.below(4)]);
    switch (rng_.below(3)) {
      case 0:
        return restart();
      case 1:
        for (const auto& [id, spec] : world.switches.groups[node]) lost_.insert({node, id});
        return world.switches.groups[node].clear();
      default:
        world.switches.groups[node].emplace(any_group(), "");
    }
  }
  void remove_ended() {
    if (auto orders = world.manager->begin_removal(); !orders.empty()) removing_.push_back({std::move(orders)});
  }
  /// One of those that wait for switches hears of one more, or ends.
  void go_on() {
    std::size_t at = rng_.below(making_.size() + removing_.size() + 1);
    if (at < making_.size()) return make_on(at);
    at -= making_.size();
    if (at < removing_.size()) return remove_on(at);
    if (looking_) look_on();
  }
  void make_on(std::size_t at) {
    Making& m = making_[at];
    const auto& orders = m.creation.orders;
    if (m.outcomes.size() < orders.size()) {
      m.outcomes.push_back(world.switches.install(std::span(orders).subspan(m.outcomes.size(), 1)).front());
      // It is there anew, whatever it had lost before.
      if (m.outcomes.back().kind == Outcome::Kind::done)
        lost_.erase({orders[m.outcomes.size() - 1].node, orders[0].group});
      return;
    }
    const Making done = std::move(m);
    making_.erase(making_.begin() + static_cast<std::ptrdiff_t>(at));
    const bool runs = world.manager->end_create(world.now, done.creation, done.outcomes).refusal == Refusal::none;
    made += runs ? 1 : 0;
    remove_ended();
  }
  void remove_on(std::size_t at) {
    Removing& r = removing_[at];
    if (r.outcomes.size() < r.orders.size()) {
      r.outcomes.push_back(world.switches.remove(std::span(r.orders).subspan(r.outcomes.size(), 1)).front());
      return;
    }
    const Removing done = std::move(r);
    removing_.erase(removing_.begin() + static_cast<std::ptrdiff_t>(at));
    world.manager->end_removal(done.orders, done.outcomes);
  }
  void look_on() {
    Looking& l = *looking_;
    if (l.has.size() < l.nodes.size()) {
      l.has.push_back(world.switches.list(std::span(l.nodes).subspan(l.has.size(), 1), {}).front());
      return;
    }
    const Looking done = *std::exchange(looking_, std::nullopt);
    world.manager->end_probe(done.nodes, done.has);
    remove_ended();
  }

 public:
  /// Nobody has taken away what ranks were told that they have.
  void expect_running_groups_are_whole() const {
    for (const auto& [id, group] : world.manager->groups()) {
      if (group.record.state != GroupState::running) continue;
      for (const auto& s : group.record.decision.tree.switches) {
        const auto has = world.switches.groups.find(s.node);
        const bool there = has != world.switches.groups.end() && has->second.contains(id);
        ASSERT_TRUE(there || lost_.contains({s.node, id})) << "group " << id << " at switch " << s.node;
      }
    }
  }

 private:
  Rng rng_;
  std::vector<Making> making_;
  std::vector<Removing> removing_;
  std::optional<Looking> looking_;
  std::set<std::pair<policy::NodeId, GroupId>> lost_;  ///< what switches lack after a restart
};

TEST(Faults, CallsThatMeetWhileSwitchesAreAskedTakeNothingFromEachOther) {
  std::uint64_t made = 0, restarts = 0;
  for (std::uint64_t seed = 1; seed <= 300 && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Threads threads(seed);
    for (int i = 0; i < 400 && !testing::Test::HasFailure(); ++i) {
      threads.step();
      threads.expect_running_groups_are_whole();
    }
    threads.finish();
    threads.world.settle();
    threads.world.expect_all_or_nothing();
    made += threads.made;
    restarts += threads.restarts;
  }
  EXPECT_GT(made, 1000u);
  EXPECT_GT(restarts, 300u);
}

}  // namespace
}  // namespace weft::inc::manager
