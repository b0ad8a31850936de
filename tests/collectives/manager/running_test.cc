// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "collectives/manager/running.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <future>
#include <mutex>
#include <thread>
#include <utility>

#include "switch/system/clock.h"
#include "tests/collectives/manager/fake_fabric.h"

namespace weft::inc::manager {
namespace {

using namespace std::chrono_literals;

/// Keeps who comes first waiting until a test lets it go on.
class Gate {
 public:
  void close() { closed_ = true; }
  void pass() {
    if (!closed_.exchange(false)) return;
    reached_.set_value();
    opened_.get_future().wait();
  }
  void wait_until_reached() { reached_.get_future().wait(); }
  void open() { opened_.set_value(); }

 private:
  std::atomic<bool> closed_ = false;
  std::promise<void> reached_, opened_;
};

/// Switches with a gate for each kind of question. They have answered when they come to it, and the answer is late.
class SlowSwitches final : public FakeSwitches {
 public:
  using FakeSwitches::FakeSwitches;
  std::vector<Outcome> install(std::span<const InstallOrder> orders) override {
    auto out = FakeSwitches::install(orders);
    installing.pass();
    return out;
  }
  std::vector<Outcome> remove(std::span<const RemoveOrder> orders) override {
    auto out = FakeSwitches::remove(orders);
    removals += orders.size();
    removing.pass();
    return out;
  }
  std::vector<std::optional<std::vector<GroupId>>> list(std::span<const policy::NodeId> nodes,
                                                        const Pace& pace) override {
    auto out = FakeSwitches::list(nodes, pace);
    looks += 1;
    pace_ns = pace.time.count();
    if (pace_to_the_end && nodes.size() > 0) {
      std::unique_lock lock(stop_mutex_);
      std::condition_variable_any().wait(lock, pace.stop, [] { return false; });
      std::fill(out.begin(), out.end(), std::nullopt);
    }
    listing.pass();
    return out;
  }
  Gate installing, removing, listing;
  std::atomic<std::uint64_t> removals = 0, looks = 0;
  std::atomic<std::int64_t> pace_ns = 0;      ///< of the last look
  std::atomic<bool> pace_to_the_end = false;  ///< a look asks nobody, and ends when it is told to stop

 private:
  std::mutex stop_mutex_;
};

class RunningManagerTest : public testing::Test {
 protected:
  void start(ManagerOptions options = {}) {
    manager.emplace(small_fabric(), options, switches, store, 1);
    ASSERT_EQ(manager->recover(monotonic_now()), std::nullopt);
    running.emplace(*manager);
  }
  /// What a call gives, which does not wait for the gate.
  template <class Call>
  auto passing(Gate& gate, Call&& call) {
    auto result = std::async(std::launch::async, std::forward<Call>(call));
    const bool in_time = result.wait_for(10s) == std::future_status::ready;
    EXPECT_TRUE(in_time) << "it waits for switches that another call asks";
    if (!in_time) gate.open();
    return result.get();
  }
  std::size_t groups() {
    std::size_t out = 0;
    running->read([&](const Manager& m, TimeNs) { out = m.groups().size(); });
    return out;
  }
  /// Returns when all is noted that a look at switches has found which began after this call.
  void wait_for_looks() {
    const std::uint64_t before = switches.looks;
    while (switches.looks < before + 3) std::this_thread::sleep_for(1ms);
  }

  void wait_for_next_look() {
    const std::uint64_t before = switches.looks;
    while (switches.looks < before + 1) std::this_thread::sleep_for(1ms);
  }

