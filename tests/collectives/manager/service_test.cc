// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "collectives/manager/service.h"

#include <gmock/gmock.h>
#include <grpcpp/impl/service_type.h>

#include <algorithm>
#include <future>
#include <thread>

#include "collectives/manager/client.h"
#include "collectives/manager/inc.pb.h"
#include "switch/api/rpc_server.h"
#include "switch/system/clock.h"
#include "tests/collectives/manager/certificates.h"
#include "tests/collectives/manager/fake_fabric.h"
#include "tests/support/temporary_directory.h"

namespace weft::inc::manager {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr std::chrono::milliseconds kPatience{10'000};

class ServiceTest : public testing::Test {
 protected:
  void start(const ManagerOptions& options = {}, const api::RpcLimits& limits = {}) {
    manager.emplace(small_fabric(), options, switches, store, 1);
    ASSERT_EQ(manager->recover(monotonic_now()), std::nullopt);
    running.emplace(*manager);
    service = make_service(*running);
    ASSERT_EQ(server.start(path, std::nullopt, limits, *service), std::nullopt);
    ASSERT_EQ(client.connect(path, kPatience), std::nullopt);
  }
  void TearDown() override { server.stop(); }

  static ManagerOptions with_short_leases() {
    ManagerOptions options;
    options.lease_ns = 300'000'000;
    options.probe_ns = 50'000'000;
    return options;
  }
  /// Of two groups the one that is renewed stays, and the other ends.
  void expect_to_outlive_the_other(const v1::CreateGroupReply& made) {
    v1::RenewLeaseRequest lease;
    lease.set_group(made.group());
    lease.set_generation(made.generation());
    v1::ListGroupsReply list;
    const TimeNs end = monotonic_now() + 20'000'000'000;
    do {
      v1::RenewLeaseReply renewed;
      ASSERT_EQ(client.renew(lease, renewed), std::nullopt);
      ASSERT_TRUE(renewed.running());
      ASSERT_EQ(client.groups(list), std::nullopt);
    } while (list.groups_size() == 2 && monotonic_now() < end);
    ASSERT_EQ(list.groups_size(), 1);
    EXPECT_EQ(list.groups(0).group(), made.group());
  }

  static v1::CreateGroupRequest request(const std::vector<int>& hosts) {
    v1::CreateGroupRequest r;
    r.set_group(7);
    for (const Member& m : request_of(hosts).members) {
      auto* member = r.add_members();
      member->set_address(m.address.to_string());
      member->set_qp(m.qp);
      member->set_first_psn(m.first_psn);
      member->set_expects_psn(m.expects_psn);
    }
    return r;
  }

