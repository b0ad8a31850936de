// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "collectives/policy/policy.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <set>

#include "collectives/policy/widths.h"
#include "tests/collectives/policy/every_tree.h"
#include "tests/collectives/policy/requests.h"

namespace weft::inc::policy {
namespace {

constexpr std::uint64_t kMemory = 20'000;

class PolicyOf : public testing::TestWithParam<PolicyKind> {};

/// What groups have, counted from their decisions alone.
void expect_books_to_be_right(const Policy& policy) {
  const Topology& t = policy.topology();
  std::map<LinkId, std::uint32_t> users, reserved;
  std::map<std::pair<NodeId, std::uint32_t>, std::uint64_t> blocks;
  std::map<std::pair<NodeId, std::uint32_t>, std::uint32_t> duty, in_block;
  for (const auto& [id, placed] : policy.groups()) {
    for (const TreeEdge& e : placed.decision.tree.edges) {
      ++users[e.link];
      reserved[e.link] += placed.request.rate_mbps;
    }
    ASSERT_EQ(placed.decision.memory.size(), placed.decision.tree.switches.size());
    for (std::size_t i = 0; i < placed.decision.memory.size(); ++i) {
      const Allocation& a = placed.decision.memory[i];
      const TreeSwitch& s = placed.decision.tree.switches[i];
      EXPECT_EQ(a.node, s.node);
      EXPECT_EQ(a.bytes, placed.request.memory.bytes(placed.decision.units, s.endpoints()));
      EXPECT_LE(s.children, t.node(s.node).abilities.fan_in);
      auto& block = blocks[{a.node, a.block}];
      block = std::max(block, a.bytes);
      duty[{a.node, a.block}] += placed.request.duty_per_mille;
      ++in_block[{a.node, a.block}];
    }
    EXPECT_GE(placed.decision.units, placed.request.memory.least_units);
    EXPECT_LE(placed.decision.units, placed.request.memory.units);
  }
  for (LinkId id = 0; id < t.links().size(); ++id) {
    if (policy.options().kind == PolicyKind::edge_disjoint) {
      EXPECT_LE(users[id], 1u) << "a link twice";
    }
    EXPECT_LE(reserved[id], t.link(id).rate_mbps);
    EXPECT_EQ(policy.ledger().link(id).groups.size(), users[id]);
    EXPECT_EQ(policy.ledger().link(id).reserved_mbps, reserved[id]);
  }
  std::map<NodeId, std::uint64_t> bytes;
  for (const auto& [where, size] : blocks) {
    bytes[where.first] += size;
    if (policy.options().kind != PolicyKind::temporal) {
      EXPECT_EQ(in_block[where], 1u) << "memory shared";
    } else if (in_block[where] > 1) {
      EXPECT_LE(duty[where], 1000u);
    }
  }
  for (NodeId n = 0; n < t.nodes().size(); ++n) {
    EXPECT_EQ(policy.ledger().at(n).bytes, bytes[n]);
    EXPECT_LE(bytes[n], t.node(n).abilities.memory_bytes) << "more memory than there is";
  }
}

/// Bursts of groups that are staggered in a block do not overlap.
void expect_no_overlap(const Policy& policy) {
  for (NodeId n = 0; n < policy.topology().nodes().size(); ++n) {
    for (const Block& block : policy.ledger().at(n).blocks) {
      if (block.shares.size() < 2 || !block.staggered(block.shares[0].job, block.shares[0].period_ns)) continue;
      for (const Share& a : block.shares) {
        EXPECT_LE(a.offset_ns + a.burst_ns(), a.period_ns);
        for (const Share& b : block.shares) {
          const bool apart = a.offset_ns + a.burst_ns() <= b.offset_ns || b.offset_ns + b.burst_ns() <= a.offset_ns;
          EXPECT_TRUE(apart || a.group == b.group);
        }
      }
    }
  }
}

void random_life(const Topology& fabric, PolicyKind kind, std::uint64_t seed, std::map<Reason, int>& reasons) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  Rng rng(seed);
  Policy policy(fabric, {.kind = kind, .hop_ns = 100});
  std::vector<GroupId> there;
  for (GroupId id = 1; id <= 60; ++id) {
    const Request r = random_request(fabric, id, rng);
    const Decision said = policy.explain(r);
    const std::size_t before = policy.groups().size();
    const Decision done = policy.place(r);
    EXPECT_EQ(said, done) << "the dry run said something else";
    EXPECT_EQ(policy.groups().size(), before + (done.admitted() ? 1 : 0));
    if (done.admitted()) {
      there.push_back(id);
    } else {
      ++reasons[done.reason];
      EXPECT_TRUE(done.tree.edges.empty() && done.memory.empty()) << "half of a group";
      EXPECT_FALSE(done.blockers.empty()) << to_string(done.reason);
    }
    expect_books_to_be_right(policy);
    expect_no_overlap(policy);
    while (!there.empty() && rng.below(3) == 0) {
      const std::size_t at = rng.below(there.size());
      EXPECT_TRUE(policy.release(there[at]));
      there.erase(there.begin() + static_cast<std::ptrdiff_t>(at));
    }
    if (testing::Test::HasFailure()) return;
  }
  for (const GroupId id : there) EXPECT_TRUE(policy.release(id));
  EXPECT_FALSE(policy.release(1));
  expect_books_to_be_right(policy);
  for (NodeId n = 0; n < fabric.nodes().size(); ++n) EXPECT_EQ(policy.ledger().at(n).bytes, 0u);
}

TEST_P(PolicyOf, KeepsItsBooksWhateverComesAndGoes) {
  const Topology small = leaf_spine(3, 2, 3, weft_abilities(kMemory), 100);
  const Topology large = fat_tree(4, weft_abilities(kMemory), 100);
  std::map<Reason, int> reasons;
  for (std::uint64_t seed = 1; seed <= 40 && !HasFailure(); ++seed) {
    random_life(seed % 2 == 0 ? small : large, GetParam(), seed, reasons);
  }
  EXPECT_GT(reasons[Reason::no_memory] + reasons[Reason::links_taken] + reasons[Reason::no_share], 20)
      << "the fabric was never full: this shows nothing";
}

TEST_P(PolicyOf, GivesATreeWheneverThereIsOne) {
  const Topology fabric = fat_tree(4, weft_abilities(kMemory), 100);
  int refused = 0, admitted = 0;
  for (std::uint64_t seed = 1; seed <= 60 && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Rng rng(seed);
    Policy policy(fabric, {.kind = GetParam(), .hop_ns = 100});
    for (GroupId id = 1; id <= 12; ++id) {
      const Request r = random_request(fabric, id, rng);
      const GroupWidths widths(policy.topology(), policy.ledger(), policy.options(), r);
      const auto all = EveryTree(policy.topology(), widths).frontier(r.hosts);
      const Decision d = policy.place(r);
      EXPECT_EQ(d.admitted(), !all.empty());
      if (!d.admitted()) {
        ++refused;
        continue;
      }
      ++admitted;
      const bool lowest = GetParam() == PolicyKind::edge_disjoint || r.prefer == Prefer::latency;
      EXPECT_EQ(d.width_mbps, (lowest ? all.front() : all.back()).width_mbps);
      EXPECT_EQ(d.tree.switches.size(), (lowest ? all.front() : all.back()).switches);
    }
  }
  EXPECT_GT(refused, 20) << "everything fitted: this shows little";
  EXPECT_GT(admitted, 100);
}

TEST_P(PolicyOf, AnotherProcessTakesItsGroupsOver) {
  const Topology fabric = leaf_spine(3, 2, 3, weft_abilities(kMemory), 100);
  Rng rng(5);
  Policy first(fabric, {.kind = GetParam(), .hop_ns = 100});
  std::vector<GroupId> order;
  for (GroupId id = 1; id <= 30; ++id) {
    if (first.place(random_request(fabric, id, rng)).admitted()) order.push_back(id);
  }
  ASSERT_GT(order.size(), 2u);
  Policy second(fabric, first.options());
  for (const GroupId id : order) {
    const auto& placed = first.groups().at(id);
    EXPECT_EQ(second.adopt(placed.request, placed.decision), std::nullopt);
    EXPECT_NE(second.adopt(placed.request, placed.decision), std::nullopt) << "it is there already";
  }
  expect_books_to_be_right(second);
  const Request next = random_request(fabric, 99, rng);
  EXPECT_EQ(first.explain(next), second.explain(next));
  for (const GroupId id : order) EXPECT_TRUE(second.release(id));
  expect_books_to_be_right(second);
}

TEST_P(PolicyOf, TakesAGroupBackInParts) {
  const Topology fabric = leaf_spine(3, 2, 3, weft_abilities(kMemory), 100);
  for (std::uint64_t seed = 1; seed <= 40 && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Rng rng(seed);
    Policy policy(fabric, {.kind = GetParam(), .hop_ns = 100});
    for (GroupId id = 1; id <= 10; ++id) {
      static_cast<void>(policy.place(random_request(fabric, id, rng)));
    }
    std::vector<GroupId> all;
    for (const auto& [id, placed] : policy.groups()) all.push_back(id);
    for (const GroupId id : all) {
      std::set<NodeId> rest;
      for (const auto& a : policy.groups().at(id).decision.memory) {
        if (rng.below(2) == 0) rest.insert(a.node);
      }
      EXPECT_TRUE(policy.release(id, rest));
      EXPECT_EQ(policy.groups().contains(id), !rest.empty());
      expect_books_to_be_right(policy);
      if (!rest.empty()) {
        EXPECT_TRUE(policy.release(id));
      }
      expect_books_to_be_right(policy);
    }
    EXPECT_TRUE(policy.groups().empty());
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, PolicyOf,
                         testing::Values(PolicyKind::edge_disjoint, PolicyKind::spatial, PolicyKind::temporal),
                         [](const auto& kind) { return std::string(to_string(kind.param)); });

TEST(Policy, AdoptRefusesWhatDoesNotFitAnyMore) {
  Topology fabric = leaf_spine(1, 1, 2, weft_abilities(10'000), 100);
  Policy first(fabric, {});
  const Request r = request(fabric, 1, {"h0", "h1"});
  const Decision d = first.place(r);
  ASSERT_TRUE(d.admitted());
  fabric.set_abilities(fabric.find("leaf0"), weft_abilities(9'999));
  Policy second(fabric, {});
  EXPECT_THAT(second.adopt(r, d).value_or(""), testing::HasSubstr("memory of leaf0"));
  EXPECT_TRUE(second.groups().empty());
}

TEST(Policy, SpatialWindowsShrinkToTheMemoryThatIsLeft) {
  const Topology fabric = leaf_spine(1, 1, 6, weft_abilities(14'500), 1000);
  Policy policy(fabric, {.kind = PolicyKind::spatial, .hop_ns = 100});
  EXPECT_EQ(policy.place(request(fabric, 1, {"h0", "h1"})).units, 10u);
  EXPECT_EQ(policy.place(request(fabric, 2, {"h2", "h3"})).units, 4u);
  EXPECT_EQ(policy.explain(request(fabric, 3, {"h4", "h5"})).reason, Reason::no_memory);
}

/// Two ways to connect h0 and h1: over "low", which is near and has little memory, or over "high".
Topology two_ways(std::uint64_t low_memory) {
  Topology t;
  const NodeId high = t.add_switch("high", weft_abilities(100'000), 3);
  const NodeId low = t.add_switch("low", weft_abilities(low_memory), 2);
  for (const char* const n : {"0", "1"}) {
    const NodeId leaf = t.add_switch(std::string("leaf") + n, weft_abilities(100'000), 1);
    const NodeId other = t.add_switch(std::string("middle") + n, weft_abilities(100'000), 2);
    t.add_link(t.add_host(std::string("h") + n), leaf, 1000);
    t.add_link(leaf, low, 1000);
    t.add_link(leaf, other, 1000);
    t.add_link(other, high, 1000);
  }
  EXPECT_FALSE(t.finish());
  return t;
}

TEST(Policy, ADeeperTreeMayBeTheWiderOne) {
  const Topology fabric = two_ways(2'000);
  Policy policy(fabric, {.kind = PolicyKind::spatial, .hop_ns = 10'000});
  Request r = request(fabric, 1, {"h0", "h1"});
  const Decision shallow = policy.explain(r);
  EXPECT_EQ(shallow.tree.root, fabric.find("low"));
  // Two messages of 500 bytes in a round trip of two links of 10 us each way.
  EXPECT_EQ(shallow.width_mbps, 2u * 500 * 8 * 1000 / (2 * 2 * 10'000));
  ASSERT_EQ(shallow.frontier.size(), 2u);
  EXPECT_EQ(shallow.frontier[1].root, fabric.find("high"));
  EXPECT_EQ(shallow.frontier[1].width_mbps, 10u * 500 * 8 * 1000 / (2 * 3 * 10'000));
  r.prefer = Prefer::bandwidth;
  EXPECT_EQ(policy.explain(r).tree.root, fabric.find("high"));
  const Topology even = two_ways(100'000);
  Policy other(even, {.kind = PolicyKind::spatial, .hop_ns = 10'000});
  EXPECT_EQ(other.explain(r).tree.root, even.find("low")) << "nothing is gained by the deeper one";
  EXPECT_EQ(other.explain(r).frontier.size(), 1u);
}

TEST(Policy, HopByHopModesNeedWindowsOfOneLink) {
  const Topology fabric = leaf_spine(2, 1, 1, weft_abilities(100'000), 100'000);
  Policy policy(fabric, {.kind = PolicyKind::spatial, .hop_ns = 1000});
  Request r = request(fabric, 1, {"h0", "h1"});
  const std::uint32_t two = policy.explain(r).width_mbps;
  r.mode = Mode::iii;
  EXPECT_EQ(policy.explain(r).width_mbps, 2 * two);
}

Request part_of_job(const Topology& t, GroupId group, const std::vector<std::string>& hosts, std::uint32_t duty) {
  Request r = request(t, group, hosts);
  r.memory.least_units = 10;
  r.job = 1;
  r.duty_per_mille = duty;
  r.period_ns = 1'000'000;
  return r;
}

TEST(Policy, GroupsOfOneJobTakeTurns) {
  const Topology fabric = leaf_spine(1, 1, 8, weft_abilities(10'000), 1000);
  Policy policy(fabric, {.kind = PolicyKind::temporal, .hop_ns = 100});
  const Decision one = policy.place(part_of_job(fabric, 1, {"h0", "h1"}, 400));
  EXPECT_FALSE(one.shares_memory);
  const Decision two = policy.place(part_of_job(fabric, 2, {"h2", "h3"}, 500));
  EXPECT_TRUE(two.shares_memory);
  EXPECT_TRUE(two.staggered);
  EXPECT_EQ(two.offset_ns, 400'000u);
  EXPECT_EQ(two.width_mbps, one.width_mbps) << "bursts that keep apart lose nothing";
  const Decision three = policy.explain(part_of_job(fabric, 3, {"h4", "h5"}, 200));
  EXPECT_EQ(three.reason, Reason::no_share) << "1100 of 1000 parts of the time";
  Request other = part_of_job(fabric, 3, {"h4", "h5"}, 100);
  other.job = 2;
  const Decision foreign = policy.place(other);
  EXPECT_TRUE(foreign.admitted());
  EXPECT_FALSE(foreign.staggered);
  EXPECT_EQ(policy.ledger().at(fabric.find("leaf0")).bytes, 10'000u);
  // Now nobody's bursts in the block keep out of all others' way.
  EXPECT_TRUE(policy.release(2));
  EXPECT_FALSE(policy.place(part_of_job(fabric, 4, {"h2", "h3"}, 100)).staggered);
}

TEST(Policy, AGapBetweenBurstsIsUsed) {
  const Topology fabric = leaf_spine(1, 1, 8, weft_abilities(10'000), 1000);
  Policy policy(fabric, {.kind = PolicyKind::temporal, .hop_ns = 100});
  for (GroupId id = 1; id <= 3; ++id) {
    policy.place(part_of_job(fabric, id, {"h" + std::to_string(2 * id), "h" + std::to_string(2 * id + 1)}, 300));
  }
  EXPECT_TRUE(policy.release(2));
  EXPECT_EQ(policy.explain(part_of_job(fabric, 4, {"h0", "h1"}, 300)).offset_ns, 300'000u);
  const Decision long_one = policy.explain(part_of_job(fabric, 4, {"h0", "h1"}, 350));
  EXPECT_TRUE(long_one.admitted());
  EXPECT_FALSE(long_one.staggered) << "no gap is as long, so it takes its chances";
}

TEST(Policy, ASharedBlockCountsAsThePartOfTheTimeThatIsLeft) {
  const Topology fabric = leaf_spine(1, 1, 4, weft_abilities(10'000), 100'000);
  Policy policy(fabric, {.kind = PolicyKind::temporal, .hop_ns = 1000});
  Request r = request(fabric, 1, {"h0", "h1"});
  r.duty_per_mille = 400;
  const std::uint32_t alone = policy.place(r).width_mbps;
  r = request(fabric, 2, {"h2", "h3"});
  r.duty_per_mille = 400;
  const Decision shared = policy.place(r);
  EXPECT_EQ(shared.width_mbps, alone * 6 / 10);
  EXPECT_TRUE(shared.shares_memory);
  // The block gets smaller with those who need less.
  EXPECT_TRUE(policy.release(1));
  EXPECT_EQ(policy.ledger().at(fabric.find("leaf0")).bytes, 10'000u);
  EXPECT_TRUE(policy.release(2));
  EXPECT_EQ(policy.ledger().at(fabric.find("leaf0")).bytes, 0u);
}

// The links of its hosts are what each group is as wide as. Roots above the same switch would share that one's links.
TEST(Policy, GroupsAsWideAsTheirHostsSpreadOverTheSwitchesBelowTheRoots) {
  Policy policy(fat_tree(4, weft_abilities(kMemory), 100), {PolicyKind::spatial});
  std::set<std::string> second_tier;
  for (GroupId group = 1; group <= 2; ++group) {
    Request r = request(policy.topology(), group, {"h0", "h2", "h4", "h6", "h8", "h10", "h12", "h14"});
    r.memory = units(1);
    const Decision d = policy.place(r);
    ASSERT_TRUE(d.admitted());
    for (const TreeSwitch& s : d.tree.switches) {
      const Node& node = policy.topology().node(s.node);
      if (node.tier != 2) continue;
      EXPECT_TRUE(second_tier.insert(node.name).second) << node.name << " twice";
    }
  }
  EXPECT_EQ(second_tier.size(), 8u);
}

TEST(Policy, BlocksThatAreBusyAreSharedOnlyByGroupsThatTakeTurns) {
  const Topology fabric = leaf_spine(1, 1, 8, weft_abilities(10'000), 1000);
  Policy policy(fabric, {.kind = PolicyKind::temporal, .hop_ns = 100, .shared_per_mille = 500});
  EXPECT_TRUE(policy.place(part_of_job(fabric, 1, {"h0", "h1"}, 400)).admitted());
  Request other = part_of_job(fabric, 2, {"h2", "h3"}, 101);
  other.job = 2;
  EXPECT_EQ(policy.explain(other).reason, Reason::no_share);
  other.duty_per_mille = 100;
  EXPECT_TRUE(policy.explain(other).admitted());
  EXPECT_TRUE(policy.place(part_of_job(fabric, 3, {"h4", "h5"}, 600)).admitted()) << "one of its own job";
}

TEST(Policy, GroupsThatCommunicateAtTheSameTimeShareNoBlock) {
  const Topology fabric = leaf_spine(1, 1, 8, weft_abilities(20'000), 1000);
  Policy policy(fabric, {.kind = PolicyKind::temporal, .hop_ns = 100});
  const auto part = [&](GroupId id, std::uint32_t moment) {
    Request r = part_of_job(fabric, id, {"h" + std::to_string(2 * id), "h" + std::to_string(2 * id + 1)}, 100);
    r.moment = moment;
    return r;
  };
  EXPECT_TRUE(policy.place(part(0, 1)).admitted());
  EXPECT_FALSE(policy.place(part(1, 1)).shares_memory);
  EXPECT_EQ(policy.explain(part(2, 1)).reason, Reason::no_share);
  EXPECT_TRUE(policy.explain(part(2, 2)).shares_memory);
  Request other = part(2, 1);
  other.job = 2;
  EXPECT_TRUE(policy.explain(other).shares_memory) << "of another job, at any time";
}

TEST(Policy, PlacesAllGroupsOrNone) {
  const Topology fabric = leaf_spine(2, 2, 4, weft_abilities(2'000), 100);
  Policy policy(fabric, {.kind = PolicyKind::spatial});
  std::vector<Request> all;
  for (GroupId id = 1; id <= 3; ++id) {
    all.push_back(request(fabric, id, {"h" + std::to_string(id - 1), "h" + std::to_string(id + 3)}));
    all.back().memory = units(1);
  }
  const std::vector<Decision> three = policy.place_all(all);  // a leaf has memory for two
  ASSERT_EQ(three.size(), 3u);
  EXPECT_TRUE(three[1].admitted());
  EXPECT_EQ(three[2].reason, Reason::no_memory);
  EXPECT_TRUE(policy.groups().empty());
  expect_books_to_be_right(policy);
  all.pop_back();
  const std::vector<Decision> two = policy.place_all(all);
  ASSERT_EQ(two.size(), 2u);
  EXPECT_TRUE(two[1].admitted());
  EXPECT_EQ(policy.groups().size(), 2u);
  expect_books_to_be_right(policy);
  // A group that was there before is none of those that are taken back.
  EXPECT_EQ(policy.place_all(all).back().reason, Reason::group_exists);
  EXPECT_EQ(policy.groups().size(), 2u);
}

TEST(Policy, KeepsMemoryForGroupsOfOneSwitch) {
  const Topology fabric = leaf_spine(2, 2, 4, weft_abilities(4'000), 100);
  for (const PolicyKind kind : {PolicyKind::spatial, PolicyKind::temporal}) {
    Policy policy(fabric, {.kind = kind, .local_per_mille = 500});
    const auto place = [&](GroupId id, const std::string& a, const std::string& b) {
      Request r = request(fabric, id, {a, b});
      r.memory = units(1);
      return policy.place(r).reason;
    };
    const Reason full = kind == PolicyKind::spatial ? Reason::no_memory : Reason::no_share;
    EXPECT_EQ(place(1, "h0", "h4"), Reason::none);
    EXPECT_EQ(place(2, "h0", "h1"), Reason::none);  // one of the two places that are kept
    EXPECT_EQ(place(3, "h1", "h5"), Reason::none);
    EXPECT_EQ(place(4, "h2", "h6"), full) << "the place that is left is kept";
    EXPECT_EQ(place(5, "h2", "h3"), Reason::none);
    EXPECT_EQ(policy.ledger().at(fabric.find("leaf0")).local_bytes(), 2'000u);
    EXPECT_EQ(place(6, "h0", "h3"), full) << "nothing is left";
    EXPECT_TRUE(policy.release(1));
    EXPECT_EQ(place(7, "h2", "h6"), Reason::none) << "no place has to be kept any more";
    expect_books_to_be_right(policy);
  }
}

TEST(Policy, NamesOfKindsAreReadBack) {
  for (const auto kind : {PolicyKind::edge_disjoint, PolicyKind::spatial, PolicyKind::temporal}) {
    EXPECT_EQ(policy_kind_from(to_string(kind)), kind);
  }
  EXPECT_FALSE(policy_kind_from("best"));
}

}  // namespace
}  // namespace weft::inc::policy
