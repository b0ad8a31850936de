// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "collectives/daemon/leases.h"

#include <gtest/gtest.h>

#include <utility>

namespace weft::inc::daemon {
namespace {

using comm::CreateGroup;
using comm::ExplainGroup;
using comm::GroupCreated;
using comm::GroupExplained;
using comm::GroupGone;
using comm::GroupHeld;
using comm::HoldGroup;
using comm::LeaveGroup;

constexpr Time kMs = 1'000'000;
constexpr GroupName kName{7, 42};

struct Written final : Orders {
  void create(ClientId client, const CreateGroup&) override { creates.push_back(client); }
  void renew(const GroupName& name, const std::vector<std::uint32_t>& ranks) override {
    renewals.emplace_back(name, ranks);
  }
  void destroy(const GroupName& name) override { destroyed.push_back(name); }
  void explain(ClientId client, const GroupName& name) override { questions.emplace_back(client, name); }
  void tell(ClientId client, const comm::DaemonMessage& message) override { told.emplace_back(client, message); }

  std::vector<ClientId> creates;
  std::vector<std::pair<GroupName, std::vector<std::uint32_t>>> renewals;
  std::vector<GroupName> destroyed;
  std::vector<std::pair<ClientId, GroupName>> questions;
  std::vector<std::pair<ClientId, comm::DaemonMessage>> told;
};

class LeasesTest : public ::testing::Test {
 protected:
  static CreateGroup wish(std::uint32_t rank = 0) {
    CreateGroup m;
    m.rank = rank;
    m.members.resize(2);
    return m;
  }
  static GroupCreated granted() {
    GroupCreated m;
    m.refusal = "none";
    m.group = kName.group;
    m.generation = kName.generation;
    m.lease_ms = 400;
    return m;
  }
  /// Client 1 has a group as rank 0.
  void make() {
    ASSERT_TRUE(leases.on_message(0, 1, wish()));
    leases.on_created(0, 1, 0, granted());
  }
  [[nodiscard]] bool hold(Time now, ClientId client, std::uint32_t rank) {
    return leases.on_message(now, client, HoldGroup{kName.group, kName.generation, rank, 400});
  }