  api::TemporaryDirectory directory;
  std::string path = directory.file("s");
  Steps steps;
  FakeSwitches switches{steps};
  FakeStore store{steps};
  std::optional<Manager> manager;
  std::optional<RunningManager> running;
  std::unique_ptr<grpc::Service> service;
  api::RpcServer server;
  Client client;
};

TEST_F(ServiceTest, AGroupIsMadeShownRenewedAndDestroyed) {
  start();
  v1::CreateGroupRequest wanted = request({0, 1, 2, 3});
  wanted.mutable_options()->set_mode("iii");
  wanted.mutable_options()->set_window(2);
  v1::CreateGroupReply made;
  ASSERT_EQ(client.create(wanted, made), std::nullopt);
  EXPECT_EQ(made.refusal(), "none");
  EXPECT_EQ(made.group(), 7u);
  EXPECT_EQ(made.window(), 2u);
  EXPECT_EQ(made.lease_ms(), 5000u);
  ASSERT_EQ(made.endpoints_size(), 4);
  EXPECT_EQ(made.endpoints(2).address(), "10.0.2.1");

  v1::ListGroupsReply list;
  ASSERT_EQ(client.groups(list), std::nullopt);
  ASSERT_EQ(list.groups_size(), 1);
  const auto& g = list.groups(0);
  EXPECT_EQ(g.state(), "running");
  EXPECT_EQ(g.mode(), "iii");
  EXPECT_EQ(g.ending(), "none");
  EXPECT_THAT(g.hosts(), ElementsAre("h0", "h1", "h2", "h3"));
  EXPECT_EQ(g.switches_size(), 3);
  EXPECT_TRUE(g.switches(2).root());
  EXPECT_EQ(g.heard_ms_ago_size(), 4);

  v1::ShowTopologyReply topology;
  ASSERT_EQ(client.topology(topology), std::nullopt);
  std::uint64_t used = 0, with_group = 0;
  for (const auto& node : topology.nodes()) used += node.used_bytes();
  for (const auto& link : topology.links()) with_group += static_cast<std::uint64_t>(link.groups_size());
  EXPECT_EQ(used, g.switches(0).bytes() + g.switches(1).bytes() + g.switches(2).bytes());
  EXPECT_EQ(with_group, 6u);

  v1::RenewLeaseRequest lease;
  lease.set_group(7);
  lease.set_generation(made.generation());
  v1::RenewLeaseReply renewed;
  ASSERT_EQ(client.renew(lease, renewed), std::nullopt);
  EXPECT_TRUE(renewed.running());
  lease.add_ranks(4);
  ASSERT_EQ(client.renew(lease, renewed), std::nullopt);
  EXPECT_FALSE(renewed.running()) << "there is no rank 4";

  v1::DestroyGroupRequest end;
  end.set_group(7);
  v1::DestroyGroupReply ended;
  ASSERT_EQ(client.destroy(end, ended), std::nullopt);
  EXPECT_EQ(ended.refusal(), "none");
  ASSERT_EQ(client.destroy(end, ended), std::nullopt);
  EXPECT_EQ(ended.refusal(), "unknown_group");
  lease.clear_ranks();
  ASSERT_EQ(client.renew(lease, renewed), std::nullopt);
  EXPECT_FALSE(renewed.running());
}

TEST_F(ServiceTest, CallsForWhichThereIsNoThreadAreMadeAgain) {
  start({}, {.threads = 2});
  store.on_sync = []() -> std::optional<std::string> {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    return std::nullopt;
  };
  std::vector<std::future<std::string>> calls;
  for (int i = 0; i < 8; ++i) {
    calls.push_back(std::async(std::launch::async, [&]() -> std::string {
      Client own;
      if (const auto error = own.connect(path, kPatience)) return *error;
      v1::CreateGroupRequest wanted = request({0, 1});
      wanted.set_group(0);
      v1::CreateGroupReply reply;
      return own.create(wanted, reply).value_or(reply.refusal());
    }));
  }
  for (auto& call : calls) EXPECT_EQ(call.get(), "none");
}

TEST_F(ServiceTest, ActivityIsWhatSwitchesOfRunningGroupsSay) {
  start();
  v1::CreateGroupReply made;
  ASSERT_EQ(client.create(request({0, 1, 2, 3}), made), std::nullopt);
  const auto& topology = manager->fabric().topology;
  const auto& tree = manager->groups().at(7).record.decision.tree.switches;
  ASSERT_EQ(tree.size(), 3u);
  // The second one does not answer, and the others know of a group that is somebody else's, too.
  switches.activities[tree[0].node] = {{.group = 70'000, .collectives = 1},
                                       {.group = 7,
                                        .collectives = 5,
                                        .completed_bytes = 4096,
                                        .state = "waits for contributions",
                                        .collective = "barrier #4",
                                        .waits_for = "rank 1 (10.0.1.2)",
                                        .waits_for_ranks = {1},
                                        .still_ms = 250,
                                        .from_ranks = 11,
                                        .to_ranks = 12,
                                        .bad_icrc = 13}};
  switches.activities[tree[2].node] = {{.group = 7, .collectives = 4}};
  v1::ShowActivityReply reply;
  ASSERT_EQ(client.activity(reply), std::nullopt);
  EXPECT_GT(reply.at_ns(), 0u);
  ASSERT_EQ(reply.groups_size(), 1);
  const auto& g = reply.groups(0);
  EXPECT_EQ(g.group(), 7u);
  EXPECT_EQ(g.generation(), made.generation());
  EXPECT_THAT(g.hosts(), ElementsAre("h0", "h1", "h2", "h3"));
  ASSERT_EQ(g.switches_size(), 3);
  const auto& leaf = g.switches(0);
  EXPECT_EQ(leaf.name(), topology.node(tree[0].node).name);
  EXPECT_TRUE(leaf.answers());
  EXPECT_FALSE(leaf.root());
  EXPECT_EQ(leaf.collectives(), 5u);
  EXPECT_EQ(leaf.completed_bytes(), 4096u);
  EXPECT_EQ(leaf.collective(), "barrier #4");
  EXPECT_EQ(leaf.waits_for(), "rank 1 (10.0.1.2)");
  EXPECT_THAT(leaf.waits_for_ranks(), ElementsAre(1));
  EXPECT_EQ(leaf.still_ms(), 250u);
  EXPECT_EQ(leaf.from_ranks(), 11u);
  EXPECT_EQ(leaf.to_ranks(), 12u);
  EXPECT_EQ(leaf.bad_icrc(), 13u);
  EXPECT_FALSE(g.switches(1).answers());
  EXPECT_TRUE(g.switches(2).root());
  EXPECT_EQ(g.switches(2).collectives(), 4u);
}

TEST_F(ServiceTest, ADryRunNeedsNoQueuePairs) {
  start();
  v1::CreateGroupRequest r;
  for (const char* address : {"10.0.0.2", "10.0.3.2"}) r.add_members()->set_address(address);
  v1::CreateGroupReply reply;
  ASSERT_EQ(client.explain(r, reply), std::nullopt);
  EXPECT_EQ(reply.refusal(), "none");
  EXPECT_THAT(reply.sentences(), testing::Contains(HasSubstr("tree of 3 switches")));
  ASSERT_EQ(client.create(r, reply), std::nullopt);
  EXPECT_EQ(reply.refusal(), "bad_request");
  EXPECT_THAT(reply.sentences(), ElementsAre(HasSubstr("qp")));
}

TEST_F(ServiceTest, WhatMakesNoSenseIsAnErrorInWords) {
  start();
  v1::CreateGroupReply reply;
  auto r = request({0, 1});
  r.mutable_options()->set_mode("iv");
  EXPECT_THAT(client.create(r, reply).value_or(""), HasSubstr("'iv'"));
  r = request({0, 1});
  r.mutable_options()->set_prefer("speed");
  EXPECT_THAT(client.create(r, reply).value_or(""), HasSubstr("'speed'"));
  r = request({0, 1});
  r.mutable_members(0)->set_address("here");
  EXPECT_THAT(client.create(r, reply).value_or(""), HasSubstr("'here'"));
  r = request({0, 1});
  r.mutable_options()->set_mode(std::string(1 << 20, 'i'));
  EXPECT_TRUE(client.create(r, reply)) << "larger than any request";
  r = request({0, 1});
  r.mutable_options()->set_window(UINT32_MAX);
  ASSERT_EQ(client.create(r, reply), std::nullopt);
  EXPECT_EQ(reply.refusal(), "bad_request");
}

TEST_F(ServiceTest, SilentRanksLoseTheirGroupAndOthersDoNot) {
  start(with_short_leases());
  v1::CreateGroupReply silent, alive;
  ASSERT_EQ(client.create(request({0, 1}), silent), std::nullopt);
  auto other = request({2, 3});
  other.set_group(8);
  ASSERT_EQ(client.create(other, alive), std::nullopt);
  EXPECT_EQ(alive.group(), 8u);
  expect_to_outlive_the_other(alive);
}

TEST_F(ServiceTest, CallsThatArriveAgainTouchNoOtherGroup) {
  start();
  const auto wanted = request({0, 1});
  v1::CreateGroupReply first, again, next;
  ASSERT_EQ(client.create(wanted, first), std::nullopt);
  ASSERT_EQ(client.create(wanted, again), std::nullopt);
  EXPECT_EQ(again.refusal(), "bad_request");
  EXPECT_THAT(again.sentences(), ElementsAre(HasSubstr("there is a group 7 already")));
  v1::DestroyGroupRequest end;
  end.set_group(7);
  end.set_generation(first.generation());
  v1::DestroyGroupReply ended;
  ASSERT_EQ(client.destroy(end, ended), std::nullopt);
  EXPECT_EQ(ended.refusal(), "none");
  ASSERT_EQ(client.create(wanted, next), std::nullopt);
  ASSERT_EQ(next.refusal(), "none");
  ASSERT_EQ(client.destroy(end, ended), std::nullopt);
  EXPECT_EQ(ended.refusal(), "unknown_group") << "of the group that had the number before";
  v1::RenewLeaseRequest lease;
  lease.set_group(7);
  lease.set_generation(first.generation());
  v1::RenewLeaseReply renewed;
  ASSERT_EQ(client.renew(lease, renewed), std::nullopt);
  EXPECT_FALSE(renewed.running());
  lease.set_generation(next.generation());
  ASSERT_EQ(client.renew(lease, renewed), std::nullopt);
  EXPECT_TRUE(renewed.running());
}

/// Whoever asks for any number gets a group for each call. Nobody renews one that nobody knows.
TEST_F(ServiceTest, AGroupOfACallThatArrivesAgainEndsWithItsLease) {
  start(with_short_leases());
  auto wanted = request({0, 1});
  wanted.set_group(0);
  v1::CreateGroupReply made, again;
  ASSERT_EQ(client.create(wanted, made), std::nullopt);
  ASSERT_EQ(client.create(wanted, again), std::nullopt);
  ASSERT_NE(made.group(), again.group());
  expect_to_outlive_the_other(made);
}

/// Two tenants with certificates, beside operators with the socket.
class TenantsOfTheService : public ServiceTest {
 protected:
  void SetUp() override {
    ManagerOptions options;
    options.tenants.all = {{"a", {"node-a"}, {}}, {"b", {"node-b"}, {}}};
    manager.emplace(small_fabric(), options, switches, store, 1);
    ASSERT_EQ(manager->recover(monotonic_now()), std::nullopt);
    running.emplace(*manager);
    service = make_service(*running);
    ASSERT_EQ(server.start(path, api::TcpAccess{"127.0.0.1", 0, authority.sign("manager")}, {}, *service),
              std::nullopt);
    ASSERT_EQ(client.connect(path, kPatience), std::nullopt);
    connect(a, "node-a");
    connect(b, "node-b");
    connect(nobody, "node-c");
  }
  void connect(Client& as, const std::string& name) {
    const std::string address = "127.0.0.1:" + std::to_string(server.tcp_port());
    ASSERT_EQ(as.connect_tls(address, authority.sign(name), kPatience), std::nullopt);
  }

  Authority authority;
  Client a, b, nobody;
};

TEST_F(TenantsOfTheService, EachSeesRenewsAndDestroysItsOwnGroups) {
  v1::CreateGroupReply made;
  ASSERT_EQ(a.create(request({0, 1}), made), std::nullopt);
  ASSERT_EQ(made.refusal(), "none");
  v1::RenewLeaseRequest lease;
  lease.set_group(7);
  lease.set_generation(made.generation());
  v1::RenewLeaseReply renewed;
  EXPECT_THAT(b.renew(lease, renewed).value_or(""), HasSubstr("another tenant's"));
  EXPECT_FALSE(b.unanswered());
  ASSERT_EQ(a.renew(lease, renewed), std::nullopt);
  EXPECT_TRUE(renewed.running());

  v1::ListGroupsReply list;
  ASSERT_EQ(b.groups(list), std::nullopt);
  EXPECT_EQ(list.groups_size(), 0);
  v1::ShowActivityReply activity;
  ASSERT_EQ(b.activity(activity), std::nullopt);
  EXPECT_EQ(activity.groups_size(), 0);
  const auto links_with_groups = [](Client& by) {
    v1::ShowTopologyReply topology;
    EXPECT_EQ(by.topology(topology), std::nullopt);
    return std::count_if(topology.links().begin(), topology.links().end(),
                         [](const auto& link) { return link.groups_size() > 0; });
  };
  EXPECT_EQ(links_with_groups(b), 0);
  EXPECT_EQ(links_with_groups(a), 2);
  EXPECT_EQ(links_with_groups(client), 2);
  ASSERT_EQ(client.groups(list), std::nullopt);
  ASSERT_EQ(list.groups_size(), 1);
  EXPECT_EQ(list.groups(0).tenant(), "a");

  v1::DestroyGroupRequest end;
  end.set_group(7);
  v1::DestroyGroupReply ended;
  EXPECT_THAT(b.destroy(end, ended).value_or(""), HasSubstr("another tenant's"));
  EXPECT_EQ(manager->groups().size(), 1u);
  ASSERT_EQ(a.destroy(end, ended), std::nullopt);
  EXPECT_EQ(ended.refusal(), "none");
}

TEST_F(TenantsOfTheService, NobodyAsksInTheNameOfAnother) {
  auto wanted = request({0, 1});
  wanted.set_tenant("b");
  v1::CreateGroupReply made;
  EXPECT_THAT(a.create(wanted, made).value_or(""), HasSubstr("in the name of another"));
  EXPECT_THAT(a.explain(wanted, made).value_or(""), HasSubstr("in the name of another"));
  ASSERT_EQ(client.create(wanted, made), std::nullopt) << "an operator may";
  EXPECT_EQ(manager->groups().at(7).record.tenant, "b");
}

TEST_F(TenantsOfTheService, OnlyOperatorsReportNeighbours) {
  v1::ReportNeighboursRequest report;
  report.set_node("leaf0");
  report.add_ports()->add_addresses("10.0.0.1/24");
  v1::ReportNeighboursReply reply;
  EXPECT_THAT(a.report(report, reply).value_or(""), HasSubstr("only operators"));
  ASSERT_EQ(client.report(report, reply), std::nullopt);
  EXPECT_THAT(reply.sentences(), ElementsAre(HasSubstr("discovery is none")));
  report.mutable_ports(0)->add_addresses("10.0.0.1");
  EXPECT_THAT(client.report(report, reply).value_or(""), HasSubstr("'10.0.0.1'"));
}

TEST_F(ServiceTest, TopologySaysWhereLinksComeFrom) {
  start();
  v1::ShowTopologyReply topology;
  ASSERT_EQ(client.topology(topology), std::nullopt);
  ASSERT_GT(topology.links_size(), 0);
  EXPECT_EQ(topology.links(0).source(), "configuration");
  EXPECT_TRUE(topology.links(0).up());
}

TEST_F(TenantsOfTheService, WhoBelongsToNoTenantGetsNothing) {
  v1::CreateGroupReply made;
  EXPECT_THAT(nobody.create(request({0, 1}), made).value_or(""), HasSubstr("node-c"));
  v1::RenewLeaseReply renewed;
  EXPECT_TRUE(nobody.renew({}, renewed).has_value());
  v1::DestroyGroupReply ended;
  EXPECT_TRUE(nobody.destroy({}, ended).has_value());
  v1::ListGroupsReply list;
  EXPECT_TRUE(nobody.groups(list).has_value());
  v1::ShowTopologyReply topology;
  EXPECT_TRUE(nobody.topology(topology).has_value());
  v1::ShowActivityReply activity;
  EXPECT_TRUE(nobody.activity(activity).has_value());
}

TEST(IncClient, NobodyThereIsSaid) {
  EXPECT_THAT(Client().connect("/nowhere/s", kPatience).value_or(""), HasSubstr("weft-inc-manager"));
}

}  // namespace
}  // namespace weft::inc::manager
