// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "collectives/manager/tenants.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <string>
#include <vector>

#include "switch/base/rng.h"
#include "tests/collectives/manager/fake_fabric.h"

namespace weft::inc::manager {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Tenants two_tenants() {
  return {{{"a", {"n1.a.example", "n2.a.example"}, {}}, {"b", {"n1.b.example"}, {}}}, {"ops.example"}};
}

TEST(Tenants, ACertificateIsATenantsAnOperatorsOrNobodys) {
  const Tenants t = two_tenants();
  EXPECT_EQ(t.caller({"node", "n2.a.example"})->tenant, "a");
  EXPECT_EQ(t.caller({"n1.b.example"})->tenant, "b");
  EXPECT_EQ(t.caller({"n1.a.example", "n2.a.example"})->tenant, "a");
  EXPECT_FALSE(t.caller({"n1.a.example", "n1.b.example"})) << "of two";
  EXPECT_FALSE(t.caller({"n3.a.example"}));
  EXPECT_FALSE(t.caller({"N1.A.EXAMPLE"})) << "as they are written";
  EXPECT_EQ(t.caller({"n1.a.example", "ops.example"})->tenant, std::nullopt);
  EXPECT_FALSE(t.caller({})) << "a certificate without names";
  EXPECT_EQ(Tenants{}.caller({"anybody"})->tenant, std::nullopt) << "there are no tenants";
}

TEST(Tenants, AGroupConcernsItsTenantAndOperators) {
  EXPECT_TRUE(Caller{}.may("a"));
  EXPECT_TRUE(Caller{"a"}.may("a"));
  EXPECT_FALSE(Caller{"a"}.may("b"));
  EXPECT_FALSE(Caller{"a"}.may(""));
}

class TenantsOfAManager : public testing::Test {
 protected:
  void start() {
    ManagerOptions options;
    options.tenants = two_tenants();
    options.tenants.all[0].memory_bytes = quota;
    manager.emplace(small_fabric(), options, switches, store, 1);
    ASSERT_EQ(manager->recover(0), std::nullopt);
  }
  CreateReply create(const std::string& tenant, const std::vector<int>& hosts, GroupId group = 0) {
    CreateRequest r = request_of(hosts, group);
    r.tenant = tenant;
    return manager->create(0, r);
  }
  std::uint64_t bytes_of(GroupId group) {
    std::uint64_t sum = 0;
    for (const auto& a : manager->groups().at(group).record.decision.memory) sum += a.bytes;
    return sum;
  }
  /// Looks through all groups.
  std::uint64_t has(const std::string& tenant) {
    std::uint64_t sum = 0;
    for (const auto& [id, group] : manager->groups()) sum += group.record.tenant == tenant ? bytes_of(id) : 0;
    return sum;
  }
  void expect_sums() {
    for (const std::string tenant : {"a", "b", ""}) EXPECT_EQ(manager->memory_of(tenant), has(tenant)) << tenant;
  }

  std::optional<std::uint64_t> quota;
  Steps steps;
  FakeSwitches switches{steps};
  FakeStore store{steps};
  std::optional<Manager> manager;
};

TEST_F(TenantsOfAManager, OnlyItsTenantEndsAGroup) {
  start();
  ASSERT_EQ(create("a", {0, 1}, 7).refusal, Refusal::none);
  EXPECT_EQ(manager->destroy(0, 7, 0, {"b"}), Refusal::not_permitted);
  EXPECT_EQ(manager->groups().at(7).record.state, GroupState::running);
  EXPECT_EQ(manager->destroy(0, 8, 0, {"b"}), Refusal::unknown_group);
  EXPECT_EQ(manager->destroy(0, 7, 0, {"a"}), Refusal::none);
  EXPECT_TRUE(manager->groups().empty());
}

TEST_F(TenantsOfAManager, WhoseAGroupIsOutlivesTheManager) {
  start();
  ASSERT_EQ(create("a", {0, 1}, 7).refusal, Refusal::none);
  ASSERT_EQ(create("", {2, 3}, 8).refusal, Refusal::none);
  start();
  EXPECT_EQ(manager->groups().at(7).record.tenant, "a");
  EXPECT_EQ(manager->groups().at(8).record.tenant, "");
  EXPECT_EQ(manager->destroy(0, 7, 0, {"b"}), Refusal::not_permitted);
}

TEST_F(TenantsOfAManager, ATenantThatDoesNotExistGetsNothing) {
  start();
  const CreateReply reply = create("c", {0, 1});
  EXPECT_EQ(reply.refusal, Refusal::bad_request);
  EXPECT_THAT(reply.sentences, ElementsAre(HasSubstr("no tenant c")));
}

TEST_F(TenantsOfAManager, ATenantHasNoMoreMemoryThanItMay) {
  start();
  ASSERT_EQ(create("a", {0, 1}, 1).refusal, Refusal::none);
  const std::uint64_t one = bytes_of(1);
  ASSERT_EQ(manager->destroy(0, 1, 0), Refusal::none);
  quota = 2 * one + 1;
  start();
  ASSERT_EQ(create("a", {0, 1}, 1).refusal, Refusal::none);
  ASSERT_EQ(create("a", {2, 3}, 2).refusal, Refusal::none);
  const CreateReply reply = create("a", {0, 1}, 3);
  EXPECT_EQ(reply.refusal, Refusal::over_quota);
  EXPECT_THAT(reply.sentences, ElementsAre(HasSubstr(std::to_string(quota.value()) + " at most")));
  EXPECT_EQ(manager->groups().size(), 2u);
  // Others are not limited by it.
  EXPECT_EQ(create("b", {0, 1}, 3).refusal, Refusal::none);
  EXPECT_EQ(create("", {0, 1}, 4).refusal, Refusal::none);
  // Memory that a switch has not given back counts.
  switches.silent = {manager->fabric().topology.find("leaf0")};
  ASSERT_EQ(manager->destroy(0, 1, 0), Refusal::none);
  EXPECT_EQ(create("a", {2, 3}, 5).refusal, Refusal::over_quota);
  switches.silent.clear();
  manager->tick(10);
  EXPECT_EQ(create("a", {2, 3}, 5).refusal, Refusal::none);
}

TEST_F(TenantsOfAManager, TheirSumsAreThoseOfTheirGroups) {
  start();
  const policy::NodeId leaf = manager->fabric().topology.find("leaf0");
  Rng rng(7);
  std::uint64_t most = 0;
  for (TimeNs now = 1; now < 300; ++now) {
    const GroupId group = 1 + static_cast<GroupId>(rng.below(6));
    switch (rng.below(5)) {
      case 0:
        static_cast<void>(manager->destroy(now, group, 0));
        break;
      case 1:
        switches.silent = {leaf};
        break;
      case 2:
        switches.silent.clear();
        manager->tick(now * 2'000'000'000);
        break;
      case 3:
        start();
        break;
      default:
        static_cast<void>(create(std::vector<std::string>{"a", "b", ""}[rng.below(3)], {0, 1, 2}, group));
    }
    expect_sums();
    most = std::max(most, manager->memory_of("a"));
  }
  EXPECT_GT(most, 0u);
}

}  // namespace
}  // namespace weft::inc::manager