  Written orders;
  Leases leases{orders};
};

TEST_F(LeasesTest, AGroupIsRenewedFourTimesInALease) {
  make();
  ASSERT_EQ(orders.told.size(), 1u);
  EXPECT_EQ(orders.told[0].second, comm::DaemonMessage(granted()));
  EXPECT_EQ(leases.next_deadline(), 100 * kMs);
  leases.on_timer(99 * kMs);
  EXPECT_TRUE(orders.renewals.empty());
  leases.on_timer(100 * kMs);
  EXPECT_EQ(orders.renewals, (decltype(orders.renewals){{kName, {0}}}));
  EXPECT_EQ(leases.next_deadline(), kNever) << "the manager has not answered";
  leases.on_timer(300 * kMs);
  EXPECT_EQ(orders.renewals.size(), 1u);
  leases.on_renewed(310 * kMs, kName, true);
  EXPECT_EQ(leases.next_deadline(), 410 * kMs);
}

TEST_F(LeasesTest, WhoHoldsIsToldWhenTheManagerHasSaidSo) {
  ASSERT_TRUE(hold(5 * kMs, 2, 3));
  ASSERT_TRUE(hold(6 * kMs, 3, 4));
  EXPECT_EQ(orders.renewals, (decltype(orders.renewals){{kName, {3}}})) << "at once, one call at a time";
  leases.on_renewed(7 * kMs, kName, std::nullopt);
  EXPECT_TRUE(orders.told.empty());
  leases.on_timer(107 * kMs);
  EXPECT_EQ(orders.renewals.back(), (std::pair<GroupName, std::vector<std::uint32_t>>{kName, {3, 4}}));
  leases.on_renewed(110 * kMs, kName, true);
  EXPECT_EQ(orders.told, (decltype(orders.told){{2, GroupHeld{7, 42, true}}, {3, GroupHeld{7, 42, true}}}));
  leases.on_timer(210 * kMs);
  leases.on_renewed(211 * kMs, kName, true);
  EXPECT_EQ(orders.told.size(), 2u) << "once";
}

TEST_F(LeasesTest, AGroupThatIsGoneIsNotRenewedAnyMore) {
  make();
  ASSERT_TRUE(hold(0, 2, 1));
  leases.on_renewed(1, kName, false);
  EXPECT_EQ(orders.told.at(1), (std::pair<ClientId, comm::DaemonMessage>{1, GroupGone{7, 42}}));
  EXPECT_EQ(orders.told.at(2), (std::pair<ClientId, comm::DaemonMessage>{2, GroupHeld{7, 42, false}}));
  EXPECT_EQ(leases.groups(), 0u);
  EXPECT_TRUE(orders.destroyed.empty());
}

TEST_F(LeasesTest, WhyAGroupIsGoneIsSaidInFrontOfIt) {
  make();
  leases.on_renewed(1, kName, false, "leaf1: so");
  EXPECT_EQ(orders.told.at(1), (std::pair<ClientId, comm::DaemonMessage>{1, GroupExplained{7, 42, "leaf1: so"}}));
  EXPECT_EQ(orders.told.at(2), (std::pair<ClientId, comm::DaemonMessage>{1, GroupGone{7, 42}}));
}

TEST_F(LeasesTest, WhoAsksWhyIsAnswered) {
  make();
  for (std::size_t i = 0; i < Leases::kMaxAsked; ++i) ASSERT_TRUE(leases.on_message(0, 1, ExplainGroup{7, 42}));
  EXPECT_FALSE(leases.on_message(0, 1, ExplainGroup{7, 42}));
  EXPECT_EQ(orders.questions.size(), Leases::kMaxAsked);
  EXPECT_EQ(orders.questions.front(), (std::pair<ClientId, GroupName>{1, kName}));
  leases.on_explained(1, kName, "leaf1: so");
  EXPECT_EQ(orders.told.back(), (std::pair<ClientId, comm::DaemonMessage>{1, GroupExplained{7, 42, "leaf1: so"}}));
  EXPECT_TRUE(leases.on_message(0, 1, ExplainGroup{7, 42})) << "there is room for another question";
  leases.on_gone(1);
  const std::size_t told = orders.told.size();
  leases.on_explained(1, kName, "leaf1: so");
  EXPECT_EQ(orders.told.size(), told) << "nobody is there";
}

TEST_F(LeasesTest, AProcessThatDiesTakesItsGroupsWithIt) {
  make();
  ASSERT_TRUE(hold(0, 2, 1));
  ASSERT_TRUE(leases.on_message(0, 2, HoldGroup{8, 1, 0, 400}));
  leases.on_gone(1);
  EXPECT_EQ(orders.destroyed, std::vector<GroupName>{kName});
  EXPECT_EQ(orders.told.back(), (std::pair<ClientId, comm::DaemonMessage>{2, GroupGone{7, 42}}));
  EXPECT_EQ(leases.groups(), 1u) << "others' stay";
}

TEST_F(LeasesTest, WhoLeavesEndsNothingUnlessItSaysSo) {
  make();
  ASSERT_TRUE(hold(0, 2, 1));
  ASSERT_TRUE(leases.on_message(0, 2, LeaveGroup{7, 42, false}));
  EXPECT_TRUE(orders.destroyed.empty());
  ASSERT_TRUE(leases.on_message(0, 3, LeaveGroup{7, 42, true}));
  EXPECT_TRUE(orders.destroyed.empty()) << "no part of it";
  ASSERT_TRUE(leases.on_message(0, 1, LeaveGroup{7, 42, true}));
  EXPECT_EQ(orders.destroyed, std::vector<GroupName>{kName});
  EXPECT_EQ(leases.groups(), 0u);
  leases.on_gone(1);
  leases.on_gone(2);
  EXPECT_EQ(orders.destroyed.size(), 1u);
}

TEST_F(LeasesTest, AGroupForSomebodyWhoIsGoneIsGivenBack) {
  ASSERT_TRUE(leases.on_message(0, 1, wish()));
  leases.on_gone(1);
  leases.on_created(0, 1, 0, granted());
  EXPECT_EQ(orders.destroyed, std::vector<GroupName>{kName});
  EXPECT_TRUE(orders.told.empty());
}

TEST_F(LeasesTest, ARefusalIsPassedOn) {
  ASSERT_TRUE(leases.on_message(0, 1, wish()));
  GroupCreated no;
  no.refusal = "no_tree";
  leases.on_created(0, 1, 0, no);
  EXPECT_EQ(orders.told.at(0).second, comm::DaemonMessage(no));
  EXPECT_EQ(leases.groups(), 0u);
}

TEST_F(LeasesTest, WhoAsksForTooMuchOrTakesOthersRanksIsCutOff) {
  for (std::size_t i = 0; i < Leases::kMaxAsked; ++i) ASSERT_TRUE(leases.on_message(0, 1, wish()));
  EXPECT_FALSE(leases.on_message(0, 1, wish()));
  EXPECT_EQ(orders.creates.size(), Leases::kMaxAsked);
  ASSERT_TRUE(hold(0, 2, 5));
  EXPECT_TRUE(hold(0, 2, 5)) << "again";
  EXPECT_FALSE(hold(0, 3, 5)) << "somebody else's";
  EXPECT_FALSE(leases.on_message(0, 1, GroupGone{7, 42})) << "what only a daemon says";
  for (std::uint32_t r = 0; r + 1 < Leases::kMaxHeld; ++r) {
    ASSERT_TRUE(leases.on_message(0, 2, HoldGroup{9, 1, r, 400}));
  }
  EXPECT_FALSE(leases.on_message(0, 2, HoldGroup{9, 1, 5000, 400}));
}

}  // namespace
}  // namespace weft::inc::daemon
