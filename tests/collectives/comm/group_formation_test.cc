// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// How groups come about and end: daemons, refusals, ranks that do not reach their switch.
#include <gtest/gtest.h>

#include "tests/collectives/comm/world.h"

namespace weft::inc::comm::testing {
namespace {

using State = Group::State;

GroupSettings small(weft_inc_backend backend = WEFT_INC_BACKEND_AUTO) {
  GroupSettings s;
  s.backend = backend;
  s.shape = {256, 2, 4};
  return s;
}

/// The daemon of rank 0 has been asked.
bool asked(World& world) {
  return world.run([&] { return !world.told[0].empty(); });
}

void expect_by_hosts(World& world, weft_inc_reason reason, const std::string& detail) {
  ASSERT_TRUE(world.run_to(State::ready)) << world.groups[0]->error();
  std::vector<std::vector<std::int32_t>> data;
  std::vector<std::shared_ptr<Request>> requests;
  for (std::uint32_t r = 0; r < world.groups.size(); ++r) data.emplace_back(300, r);
  for (std::uint32_t r = 0; r < world.groups.size(); ++r) {
    EXPECT_EQ(world.groups[r]->info().reason, reason);
    requests.push_back(world.groups[r]->post(
        {Collective::allreduce, data[r].data(), data[r].data(), 300, DataType::int32, Op::sum, 0}));
  }
  EXPECT_EQ(std::string(world.groups[0]->info().detail), detail);
  ASSERT_TRUE(world.run([&] { return all_over(requests); }));
  const auto n = static_cast<std::int32_t>(data.size());
  for (const auto& v : data) EXPECT_EQ(v, std::vector<std::int32_t>(300, n * (n - 1) / 2));
  EXPECT_EQ(world.fabric.adder.collectives(), 0u);
}

TEST(Formation, TheManagersGroupIsJoinedByAll) {
  World world(1, 4, small(), true);
  world.connect(false);
  ASSERT_TRUE(asked(world));
  const auto& request = std::get<CreateGroup>(world.told[0].at(0));
  ASSERT_EQ(request.members.size(), 4u);
  EXPECT_EQ(request.members[3], world.groups[3]->handle().switch_end);
  world.groups[0]->on_daemon(world.created());
  world.run([] { return false; });
  for (std::uint32_t r = 1; r < 4; ++r) {
    EXPECT_EQ(std::get<HoldGroup>(world.told[r].at(0)), (HoldGroup{7, 42, r, 5000}));
    EXPECT_EQ(world.groups[r]->state(), State::joining) << "it has no lease yet";
    world.groups[r]->on_daemon(GroupHeld{7, 41, false});  // somebody else's
    world.groups[r]->on_daemon(GroupHeld{7, 42, true});
  }
  ASSERT_TRUE(world.run_to(State::ready));
  EXPECT_EQ(world.groups[2]->info().reason, WEFT_INC_REASON_NONE);
  EXPECT_EQ(world.groups[2]->info().generation, 42u);
  EXPECT_EQ(world.groups[2]->lease(), (HoldGroup{7, 42, 2, 5000}));
  for (const auto& g : world.groups) g->leave();
  EXPECT_EQ(std::get<LeaveGroup>(world.told[0].back()), (LeaveGroup{7, 42, true}));
  EXPECT_EQ(std::get<LeaveGroup>(world.told[3].back()), (LeaveGroup{7, 42, false}));
}

TEST(Formation, WithoutADaemonHostsDoIt) {
  World world(2, 3, small());
  world.connect(false);
  expect_by_hosts(world, WEFT_INC_REASON_NO_DAEMON, "weft-incd cannot be reached on the host of rank 0");
}

TEST(Formation, RefusalsHaveReasons) {
  const std::vector<std::pair<std::string, weft_inc_reason>> all{{"no_tree", WEFT_INC_REASON_NO_TREE},
                                                                 {"no_manager", WEFT_INC_REASON_NO_MANAGER},
                                                                 {"switch_refused", WEFT_INC_REASON_SWITCH},
                                                                 {"switch_unreachable", WEFT_INC_REASON_SWITCH},
                                                                 {"store_failed", WEFT_INC_REASON_NO_MANAGER},
                                                                 {"bad_request", WEFT_INC_REASON_BAD_REQUEST},
                                                                 {"what_comes_later", WEFT_INC_REASON_BAD_REQUEST}};
  for (const auto& [refusal, reason] : all) {
    World world(3, 4, small(), true);
    world.connect(false);
    ASSERT_TRUE(asked(world));
    GroupCreated refused;
    refused.refusal = refusal;
    refused.reason = "links_taken";
    refused.sentence = "all of them";
    world.groups[0]->on_daemon(refused);
    expect_by_hosts(world, reason, "links_taken: all of them");
  }
}

TEST(Formation, TheLogSaysWhoRunsTheGroupAndWhyHostsRunACollective) {
  GroupSettings settings = small();
  settings.min_bytes = 1000;
  World world(3, 2, settings, true);
  std::vector<std::string> log;
  world.groups[1]->log_to([&](const std::string& what) { log.push_back(what); });
  world.connect(false);
  ASSERT_TRUE(asked(world));
  world.groups[0]->on_daemon(world.created());
  ASSERT_TRUE(world.run([&] { return !world.told[1].empty(); }));
  world.groups[1]->on_daemon(GroupHeld{7, 42, true});
  ASSERT_TRUE(world.run_to(State::ready));
  std::vector<std::int32_t> data[2];
  const auto reduce = [&](std::uint32_t count) {
    std::vector<std::shared_ptr<Request>> all;
    for (std::uint32_t r = 0; r < 2; ++r) {
      data[r].assign(count, 1);
      all.push_back(world.groups[r]->post(
          {Collective::allreduce, data[r].data(), data[r].data(), count, DataType::int32, Op::sum, 0}));
    }
    ASSERT_TRUE(world.run([&] { return all_over(all); }));
  };
  reduce(300);  // the switches'
  EXPECT_EQ(log, std::vector<std::string>{"group 7, by switches"});
  world.fabric.lose_switches();
  for (auto& g : world.groups) g->on_daemon(GroupGone{7, 42});
  ASSERT_TRUE(world.run_to(State::ready));
  reduce(300);
  reduce(3);
  ASSERT_EQ(log.size(), 4u);
  EXPECT_EQ(log[1].find("by hosts: lost, the group is gone from the switches"), 0u) << log[1];
  EXPECT_EQ(log[2], "allreduce of 1200 bytes by hosts: lost");
  EXPECT_EQ(log[3], "allreduce of 12 bytes by hosts: too_small");
}

TEST(Formation, WhoMustHaveSwitchesFailsWithTheReason) {
  World world(4, 2, small(WEFT_INC_BACKEND_SWITCH));
  world.connect(false);
  ASSERT_TRUE(world.run_to(State::failed));
  EXPECT_EQ(world.groups[1]->error().find("the group gets no switches: no_daemon"), 0u) << world.groups[1]->error();
}

TEST(Formation, ARankWithoutAWayToItsSwitchTakesAllToTheHosts) {
  World world(5, 4, small(), true);
  world.connect(false);
  ASSERT_TRUE(asked(world));
  auto made = world.created();
  made.endpoints[2].address = wire::IpAddress::v4(0x0afe0001);
  world.fabric.unreachable.insert(made.endpoints[2].address);
  world.groups[0]->on_daemon(made);
  world.run([] { return false; });
  for (const std::uint32_t r : {1u, 3u}) world.groups[r]->on_daemon(GroupHeld{7, 42, true});
  expect_by_hosts(world, WEFT_INC_REASON_NO_PATH, "another rank says so");
  EXPECT_EQ(std::string(world.groups[2]->info().detail), "rank 2 does not reach its switch, 10.254.0.1");
  EXPECT_EQ(std::get<LeaveGroup>(world.told[0].back()), (LeaveGroup{7, 42, true})) << "the manager has it back";
}

TEST(Formation, AGroupThatEndsWhileItIsJoinedGoesToTheHosts) {
  World world(6, 2, small(), true);
  world.connect(false);
  ASSERT_TRUE(asked(world));
  world.groups[0]->on_daemon(world.created());
  world.run([] { return false; });
  world.groups[1]->on_daemon(GroupHeld{7, 42, false});
  expect_by_hosts(world, WEFT_INC_REASON_SWITCH, "another rank says so");
}

TEST(Formation, ADaemonThatGoesAwayIsNotWaitedFor) {
  World world(7, 2, small(), true);
  world.connect(false);
  ASSERT_TRUE(asked(world));
  world.groups[0]->on_daemon_lost();
  expect_by_hosts(world, WEFT_INC_REASON_NO_DAEMON, "weft-incd went away on the host of rank 0");
}

TEST(Formation, AGroupThatIsGoneFailsWhatIsUnderWayIfNotAllRanksHearOfIt) {
  World world(8, 2, small(), true);
  world.connect(false);
  ASSERT_TRUE(asked(world));
  world.groups[0]->on_daemon(world.created());
  world.run([] { return false; });
  world.groups[1]->on_daemon(GroupHeld{7, 42, true});
  ASSERT_TRUE(world.run_to(State::ready));
  const auto request = world.groups[0]->post({Collective::barrier, nullptr, nullptr, 0, {}, {}, 0});
  world.groups[0]->on_daemon(GroupGone{7, 43});
  EXPECT_FALSE(over(request)) << "another generation";
  world.groups[0]->tick(1);
  world.groups[0]->on_daemon(GroupGone{7, 42});
  EXPECT_FALSE(over(request)) << "the other rank may come to go on without switches";
  world.groups[0]->tick(Group::kMeetAgain + 2);
  EXPECT_EQ(request->state, Request::State::failed);
  EXPECT_NE(request->error.find("gone from the switches"), std::string::npos);
  EXPECT_FALSE(world.groups[0]->lease().has_value());
}

TEST(Formation, HandlesThatAreNoGroupAreRefused) {
  World world(9, 3, small());
  const auto right = world.handles();
  auto all = right;
  std::swap(all[1], all[2]);
  EXPECT_EQ(world.groups[0]->connect(all, {}), "the handle of rank 1 is that of rank 2");
  all = right;
  all[2].shape.window = 9;
  EXPECT_NE(world.groups[0]->connect(all, {}).find("another MTU, message size or window"), std::string::npos);
  all = right;
  all[1].switch_end.address = all[0].switch_end.address;
  EXPECT_NE(world.groups[0]->connect(all, {}).find("the address of another rank"), std::string::npos);
  all = right;
  all[0].switch_end.qpn += 1;
  EXPECT_EQ(world.groups[0]->connect(all, {}), "the handle of rank 0 is not this group's");
  all.pop_back();
  EXPECT_EQ(world.groups[0]->connect(all, {}), "a group of 3 ranks has as many handles");
  EXPECT_EQ(world.groups[0]->connect(right, {}), "");
  EXPECT_EQ(world.groups[0]->connect(right, {}), "the group is connected, or has failed, already");
}

}  // namespace
}  // namespace weft::inc::comm::testing
