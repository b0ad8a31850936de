// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "collectives/manager/manager.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "switch/base/time.h"
#include "tests/collectives/manager/fake_fabric.h"

namespace weft::inc::manager {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class ManagerTest : public testing::Test {
 protected:
  void start(std::uint64_t memory_bytes = 1 << 20, policy::PolicyKind kind = policy::PolicyKind::spatial) {
    ManagerOptions options;
    options.policy.kind = kind;
    manager.emplace(small_fabric(memory_bytes), options, switches, store, 1);
    ASSERT_EQ(manager->recover(now), std::nullopt);
  }
  void SetUp() override { start(); }
  [[nodiscard]] policy::NodeId node(const std::string& name) const { return manager->fabric().topology.find(name); }
  /// Switches that have a group.
  [[nodiscard]] std::size_t at(GroupId group) const {
    std::size_t n = 0;
    for (const auto& [where, groups] : switches.groups) n += groups.contains(group) ? 1 : 0;
    return n;
  }
  void pass(TimeNs ns) {
    now += ns;
    manager->tick(now);
  }
  void remove_ended() {
    const auto orders = manager->begin_removal();
    manager->end_removal(orders, switches.remove(orders));
  }
  void expect_nothing_held() const {
    EXPECT_TRUE(manager->groups().empty());
    EXPECT_TRUE(manager->policy().groups().empty());
    EXPECT_TRUE(store.records.empty());
    for (policy::NodeId n = 0; n < manager->fabric().topology.nodes().size(); ++n) {
      EXPECT_EQ(manager->policy().ledger().at(n).bytes, 0u);
    }
  }

