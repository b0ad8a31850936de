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

GroupRecord planned(const Fabric& fabric, const std::vector<int>& hosts,
                    const std::vector<const GroupRecord*>& others) {
  policy::Policy policy(fabric.topology, {});
  GroupRecord r;
  r.members = request_of(hosts).members;
  policy::Request request;
  request.group = 1;
  for (const Member& m : r.members) request.hosts.push_back(fabric.host_of(m.address));
  request.memory = memory_demand(r.options);
  r.decision = policy.place(request);
  EXPECT_TRUE(r.decision.admitted());
  EndpointPlanner(7).plan(fabric, others, r);
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
  const GroupRecord r = planned(f, {3, 0, 1, 2}, {});
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

TEST(EndpointPlanner, NoQueuePairOfASwitchIsUsedTwice) {
  const Fabric f = small_fabric();
  std::vector<GroupRecord> records;
  for (int i = 0; i < 5; ++i) {
    std::vector<const GroupRecord*> others;
    for (const auto& r : records) others.push_back(&r);
    records.push_back(planned(f, {0, 1, 2, 3}, others));
    if (i == 3) records.erase(records.begin() + 1);  // its numbers are free again
  }
  std::set<std::pair<std::string, std::uint32_t>> used;
  for (const auto& r : records) {
    for (const auto& s : r.switches) {
      for (const auto& e : s.endpoints) EXPECT_TRUE(used.emplace(s.name, e.qp).second) << s.name << " " << e.qp;
    }
  }
}

}  // namespace
}  // namespace weft::inc::manager
