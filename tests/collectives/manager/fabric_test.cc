// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "collectives/manager/fabric.h"

#include <gmock/gmock.h>

#include <map>
#include <set>
#include <tuple>

#include "tests/collectives/manager/fake_fabric.h"

namespace weft::inc::manager {
namespace {

GroupRecord planned(const Fabric& fabric, const std::vector<int>& hosts, EndpointPlanner& planner) {
  policy::Policy policy(fabric.topology, {});
  GroupRecord r;
  r.members = request_of(hosts).members;
  policy::Request request;
  request.group = 1;
  for (const Member& m : r.members) request.hosts.push_back(fabric.host_of(m.address));
  request.memory = memory_demand(r.options);
  r.decision = policy.place(request);
  EXPECT_TRUE(r.decision.admitted());
  planner.plan(fabric, r);
  return r;
}

TEST(Fabric, HostsAreFoundByTheirAddresses) {
  const Fabric f = small_fabric();
  EXPECT_EQ(f.host_of(*wire::IpAddress::parse("10.0.3.2")), f.topology.find("h3"));
  EXPECT_EQ(f.host_of(*wire::IpAddress::parse("10.0.3.1")), policy::kNoNode) << "the switch's";
  EXPECT_EQ(f.host_of(*wire::IpAddress::parse("10.1.0.2")), policy::kNoNode) << "a leaf's";
}

TEST(EndpointPlanner, BothEndsOfEachEdgeFitTogether) {
  const Fabric f = small_fabric();
  EndpointPlanner planner(7);
  const GroupRecord r = planned(f, {3, 0, 1, 2}, planner);
  ASSERT_EQ(r.switches.size(), 3u);
  // (address, qp) of every endpoint of a switch
  std::map<std::pair<std::string, std::uint32_t>, const EndpointRecord*> all;
  for (const auto& s : r.switches) {
    for (const auto& e : s.endpoints) EXPECT_TRUE(all.emplace(std::pair(e.address.to_string(), e.qp), &e).second);
  }
  std::size_t between = 0;
  for (const auto& [where, e] : all) {
    if (e->is_rank) {
      const Member& m = r.members.at(e->ranks.at(0));
      EXPECT_EQ(std::tuple(e->peer.to_string(), e->peer_qp, e->first_rx, e->first_tx),
                std::tuple(m.address.to_string(), m.qp, m.first_psn, m.expects_psn));
      continue;
    }
    const auto other = all.find({e->peer.to_string(), e->peer_qp});
    ASSERT_NE(other, all.end());
    EXPECT_EQ(other->second->peer_qp, e->qp);
    EXPECT_EQ(other->second->first_rx, e->first_tx);
    EXPECT_EQ(other->second->first_tx, e->first_rx);
    EXPECT_NE(other->second->ranks.empty(), e->ranks.empty()) << "one of the two is the parent";
    ++between;
  }
  EXPECT_EQ(between, 4u);
  // The order of adding up: that of the lowest rank behind, and the parent last.
  EXPECT_EQ(r.switches[2].endpoints[0].ranks, (std::vector<std::uint32_t>{0, 3}));
  EXPECT_EQ(r.switches[2].endpoints[1].ranks, (std::vector<std::uint32_t>{1, 2}));
  for (std::size_t leaf = 0; leaf < 2; ++leaf) {
    EXPECT_TRUE(r.switches[leaf].endpoints.back().ranks.empty());
    EXPECT_LT(r.switches[leaf].endpoints[0].ranks[0], r.switches[leaf].endpoints[1].ranks[0]);
  }
}

using Used = std::set<std::pair<std::string, std::uint32_t>>;

/// Numbers of queue pairs by switch; expects that none stands there twice.
Used used_by(const std::vector<GroupRecord>& records) {
  Used used;
  for (const auto& r : records) {
    for (const auto& s : r.switches) {
      for (const auto& e : s.endpoints) EXPECT_TRUE(used.emplace(s.name, e.qp).second) << s.name << " " << e.qp;
    }
  }
  return used;
}

TEST(EndpointPlanner, NoQueuePairOfASwitchIsUsedTwice) {
  const Fabric f = small_fabric();
  EndpointPlanner planner(7);
  std::vector<GroupRecord> records;
  for (int i = 0; i < 4; ++i) records.push_back(planned(f, {0, 1, 2, 3}, planner));
  const Used of_four = used_by(records);
  planner.release(records[1]);
  records[1] = planned(f, {0, 1, 2, 3}, planner);
  EXPECT_EQ(used_by(records), of_four) << "numbers that are free again are used first";
}

TEST(EndpointPlanner, NumbersAtSwitchesThatMayHaveTheGroupAreNotFree) {
  const Fabric f = small_fabric();
  EndpointPlanner planner(7);
  std::vector<GroupRecord> records{planned(f, {0, 1, 2, 3}, planner)};
  const GroupRecord& first = records.front();
  const policy::NodeId silent = first.decision.tree.switches.front().node;
  planner.release(first, {silent});
  const GroupRecord second = planned(f, {0, 1, 2, 3}, planner);
  for (std::size_t i = 0; i < 3; ++i) {
    const bool kept = first.decision.tree.switches[i].node == silent;
    EXPECT_EQ(first.switches[i].endpoints[0].qp != second.switches[i].endpoints[0].qp, kept) << first.switches[i].name;
  }
}

TEST(EndpointPlanner, RecordsOfAnEarlierProcessKeepTheirNumbers) {
  const Fabric f = small_fabric();
  EndpointPlanner earlier(7), planner(8);
  std::vector<GroupRecord> records;
  for (int i = 0; i < 3; ++i) records.push_back(planned(f, {0, 1, 2, 3}, earlier));
  records.erase(records.begin());
  for (const auto& r : records) planner.adopt(r);
  for (int i = 0; i < 3; ++i) records.push_back(planned(f, {0, 1, 2, 3}, planner));
  used_by(records);
}

TEST(FreeNumbers, AreThoseThatNobodyHasLowestFirst) {
  FreeNumbers numbers(10, 19);
  std::set<std::uint32_t> free;
  for (std::uint32_t n = 10; n < 20; ++n) free.insert(n);
  Rng rng(1);
  for (int i = 0; i < 20'000; ++i) {
    const auto number = static_cast<std::uint32_t>(8 + rng.below(14));
    switch (rng.below(3)) {
      case 0:
        ASSERT_EQ(numbers.take(), free.empty() ? std::nullopt : std::optional(*free.begin()));
        if (!free.empty()) free.erase(free.begin());
        break;
      case 1:
        ASSERT_EQ(numbers.take(number), free.erase(number) != 0) << number;
        break;
      default:
        if (number < 10 || number > 19) break;
        numbers.give_back(number);  // one that is free already stays free
        free.insert(number);
    }
  }
}

}  // namespace
}  // namespace weft::inc::manager