  Steps steps;
  SlowSwitches switches{steps};
  FakeStore store{steps};
  std::optional<Manager> manager;
  std::optional<RunningManager> running;
};

TEST_F(RunningManagerTest, OtherCallsDoNotWaitForSwitchesOfAGroupThatIsMade) {
  start();
  switches.installing.close();
  auto slow = std::async(std::launch::async, [&] { return running->create(request_of({0, 1, 2, 3}, 1)); });
  switches.installing.wait_until_reached();
  const CreateReply other = passing(switches.installing, [&] { return running->create(request_of({0, 1}, 2)); });
  EXPECT_EQ(other.refusal, Refusal::none);
  EXPECT_EQ(running->renew(2, other.generation, {}), Refusal::none);
  EXPECT_EQ(running->explain(request_of({0, 1}, 1)).refusal, Refusal::bad_request) << "the number is taken";
  EXPECT_EQ(running->renew(1, 1, {}), Refusal::unknown_group) << "its ranks have not been told of it";
  switches.installing.open();
  const CreateReply first = slow.get();
  EXPECT_EQ(first.refusal, Refusal::none);
  EXPECT_EQ(running->renew(1, first.generation, {}), Refusal::none);
  EXPECT_EQ(running->destroy(1, 0), Refusal::none);
  EXPECT_EQ(running->renew(1, first.generation, {}), Refusal::unknown_group);
}

TEST_F(RunningManagerTest, WhyAGroupWasEndedIsKnownAsSoonAsARankHasAsked) {
  start();
  const CreateReply made = running->create(request_of({0, 1, 2, 3}, 1));
  EXPECT_EQ(running->why_ended(1, made.generation), "") << "its switches do not answer";
  std::map<std::string, policy::NodeId> nodes;
  running->read([&](const Manager& m, TimeNs) {
    for (const auto& s : m.groups().at(1).record.decision.tree.switches)
      nodes[m.fabric().topology.node(s.node).name] = s.node;
  });
  ASSERT_EQ(nodes.size(), 3u);
  const auto [first, second] = std::pair(nodes.begin(), std::next(nodes.begin()));
  GroupActivity other, noticed, heard;
  other.group = 2;
  other.failure = "another group's";
  noticed.group = heard.group = 1;
  switches.activities[first->second] = {other, noticed};
  EXPECT_EQ(running->why_ended(1, made.generation), "") << "they have not ended it";
  heard.failure = "parent switch (10.1.0.1): a fatal NAK";
  heard.neighbour_failed = true;
  switches.activities[second->second] = {heard};
  EXPECT_EQ(running->why_ended(1, made.generation + 1), "") << "another generation";
  noticed.failure = "rank 3 said so";
  switches.activities[first->second] = {other, noticed};
  const std::string right = first->first + ": rank 3 said so";
  EXPECT_EQ(running->known_why(1, made.generation), "") << "nobody has asked";
  EXPECT_EQ(running->why_ended(1, made.generation), right);
  EXPECT_EQ(running->destroy(1, made.generation), Refusal::none);
  switches.activities.clear();
  EXPECT_EQ(running->known_why(1, made.generation), right);
  EXPECT_EQ(running->why_ended(1, made.generation), right);
  EXPECT_EQ(running->known_why(2, made.generation), "");
  EXPECT_EQ(running->known_why(1, made.generation, {"physics"}), "") << "a tenant, whose it is not";
}

TEST_F(RunningManagerTest, AFailedNeighbourIsSaidWhereNobodyKnowsMore) {
  start();
  const CreateReply made = running->create(request_of({0, 1}, 1));
  policy::NodeId leaf = policy::kNoNode;
  running->read([&](const Manager& m, TimeNs) { leaf = m.groups().at(1).record.decision.tree.switches.at(0).node; });
  GroupActivity heard;
  heard.group = 1;
  heard.failure = "rank 1: a fatal NAK";
  heard.neighbour_failed = true;
  switches.activities[leaf] = {heard};
  EXPECT_THAT(running->why_ended(1, made.generation), testing::HasSubstr("rank 1: a fatal NAK"));
}

TEST_F(RunningManagerTest, OtherCallsDoNotWaitForSwitchesThatForgetAGroup) {
  start();
  const CreateReply first = running->create(request_of({0, 1, 2, 3}, 1)),
                    second = running->create(request_of({0, 1}, 2));
  switches.removing.close();
  auto slow = std::async(std::launch::async, [&] { return running->destroy(1, first.generation); });
  switches.removing.wait_until_reached();
  const auto create = [&](GroupId id) {
    return passing(switches.removing, [&, id] { return running->create(request_of({2, 3}, id)).refusal; });
  };
  EXPECT_EQ(create(3), Refusal::none);
  EXPECT_EQ(create(1), Refusal::bad_request) << "a late order would meet the new group";
  EXPECT_EQ(running->renew(1, first.generation, {}), Refusal::unknown_group) << "ranks are told at once";
  EXPECT_EQ(running->renew(2, second.generation, {}), Refusal::none);
  EXPECT_EQ(passing(switches.removing, [&] { return running->destroy(1, first.generation); }), Refusal::none);
  EXPECT_EQ(passing(switches.removing, [&] { return running->destroy(1, 99); }), Refusal::unknown_group);
  EXPECT_EQ(passing(switches.removing, [&] { return running->destroy(2, 0); }), Refusal::none);
  EXPECT_EQ(switches.removals, 4u) << "three switches of the one, one of the other, none of them twice";
  EXPECT_EQ(groups(), 2u);
  switches.removing.open();
  EXPECT_EQ(slow.get(), Refusal::none);
  EXPECT_EQ(groups(), 1u);
  EXPECT_EQ(create(1), Refusal::none);
}

TEST_F(RunningManagerTest, OtherCallsDoNotWaitForAGroupThatExpires) {
  ManagerOptions options;
  options.lease_ns = 50'000'000;
  options.probe_ns = 10'000'000;
  start(options);
  switches.removing.close();
  const CreateReply silent = running->create(request_of({0, 1, 2, 3}, 1));
  switches.removing.wait_until_reached();
  EXPECT_EQ(running->renew(1, silent.generation, {}), Refusal::unknown_group);
  const auto made = passing(switches.removing, [&] { return running->create(request_of({0, 1}, 2)); });
  EXPECT_EQ(made.refusal, Refusal::none);
  EXPECT_EQ(passing(switches.removing, [&] { return running->destroy(2, 0); }), Refusal::none);
  EXPECT_EQ(passing(switches.removing, [&] { return running->destroy(1, 0); }), Refusal::none) << "it ends already";
  wait_for_looks();
  EXPECT_EQ(groups(), 1u) << "looks go on, but the order is still under way";
  switches.removing.open();
  for (int i = 0; i < 10'000 && groups() > 0; ++i) std::this_thread::sleep_for(1ms);
  EXPECT_EQ(groups(), 0u);
  EXPECT_TRUE(store.records.empty());
}

TEST_F(RunningManagerTest, WhatSwitchesSaidBeforeAGroupWasRemovedDoesNotRemoveTheNext) {
  ManagerOptions options;
  options.probe_ns = 10'000'000;
  start(options);
  const CreateReply old = running->create(request_of({0, 1, 2, 3}, 1));
  switches.listing.close();
  switches.listing.wait_until_reached();
  ASSERT_EQ(passing(switches.listing, [&] { return running->destroy(1, old.generation); }), Refusal::none);
  // Late answers say of all three switches that they have a group 1, and the new one is on one of them.
  const auto next = passing(switches.listing, [&] { return running->create(request_of({2, 3}, 1)); });
  ASSERT_EQ(next.refusal, Refusal::none);
  EXPECT_EQ(switches.removals, 3u);
  switches.listing.open();
  wait_for_looks();
  EXPECT_EQ(running->renew(1, next.generation, {}), Refusal::none);
  EXPECT_EQ(switches.removals, 3u) << "nobody has what late answers speak of";
}

TEST_F(RunningManagerTest, GroupsExpireWhileASwitchKeepsALookWaiting) {
  ManagerOptions options;
  options.lease_ns = 50'000'000;
  options.probe_ns = 10'000'000;
  start(options);
  switches.listing.close();
  switches.listing.wait_until_reached();
  EXPECT_EQ(passing(switches.listing, [&] { return running->create(request_of({0, 1}, 1)); }).refusal, Refusal::none);
  for (int i = 0; i < 10'000 && groups() > 0; ++i) std::this_thread::sleep_for(1ms);
  EXPECT_EQ(groups(), 0u);
  switches.listing.open();
}

/// Of a fabric whose links have one group each.
class PatientManagerTest : public RunningManagerTest {
 protected:
  void start_with_patience(std::chrono::milliseconds patience) {
    ManagerOptions options;
    options.policy.kind = policy::PolicyKind::edge_disjoint;
    options.lease_ns = 60'000'000'000;
    options.patience_ns = static_cast<TimeNs>(std::chrono::nanoseconds(patience).count());
    start(options);
  }
  std::future<CreateReply> begin(const std::vector<int>& hosts, GroupId id, std::function<bool()> gone = {}) {
    return std::async(std::launch::async, [=, this] { return running->create(request_of(hosts, id), gone); });
  }
  static bool waits(std::future<CreateReply>& reply) { return reply.wait_for(100ms) == std::future_status::timeout; }
};

TEST_F(PatientManagerTest, GroupsWaitForLinksInTheOrderInWhichTheyCame) {
  start_with_patience(20s);
  ASSERT_EQ(running->create(request_of({0, 1}, 1)).refusal, Refusal::none);
  auto second = begin({0, 1}, 2);
  EXPECT_TRUE(waits(second));
  auto third = begin({1, 0}, 3);
  EXPECT_TRUE(waits(third));
  EXPECT_EQ(running->create(request_of({2, 3}, 4)).refusal, Refusal::none) << "nobody waits for what it needs";
  EXPECT_EQ(running->explain(request_of({0, 1}, 5)).reason, policy::Reason::links_taken) << "which waits for nobody";
  ASSERT_EQ(running->destroy(1, 0), Refusal::none);
  EXPECT_EQ(second.get().refusal, Refusal::none);
  EXPECT_TRUE(waits(third));
  ASSERT_EQ(running->destroy(2, 0), Refusal::none);
  EXPECT_EQ(third.get().refusal, Refusal::none);
}

TEST_F(PatientManagerTest, AGroupThatHasWaitedLongEnoughIsRefused) {
  start_with_patience(150ms);
  ASSERT_EQ(running->create(request_of({0, 1}, 1)).refusal, Refusal::none);
  const auto start = std::chrono::steady_clock::now();
  const CreateReply reply = running->create(request_of({0, 1}, 2));
  EXPECT_GE(std::chrono::steady_clock::now() - start, 150ms);
  EXPECT_EQ(reply.refusal, Refusal::no_tree);
  EXPECT_EQ(reply.reason, policy::Reason::links_taken);
  EXPECT_THAT(reply.sentences, testing::Contains("It has waited for 150 ms."));
}

TEST_F(PatientManagerTest, NobodyWaitsForWhatDoesNotPass) {
  start_with_patience(20s);
  CreateRequest request = request_of({0, 1, 2, 3}, 1);
  const auto start = std::chrono::steady_clock::now();
  request.members[1].address = request.members[0].address;
  EXPECT_EQ(running->create(request).reason, policy::Reason::bad_request);
  EXPECT_LT(std::chrono::steady_clock::now() - start, 10s);
}

TEST_F(PatientManagerTest, NothingIsMadeForWhoHasGone) {
  start_with_patience(20s);
  ASSERT_EQ(running->create(request_of({0, 1}, 1)).refusal, Refusal::none);
  std::atomic<bool> gone = false;
  auto second = begin({0, 1}, 2, [&] { return gone.load(); });
  EXPECT_TRUE(waits(second));
  gone = true;
  EXPECT_EQ(second.get().refusal, Refusal::no_tree);
  EXPECT_EQ(groups(), 1u);
}

TEST_F(PatientManagerTest, ManyDoNotWait) {
  start_with_patience(20s);
  ASSERT_EQ(running->create(request_of({0, 1}, 1)).refusal, Refusal::none);
  std::vector<std::future<CreateReply>> waiting;
  std::atomic<bool> gone = false;
  for (GroupId id = 2; id < 34; ++id) waiting.push_back(begin({0, 1}, id, [&] { return gone.load(); }));
  // One more than wait is refused at once.
  const auto refused_at_once = [&] {
    return std::any_of(waiting.begin(), waiting.end(),
                       [](auto& reply) { return reply.wait_for(0s) == std::future_status::ready; });
  };
  for (GroupId id = 34; id < 64 && !refused_at_once(); ++id) {
    std::this_thread::sleep_for(50ms);
    waiting.push_back(begin({0, 1}, id, [&] { return gone.load(); }));
  }
  EXPECT_TRUE(refused_at_once());
  EXPECT_GE(waiting.size(), 33u);
  gone = true;
  for (auto& reply : waiting) EXPECT_EQ(reply.get().refusal, Refusal::no_tree);
}

TEST_F(RunningManagerTest, LooksTakeAPartOfTheirPeriodAndEndWithTheManager) {
  ManagerOptions options;
  options.probe_ns = 20'000'000;
  start(options);
  const CreateReply made = running->create(request_of({0, 1, 2, 3}, 1));
  ASSERT_EQ(made.refusal, Refusal::none);
  wait_for_looks();
  EXPECT_EQ(switches.pace_ns, 15'000'000);
  switches.pace_to_the_end = true;
  wait_for_next_look();
  const auto start = std::chrono::steady_clock::now();
  running.reset();
  EXPECT_LT(std::chrono::steady_clock::now() - start, 10s);
  const auto& nodes = manager->policy().topology().nodes();
  EXPECT_TRUE(std::all_of(nodes.begin(), nodes.end(), [](const policy::Node& n) { return n.up; }))
      << "nobody was asked, so nobody was silent";
}

}  // namespace
}  // namespace weft::inc::manager