  Steps steps;
  FakeSwitches switches{steps};
  FakeStore store{steps};
  std::optional<Manager> manager;
  TimeNs now = 0;
};

TEST_F(ManagerTest, AGroupIsOnAllSwitchesOfItsTreeUntilItIsDestroyed) {
  const CreateReply reply = manager->create(now, request_of({0, 1, 2, 3}, 7));
  ASSERT_EQ(reply.refusal, Refusal::none);
  EXPECT_EQ(reply.group, 7u);
  EXPECT_EQ(reply.generation, 1u);
  EXPECT_EQ(reply.window, 4u);
  EXPECT_EQ(at(7), 3u);
  EXPECT_EQ(store.records.size(), 1u);
  ASSERT_EQ(reply.endpoints.size(), 4u);
  for (std::uint32_t rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(reply.endpoints[rank].address.to_string(), "10.0." + std::to_string(rank) + ".1");
    EXPECT_EQ(reply.endpoints[rank].peer_qp, 17 + rank);
    EXPECT_EQ(reply.endpoints[rank].first_rx, 1000 + rank);
    EXPECT_EQ(reply.endpoints[rank].first_tx, 2000 + rank);
  }
  EXPECT_EQ(manager->destroy(now, 7, reply.generation + 1), Refusal::unknown_group);
  EXPECT_EQ(manager->destroy(now, 8, 0), Refusal::unknown_group);
  EXPECT_EQ(manager->destroy(now, 7, reply.generation), Refusal::none);
  EXPECT_EQ(at(7), 0u);
  expect_nothing_held();
}

TEST_F(ManagerTest, NumbersAreTheRanksOrTheManagersAndGenerationsAreNew) {
  EXPECT_EQ(manager->create(now, request_of({0, 1}, 2)).group, 2u);
  EXPECT_EQ(manager->create(now, request_of({0, 1})).group, 1u);
  const CreateReply third = manager->create(now, request_of({0, 1}));
  EXPECT_EQ(third.group, 3u);
  EXPECT_EQ(third.generation, 3u);
  EXPECT_EQ(manager->create(now, request_of({0, 1}, 3)).refusal, Refusal::bad_request);
  EXPECT_EQ(manager->destroy(now, 3, 0), Refusal::none);
  EXPECT_EQ(manager->create(now, request_of({0, 1}, 3)).generation, 4u);
}

TEST_F(ManagerTest, NumbersAreUsedInTurn) {
  ManagerOptions options;
  options.first_group = 10;
  options.last_group = 12;
  manager.emplace(small_fabric(), options, switches, store, 1);
  ASSERT_EQ(manager->recover(now), std::nullopt);
  for (const GroupId id : {10u, 11u, 12u, 10u, 11u}) {
    const CreateReply reply = manager->create(now, request_of({0, 1}));
    EXPECT_EQ(reply.group, id);
    EXPECT_EQ(manager->destroy(now, reply.group, 0), Refusal::none);
  }
  for (int i = 0; i < 3; ++i) EXPECT_EQ(manager->create(now, request_of({0, 1})).refusal, Refusal::none);
  EXPECT_THAT(manager->create(now, request_of({0, 1})).sentences, ElementsAre(HasSubstr("in use")));
}

TEST_F(ManagerTest, GroupsHaveWhatBothTheFileAndTheSwitchAllow) {
  const policy::NodeId leaf = node("leaf0");
  CreateRequest in_mode_i = request_of({0, 1}), in_mode_ii = request_of({0, 1});
  in_mode_i.options.mode = Mode::i;
  in_mode_ii.options.mode = Mode::ii;
  EXPECT_EQ(manager->explain(in_mode_ii).refusal, Refusal::none) << "the file says so, and the switch was not asked";
  switches.able[leaf] = {1 << 30, policy::bit(Mode::i), policy::kAllTypes, 64};
  pass(0);
  EXPECT_EQ(manager->explain(in_mode_ii).reason, policy::Reason::unsupported);
  EXPECT_EQ(manager->explain(in_mode_i).refusal, Refusal::none);
  EXPECT_EQ(manager->policy().topology().node(leaf).abilities.memory_bytes, 1u << 20) << "the file allows no more";
  // It is asked when it comes up, not in each look.
  pass(1'000'000'000);
  EXPECT_EQ(switches.asked_for_abilities[leaf], 1);
  switches.silent.insert(leaf);
  pass(1'000'000'000);
  switches.silent.clear();
  switches.able[leaf] = {1 << 30, policy::kAllModes, policy::bit(DataType::fp32), 64};
  pass(1'000'000'000);
  EXPECT_EQ(switches.asked_for_abilities[leaf], 2);
  EXPECT_EQ(manager->explain(in_mode_ii).reason, policy::Reason::unsupported) << "types are missing now";
  in_mode_ii.options.types = policy::bit(DataType::fp32);
  EXPECT_EQ(manager->explain(in_mode_ii).refusal, Refusal::none);
  switches.able[leaf] = {1 << 30, policy::kAllModes, policy::kAllTypes, 1};
  switches.silent.insert(leaf);
  pass(1'000'000'000);
  switches.silent.clear();
  pass(1'000'000'000);
  EXPECT_EQ(manager->explain(in_mode_ii).reason, policy::Reason::too_many_children);
}

TEST_F(ManagerTest, ASwitchThatIsSilentForALeaseEndsItsGroupsWhoeverRenewsThem) {
  const CreateReply over_both = manager->create(now, request_of({0, 1, 2, 3}, 7));
  const CreateReply over_one = manager->create(now, request_of({2, 3}, 8));
  const policy::NodeId leaf = node("leaf0");
  const TimeNs step = manager->options().probe_ns;
  const auto step_on = [&] {
    now += step;
    ASSERT_TRUE(manager->renew(now, 8, over_one.generation, std::nullopt));
    static_cast<void>(manager->renew(now, 7, over_both.generation, std::nullopt));
    manager->tick(now);
  };
  step_on();
  switches.silent.insert(leaf);
  for (TimeNs silence = 0; silence < manager->options().lease_ns; silence += step) {
    step_on();
    ASSERT_EQ(manager->groups().at(7).record.state, GroupState::running) << silence;
  }
  // An answer in between begins the count anew.
  switches.silent.clear();
  step_on();
  switches.silent.insert(leaf);
  for (TimeNs silence = 0; silence < manager->options().lease_ns; silence += step) step_on();
  EXPECT_EQ(manager->groups().at(7).record.state, GroupState::running);
  step_on();
  EXPECT_EQ(manager->groups().at(7).record.state, GroupState::removing);
  EXPECT_EQ(manager->groups().at(7).ending, Ending::switch_silent);
  EXPECT_FALSE(manager->renew(now, 7, over_both.generation, std::nullopt)) << "its ranks hear of it";
  EXPECT_EQ(manager->groups().at(8).record.state, GroupState::running);
  EXPECT_EQ(at(7), 1u) << "only the silent one may still have it";
  switches.silent.clear();
  step_on();
  EXPECT_EQ(manager->groups().count(7), 0u);
}

TEST_F(ManagerTest, ATimeInWhichNobodyCouldBeHeardCountsForNoLease) {
  ASSERT_EQ(manager->create(now, request_of({0, 1}, 7)).refusal, Refusal::none);
  const TimeNs lease = manager->options().lease_ns;
  now += 3 * lease;
  manager->excuse(now, 3 * lease - lease / 8);
  manager->expire(now);
  EXPECT_EQ(manager->groups().at(7).record.state, GroupState::running);
  EXPECT_EQ(manager->next_expiry(), now + lease - lease / 8);
  manager->excuse(now, 10 * lease);
  EXPECT_EQ(manager->next_expiry(), now + lease) << "nobody has been heard of in the future";
  pass(lease);
  EXPECT_EQ(manager->groups().count(7), 0u);
}

TEST_F(ManagerTest, WhatChangesWhileSwitchesAreAskedIsNotTakenForLost) {
  auto creation = manager->begin_create(now, request_of({0, 1, 2, 3}, 7));
  ASSERT_EQ(creation.orders.size(), 3u);
  const auto nodes = manager->begin_probe(now);
  const auto before = switches.list(nodes, {});
  const auto outcomes = switches.install(creation.orders);
  EXPECT_EQ(manager->end_create(now, std::move(creation), outcomes).refusal, Refusal::none);
  manager->end_probe(nodes, before);
  EXPECT_TRUE(manager->begin_removal().empty());
  EXPECT_EQ(manager->groups().at(7).record.state, GroupState::running) << "the switches had been asked before";
  // The next look is by what there is now.
  EXPECT_TRUE(manager->begin_probe(now).empty()) << "it is not time yet";
  switches.groups.clear();
  pass(kSecond);
  expect_nothing_held();
}

TEST_F(ManagerTest, AGroupThatIsBeingMadeIsNoStranger) {
  auto creation = manager->begin_create(now, request_of({0, 1, 2, 3}, 7));
  const auto outcomes = switches.install(creation.orders);
  const auto nodes = manager->begin_probe(now);
  manager->end_probe(nodes, switches.list(nodes, {}));
  EXPECT_TRUE(manager->begin_removal().empty());
  EXPECT_EQ(manager->end_create(now, std::move(creation), outcomes).refusal, Refusal::none);
  EXPECT_EQ(at(7), 3u);
}

TEST_F(ManagerTest, AGroupMayBeDestroyedWhileItIsMade) {
  auto creation = manager->begin_create(now, request_of({0, 1, 2, 3}, 7));
  const auto outcomes = switches.install(creation.orders);
  EXPECT_EQ(manager->destroy(now, 7, 0), Refusal::none);
  const CreateReply reply = manager->end_create(now, std::move(creation), outcomes);
  EXPECT_EQ(reply.refusal, Refusal::unknown_group);
  remove_ended();
  EXPECT_EQ(at(7), 0u);
  expect_nothing_held();
}

TEST_F(ManagerTest, WhoDestroysAGroupOnceMoreAsksNobody) {
  ASSERT_EQ(manager->create(now, request_of({0, 1, 2, 3}, 7)).refusal, Refusal::none);
  EXPECT_EQ(manager->begin_destroy(7, 0), Refusal::none);
  const auto orders = manager->begin_removal();
  EXPECT_EQ(orders.size(), 3u);
  EXPECT_EQ(manager->begin_destroy(7, 0), Refusal::none);
  EXPECT_TRUE(manager->begin_removal().empty());
  EXPECT_EQ(store.records.size(), 1u);
  EXPECT_NE(manager->policy().ledger().at(node("leaf0")).bytes, 0u) << "the switches may still have it";
  manager->end_removal(orders, switches.remove(orders));
  EXPECT_EQ(manager->begin_destroy(7, 0), Refusal::unknown_group);
  expect_nothing_held();
}

TEST_F(ManagerTest, AGroupStaysAsLongAsAnOrderForItIsUnderWay) {
  ASSERT_EQ(manager->create(now, request_of({0, 1, 2, 3}, 7)).refusal, Refusal::none);
  EXPECT_EQ(manager->begin_destroy(7, 0), Refusal::none);
  const auto orders = manager->begin_removal();
  switches.groups.clear();  // they start anew before the orders arrive
  pass(kSecond);
  EXPECT_EQ(manager->create(now, request_of({0, 1}, 7)).refusal, Refusal::bad_request) << "orders would remove it";
  manager->end_removal(orders, switches.remove(orders));
  expect_nothing_held();
  EXPECT_EQ(manager->create(now, request_of({0, 1}, 7)).refusal, Refusal::none);
}

TEST_F(ManagerTest, ASwitchThatComesBackIsAskedWhileOthersStillAre) {
  ASSERT_EQ(manager->create(now, request_of({0, 1, 2, 3}, 7)).refusal, Refusal::none);
  switches.silent = {node("leaf0")};
  pass(kSecond);
  EXPECT_EQ(manager->begin_destroy(7, 0), Refusal::none);
  const auto others = manager->begin_removal();
  EXPECT_EQ(others.size(), 2u);
  switches.silent.clear();
  const auto nodes = manager->begin_probe(now += kSecond);
  manager->end_probe(nodes, switches.list(nodes, {}));
  const auto last = manager->begin_removal();
  ASSERT_EQ(last.size(), 1u);
  EXPECT_EQ(last[0].node, node("leaf0"));
  manager->end_removal(last, switches.remove(last));
  EXPECT_EQ(manager->groups().size(), 1u);
  manager->end_removal(others, switches.remove(others));
  expect_nothing_held();
}

TEST_F(ManagerTest, TheNumberOfAStrangerIsNotFreeUntilItsSwitchWasAsked) {
  switches.groups[node("leaf0")][1] = "";
  const auto nodes = manager->begin_probe(now);
  manager->end_probe(nodes, switches.list(nodes, {}));
  const auto orders = manager->begin_removal();
  ASSERT_EQ(orders.size(), 1u);
  EXPECT_THAT(manager->create(now, request_of({0, 1}, 1)).sentences, ElementsAre(HasSubstr("an earlier group 1")));
  EXPECT_EQ(manager->create(now, request_of({0, 1})).group, 2u);
  manager->end_removal(orders, switches.remove(orders));
  EXPECT_EQ(manager->create(now, request_of({0, 1}, 1)).refusal, Refusal::none);
}

TEST_F(ManagerTest, AnotherProcessRemovesWhatTheLastOneHadBegunToRemove) {
  ASSERT_EQ(manager->create(now, request_of({0, 1, 2, 3}, 7)).refusal, Refusal::none);
  for (std::size_t asked = 0; asked <= 3; ++asked) {
    EXPECT_EQ(manager->begin_destroy(7, 0), Refusal::none);
    const auto orders = manager->begin_removal();
    for (std::size_t i = 0; i < asked; ++i) switches.groups[orders[i].node].erase(7);
    start();
    pass(asked == 0 ? 0 : kSecond);
    if (asked == 0) {
      EXPECT_EQ(manager->groups().at(7).record.state, GroupState::running) << "nobody has been asked";
      continue;
    }
    EXPECT_EQ(at(7), 0u);
    expect_nothing_held();
    ASSERT_EQ(manager->create(now, request_of({0, 1, 2, 3}, 7)).refusal, Refusal::none);
  }
}

TEST_F(ManagerTest, ADryRunSaysWhatWouldHappenAndChangesNothing) {
  const CreateReply dry = manager->explain(request_of({0, 2}));
  EXPECT_EQ(dry.refusal, Refusal::none);
  EXPECT_THAT(dry.sentences, testing::Contains(HasSubstr("tree of 3 switches")));
  EXPECT_EQ(steps.done, 0u);
  expect_nothing_held();
}

TEST_F(ManagerTest, BadRequestsAreRefusedInWords) {
  const auto expect = [&](const CreateRequest& r, const std::string& says) {
    const CreateReply reply = manager->create(now, r);
    EXPECT_NE(reply.refusal, Refusal::none) << says;
    EXPECT_THAT(reply.sentences, ElementsAre(HasSubstr(says)));
  };
  const auto changed = [](auto change) {
    CreateRequest r = request_of({0, 1});
    change(r);
    return r;
  };
  expect(request_of({}), "two hosts");
  expect(request_of({0, 0}), "twice");
  expect(changed([](CreateRequest& r) { r.members[0].address = *wire::IpAddress::parse("10.9.9.9"); }), "10.9.9.9");
  expect(changed([](CreateRequest& r) { r.members[0].address = *wire::IpAddress::parse("10.0.0.1"); }), "10.0.0.1");
  expect(changed([](CreateRequest& r) { r.members[0].qp = 0; }), "qp");
  expect(changed([](CreateRequest& r) { r.members[1].first_psn = 1 << 24; }), "PSN");
  expect(changed([](CreateRequest& r) { r.members[1].loss_recovery = "ideal"; }), "loss_recovery");
  expect(changed([](CreateRequest& r) { r.options.mtu = 100; }), "mtu");
  expect(changed([](CreateRequest& r) { r.options.message_packets = 0; }), "message_packets");
  expect(changed([](CreateRequest& r) { r.options.window = 0; }), "window");
  expect(changed([](CreateRequest& r) { r.options.least_window = 5; }), "least_window");
  expect(changed([](CreateRequest& r) { r.group = 70'000; }), "65535");
  expect_nothing_held();
}

TEST_F(ManagerTest, WithoutATreeThePolicySaysWhy) {
  start(1000);
  const CreateReply reply = manager->create(now, request_of({0, 2}));
  EXPECT_EQ(reply.refusal, Refusal::no_tree);
  EXPECT_EQ(reply.reason, policy::Reason::no_memory);
  EXPECT_EQ(steps.done, 0u);
}

TEST_F(ManagerTest, EachSwitchMayRefuse) {
  for (std::uint64_t step = 2; step <= 4; ++step) {  // the first writes the record
    steps = {};
    steps.fault = [step](std::uint64_t n) { return n == step ? Fault::refuse : Fault::none; };
    const CreateReply reply = manager->create(now, request_of({0, 1, 2, 3}, 7));
    EXPECT_EQ(reply.refusal, Refusal::switch_refused);
    EXPECT_THAT(reply.sentences, ElementsAre(HasSubstr("refused: told to")));
    EXPECT_EQ(at(7), 0u);
    expect_nothing_held();
  }
}

TEST_F(ManagerTest, AManagerThatMayNotLeadBlamesNoSwitch) {
  switches.lead_lost = true;
  const CreateReply reply = manager->create(now, request_of({0, 1, 2, 3}, 7));
  EXPECT_EQ(reply.refusal, Refusal::store_failed);
  EXPECT_THAT(reply.sentences, ElementsAre("another manager may lead"));
  EXPECT_EQ(at(7), 0u);
  switches.lead_lost = false;
  expect_nothing_held();
}

TEST_F(ManagerTest, AFullDiskEndsNewGroupsAndNotRunningOnes) {
  ASSERT_EQ(manager->create(now, request_of({0, 1}, 1)).refusal, Refusal::none);
  steps.fault = [](std::uint64_t) { return Fault::refuse; };
  const CreateReply reply = manager->create(now, request_of({2, 3}, 2));
  EXPECT_EQ(reply.refusal, Refusal::store_failed);
  EXPECT_THAT(reply.sentences, ElementsAre("the disk is full"));
  EXPECT_TRUE(manager->renew(now, 1, 1, std::nullopt));
  EXPECT_EQ(at(1), 1u);
  steps.fault = [](std::uint64_t) { return Fault::none; };
  pass(kSecond);
  EXPECT_EQ(manager->groups().size(), 1u);
}

TEST_F(ManagerTest, AGroupThatIsNotOnTheDiskIsNotThere) {
  for (const int which : {1, 2, 3}) {
    store.is_shared = which < 3;
    SCOPED_TRACE("sync " + std::to_string(which));
    int syncs = store.is_shared ? 0 : 2;
    store.on_sync = [&]() -> std::optional<std::string> {
      EXPECT_EQ(at(7), ++syncs == 1 ? 0u : 3u) << "before switches hear of it where others may lead; before ranks do";
      return syncs == which ? std::optional<std::string>("the disk is gone") : std::nullopt;
    };
    const CreateReply reply = manager->create(now, request_of({0, 1, 2, 3}, 7));
    EXPECT_EQ(syncs, which);
    EXPECT_EQ(reply.refusal, Refusal::store_failed);
    EXPECT_THAT(reply.sentences, ElementsAre("the disk is gone"));
    EXPECT_TRUE(reply.endpoints.empty());
    EXPECT_EQ(at(7), 0u);
    expect_nothing_held();
  }
}

TEST_F(ManagerTest, AGroupEndsWhenARankIsNotHeardOf) {
  const CreateReply reply = manager->create(now, request_of({0, 1, 2}));
  for (int i = 0; i < 10; ++i) {
    pass(kSecond);
    EXPECT_TRUE(manager->renew(now, reply.group, reply.generation, 0));
    if (i < 3) {
      EXPECT_TRUE(manager->renew(now, reply.group, reply.generation, std::nullopt));
    }
    if (i == 6) break;
  }
  EXPECT_EQ(at(reply.group), 3u) << "ranks 1 and 2 were heard of four seconds ago";
  EXPECT_EQ(manager->next_expiry(), 8 * kSecond);
  EXPECT_EQ(manager->next_probe(), 8 * kSecond);
  pass(kSecond);
  EXPECT_EQ(at(reply.group), 0u);
  EXPECT_FALSE(manager->renew(now, reply.group, reply.generation, 0));
  expect_nothing_held();
}

TEST_F(ManagerTest, OnlyRanksOfTheGroupRenewIt) {
  const CreateReply reply = manager->create(now, request_of({0, 1}));
  EXPECT_FALSE(manager->renew(now, reply.group, reply.generation, 2));
  EXPECT_FALSE(manager->renew(now, reply.group, reply.generation + 1, 0));
  EXPECT_FALSE(manager->renew(now, reply.group + 1, reply.generation, 0));
}

TEST_F(ManagerTest, MemoryOfASilentSwitchIsNotFreeAndAllElseIs) {
  const CreateReply reply = manager->create(now, request_of({0, 1, 2, 3}));
  const auto leaf = node("leaf0");
  const std::uint64_t bytes = manager->policy().ledger().at(leaf).bytes;
  switches.silent = {leaf};
  EXPECT_EQ(manager->destroy(now, reply.group, 0), Refusal::none);
  EXPECT_EQ(at(reply.group), 1u);
  EXPECT_EQ(manager->policy().ledger().at(leaf).bytes, bytes);
  EXPECT_EQ(manager->policy().ledger().at(node("leaf1")).bytes, 0u);
  EXPECT_EQ(manager->groups().at(reply.group).owing, std::set<policy::NodeId>{leaf});
  EXPECT_FALSE(manager->renew(now, reply.group, reply.generation, 0));
  pass(kSecond);
  EXPECT_EQ(manager->silent(), std::set<policy::NodeId>{leaf});
  EXPECT_EQ(manager->explain(request_of({0, 1})).reason, policy::Reason::host_down);
  switches.silent.clear();
  pass(kSecond);
  EXPECT_EQ(at(reply.group), 0u);
  expect_nothing_held();
  EXPECT_EQ(manager->explain(request_of({0, 1})).refusal, Refusal::none);
}

TEST_F(ManagerTest, ASwitchThatLostItsGroupsEndsThemEverywhere) {
  const CreateReply reply = manager->create(now, request_of({0, 1, 2, 3}, 7));
  const CreateReply other = manager->create(now, request_of({0, 1}, 8));
  switches.groups[node("leaf1")].clear();
  pass(kSecond);
  EXPECT_EQ(at(7), 0u);
  EXPECT_EQ(at(8), 1u) << "it is not on that switch";
  EXPECT_FALSE(manager->renew(now, 7, reply.generation, 0));
  EXPECT_TRUE(manager->renew(now, 8, other.generation, 0));
}

TEST_F(ManagerTest, GroupsThatNobodyKnowsAreRemovedUnlessTheirNumbersAreOthers) {
  switches.groups[node("leaf0")] = {{9, ""}, {65'536, ""}};
  const CreateReply reply = manager->create(now, request_of({2, 3}, 7));
  switches.groups[node("leaf0")][7] = "";  // it has no part there
  pass(kSecond);
  EXPECT_EQ(switches.groups[node("leaf0")].size(), 1u);
  EXPECT_TRUE(switches.groups[node("leaf0")].contains(65'536));
  EXPECT_EQ(at(7), 1u);
  EXPECT_TRUE(manager->renew(now, 7, reply.generation, 0));
}

TEST_F(ManagerTest, AnotherProcessGoesOnWithRunningGroups) {
  const CreateReply reply = manager->create(now, request_of({0, 1, 2, 3}, 7));
  now += 4 * kSecond;
  const auto before = switches.groups;
  start();
  EXPECT_EQ(switches.groups, before);
  EXPECT_TRUE(manager->renew(now, 7, reply.generation, std::nullopt));
  EXPECT_EQ(manager->create(now, request_of({0, 1}, 7)).refusal, Refusal::bad_request);
  EXPECT_EQ(manager->create(now, request_of({0, 1}, 8)).generation, 2u);
  pass(4 * kSecond);
  EXPECT_EQ(at(7), 3u) << "leases begin anew";
  pass(kSecond);
  EXPECT_EQ(at(7), 0u);
}

TEST_F(ManagerTest, AStoreOfAnotherFabricIsAnError) {
  ASSERT_EQ(manager->create(now, request_of({0, 1}, 7)).refusal, Refusal::none);
  Fabric other{policy::leaf_spine(1, 1, 1, policy::weft_abilities(1 << 20), 10'000), {}};
  other.addresses.resize(other.topology.links().size());
  Manager next(std::move(other), {}, switches, store, 1);
  EXPECT_THAT(next.recover(now).value_or(""), HasSubstr("topology"));
  store.records[7] = "{}";
  Manager third(small_fabric(), {}, switches, store, 1);
  EXPECT_THAT(third.recover(now).value_or(""), HasSubstr("does not fit"));
}

TEST_F(ManagerTest, GroupsTakeTurnsWithMemoryOfWhichThereIsNotEnough) {
  const CreateRequest first = request_of({0, 2}, 7), second = request_of({1, 3}, 8), third = request_of({0, 3}, 9);
  const std::uint64_t needs = memory_demand(first.options).bytes(4, 2);
  start(needs + needs / 4, policy::PolicyKind::temporal);
  const auto block_at_leaf = [&](GroupId group) {
    return nlohmann::json::parse(switches.groups[node("leaf0")].at(group)).at("block").get<int>();
  };
  for (const CreateRequest& r : {first, second}) {
    const CreateReply reply = manager->create(now, r);
    ASSERT_EQ(reply.refusal, Refusal::none);
    EXPECT_TRUE(reply.turns);
  }
  EXPECT_EQ(block_at_leaf(7), block_at_leaf(8));
  EXPECT_EQ(manager->create(now, third).reason, policy::Reason::no_share) << "both are busy half of the time";
  // The one that was there first goes, and another process has what is left.
  EXPECT_EQ(manager->destroy(now, 7, 0), Refusal::none);
  start(needs + needs / 4, policy::PolicyKind::temporal);
  EXPECT_EQ(manager->policy().ledger().at(node("leaf0")).groups, 1u);
  ASSERT_EQ(manager->create(now, third).refusal, Refusal::none);
  EXPECT_EQ(block_at_leaf(9), block_at_leaf(8));
  for (const GroupId group : {8u, 9u}) EXPECT_EQ(manager->destroy(now, group, 0), Refusal::none);
  expect_nothing_held();
}

/// A group of a job that communicates for 40 % of each millisecond.
CreateRequest bursts(const std::vector<int>& hosts, GroupId group, std::uint32_t job) {
  CreateRequest r = request_of(hosts, group);
  r.options.duty_per_mille = 400;
  r.options.period_us = 1000;
  r.options.job = job;
  return r;
}

TEST_F(ManagerTest, GroupsOfAJobAreToldWhenTheirBurstsKeepOutOfEachOthersWay) {
  const std::uint64_t needs = memory_demand(request_of({0, 2}, 7).options).bytes(4, 2);
  start(needs + needs / 4, policy::PolicyKind::temporal);
  const CreateReply first = manager->create(now, bursts({0, 2}, 7, 5));
  EXPECT_TRUE(first.staggered);
  EXPECT_EQ(first.offset_ns, 0u);
  EXPECT_THAT(first.sentences.back(), HasSubstr("its bursts begin 0 ns into the period of 1000000 ns"));
  const CreateReply would = manager->explain(bursts({1, 3}, 8, 5));
  EXPECT_THAT(would.sentences.back(), HasSubstr("shares memory with groups of its job: its bursts begin 400000 ns"));
  const CreateReply second = manager->create(now, bursts({1, 3}, 8, 5));
  EXPECT_TRUE(second.staggered);
  EXPECT_EQ(second.offset_ns, 400'000u);
  EXPECT_EQ(manager->explain(bursts({0, 3}, 9, 5)).reason, policy::Reason::no_share) << "20 % are left";
  // The first one goes while no manager runs; the second keeps its time.
  EXPECT_EQ(manager->destroy(now, 7, 0), Refusal::none);
  start(needs + needs / 4, policy::PolicyKind::temporal);
  EXPECT_EQ(manager->groups().at(8).record.decision.offset_ns, 400'000u);
  EXPECT_EQ(manager->explain(bursts({0, 2}, 9, 5)).offset_ns, 0u);
  EXPECT_TRUE(manager->explain(bursts({0, 2}, 9, 5)).staggered);
  EXPECT_FALSE(manager->explain(bursts({0, 2}, 9, 6)).staggered) << "another job's";
}

TEST_F(ManagerTest, JobsOfDifferentTenantsAreDifferent) {
  ManagerOptions options;
  options.policy.kind = policy::PolicyKind::temporal;
  options.tenants.all = {{"physics", {"node1"}}, {"biology", {"node2"}}};
  const std::uint64_t needs = memory_demand(request_of({0, 2}, 7).options).bytes(4, 2);
  manager.emplace(small_fabric(needs + needs / 4), options, switches, store, 1);
  ASSERT_EQ(manager->recover(now), std::nullopt);
  CreateRequest theirs = bursts({0, 2}, 7, 5), others = bursts({1, 3}, 8, 5);
  theirs.tenant = "physics";
  others.tenant = "biology";
  EXPECT_TRUE(manager->create(now, theirs).staggered);
  EXPECT_FALSE(manager->explain(others).staggered);
  others.tenant = "physics";
  EXPECT_TRUE(manager->explain(others).staggered);
}

TEST_F(ManagerTest, OfOtherPoliciesAndModesNobodyIsStaggered) {
  EXPECT_FALSE(manager->explain(bursts({0, 2}, 7, 5)).staggered) << "the policy is spatial";
  start(1 << 20, policy::PolicyKind::temporal);
  CreateRequest other = bursts({0, 2}, 7, 5);
  other.options.mode = Mode::iii;
  EXPECT_FALSE(manager->explain(other).staggered);
  other = bursts({0, 2}, 7, 5);
  other.options.period_us = 1'000'000'001;
  EXPECT_EQ(manager->explain(other).refusal, Refusal::bad_request);
}

TEST_F(ManagerTest, OthersHaveMemoryOfTheirOwn) {
  const auto made = [&](std::uint32_t duty, Mode mode, GroupId group) {
    CreateRequest r = request_of({0, 2}, group);
    r.options.duty_per_mille = duty;
    r.options.mode = mode;
    const CreateReply reply = manager->create(now, r);
    EXPECT_EQ(reply.refusal, Refusal::none);
    const bool block = switches.groups[node("leaf0")].at(group).find("block") != std::string::npos;
    EXPECT_EQ(block, reply.turns);
    return reply.turns;
  };
  EXPECT_FALSE(made(100, Mode::ii, 1)) << "the policy is spatial";
  start(1 << 20, policy::PolicyKind::temporal);
  EXPECT_TRUE(made(100, Mode::ii, 2));
  EXPECT_FALSE(made(1000, Mode::ii, 3)) << "it is always busy";
  EXPECT_FALSE(made(100, Mode::iii, 4));
  EXPECT_FALSE(made(100, Mode::i, 5));
}

TEST_F(ManagerTest, EdgeDisjointTreesShareNoLink) {
  start(1 << 20, policy::PolicyKind::edge_disjoint);
  ASSERT_EQ(manager->create(now, request_of({0, 2})).refusal, Refusal::none);
  ASSERT_EQ(manager->create(now, request_of({1, 3})).refusal, Refusal::none) << "over the other spine";
  EXPECT_EQ(manager->create(now, request_of({0, 1})).reason, policy::Reason::links_taken);
}

}  // namespace
}  // namespace weft::inc::manager
