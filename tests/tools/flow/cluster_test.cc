// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Times that can be worked out by hand. A link carries 12.5 bytes per nanosecond.
#include "tools/flow/cluster.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "switch/base/time.h"

namespace weft::flow {
namespace {

using inc::policy::PolicyKind;
using inc::policy::Reason;

constexpr double kBytes = 1.25e9;  // 0.1 s of a link

/// Tensor groups of eight neighbours, or none, and data groups across them.
JobPlan training(std::uint32_t ranks, double tensor_bytes, double data_bytes, std::uint32_t iterations = 1,
                 std::uint32_t first_rank = 0) {
  JobPlan plan;
  plan.name = "training";
  plan.ranks = ranks;
  plan.iterations = iterations;
  Phase compute{"compute", kSecond, {}}, tensor{"tensor", 0, {}}, data{"data", 0, {}};
  for (std::uint32_t r = first_rank; tensor_bytes > 0 && r < ranks; r += 8) {
    GroupPlan g{GroupKind::tensor, {}};
    for (std::uint32_t i = 0; i < 8; ++i) g.ranks.push_back(r + i);
    tensor.collectives.push_back({static_cast<std::uint32_t>(plan.groups.size()), tensor_bytes});
    plan.groups.push_back(g);
  }
  for (std::uint32_t i = 0; data_bytes > 0 && i < 8; ++i) {
    GroupPlan g{GroupKind::data, {}};
    for (std::uint32_t r = i; r < ranks; r += 8) g.ranks.push_back(r);
    data.collectives.push_back({static_cast<std::uint32_t>(plan.groups.size()), data_bytes});
    plan.groups.push_back(g);
  }
  plan.phases = {compute};
  if (tensor_bytes > 0) plan.phases.push_back(tensor);
  if (data_bytes > 0) plan.phases.push_back(data);
  return plan;
}

ClusterOptions options(std::optional<PolicyKind> policy = std::nullopt, std::uint64_t units = 8) {
  ClusterOptions o;
  o.policy = policy;
  o.memory = memory_in_units(units, o.fabric, o.hop_ns);
  o.count_latency = false;
  return o;
}

Job job(JobPlan plan, TimeNs arrival = 0) {
  return {std::make_shared<const JobPlan>(std::move(plan)), arrival};
}

double seconds(const ClusterOptions& o, JobPlan plan) {
  Cluster cluster(o, {job(std::move(plan))});
  EXPECT_TRUE(cluster.run({}));
  return static_cast<double>(cluster.results()[0].end_ns) / 1e9;
}

TEST(Cluster, RingsAndTreesTakeWhatTheirVolumesSay) {
  EXPECT_NEAR(seconds(options(), training(8, kBytes, 0)), 1 + 0.1 * 2 * 7 / 8, 1e-8);
  EXPECT_NEAR(seconds(options(PolicyKind::spatial), training(8, kBytes, 0)), 1.1, 1e-8);
  EXPECT_NEAR(seconds(options(PolicyKind::spatial), training(8, kBytes, 0, 3)), 3.3, 1e-8);
  ClusterOptions twice = options();
  twice.ring_sends_twice = true;
  EXPECT_NEAR(seconds(twice, training(8, kBytes, 0)), 1.2, 1e-8);
}

TEST(Cluster, EachCollectiveTakesItsHops) {
  ClusterOptions o = options();
  o.count_latency = true;
  JobPlan plan = training(8, kBytes, 0);
  plan.phases[1].collectives[0].count = 10;
  plan.phases[1].collectives[0].bytes /= 10;
  EXPECT_NEAR(seconds(o, plan), 1.175 + 10 * 14 * 2e-6, 1e-8);  // 14 steps of two hops
  o.policy = PolicyKind::spatial;
  EXPECT_NEAR(seconds(o, plan), 1.1 + 10 * 2e-6, 1e-8);  // up and down
}

TEST(Cluster, TellsHowLongThePolicyTookForEachGroup) {
  // A clock that goes on by 10 ns more each time: two calls around each decision.
  const auto times_of = [](std::optional<PolicyKind> policy, bool together) {
    ClusterOptions o = options(policy);
    o.admission.together = together;
    o.clock = [now = std::uint64_t{0}, step = std::uint64_t{0}]() mutable { return now += step += 10; };
    Cluster cluster(o, {job(training(16, kBytes, kBytes))});
    EXPECT_TRUE(cluster.run({}));
    return cluster.decision_times();
  };
  EXPECT_EQ(times_of(PolicyKind::spatial, false),
            (std::vector<std::uint64_t>{20, 40, 60, 80, 100, 120, 140, 160, 180, 200}));
  // Two tensor groups, and then eight data groups.
  EXPECT_EQ(times_of(PolicyKind::spatial, true), (std::vector<std::uint64_t>{10, 10, 5, 5, 5, 5, 5, 5, 5, 5}));
  EXPECT_TRUE(times_of(std::nullopt, false).empty());
}

TEST(Cluster, AWindowThatIsTooSmallLimitsATree) {
  ClusterOptions o = options(PolicyKind::spatial);
  o.memory.of_group.message_bytes = 12'500;  // half of what is under way between a leaf and its GPUs
  EXPECT_NEAR(seconds(o, training(8, kBytes, 0)), 1.2, 1e-7);
}

// EPIC's Tables 36 to 43: eight data groups over a leaf's four uplinks, and tensor groups inside of the leaves.
TEST(Cluster, ScarceTreesHelpAsMuchAsThePaperSays) {
  const auto communicates = [](std::optional<PolicyKind> policy, std::uint64_t units, bool scale_up) {
    ClusterOptions o = options(policy, units);
    o.ring_sends_twice = true;
    if (scale_up) o.scale_up = {8, 1e6};
    return seconds(o, training(128, kBytes, kBytes)) - 1;
  };
  // Tensor groups: 0.2 in rings, 0.1 in trees. Data groups, two to an uplink: 0.4, all in trees 0.2, half of them 0.3.
  EXPECT_NEAR(communicates(std::nullopt, 4, false), 0.6, 1e-6);
  EXPECT_NEAR(communicates(PolicyKind::edge_disjoint, 32, false), 0.5, 1e-6);
  EXPECT_NEAR(communicates(PolicyKind::spatial, 4, false), 0.5, 1e-6);
  EXPECT_NEAR(communicates(PolicyKind::spatial, 8, false), 0.4, 1e-6);
  EXPECT_NEAR(communicates(PolicyKind::spatial, 16, false), 0.3, 1e-6);
  EXPECT_NEAR(communicates(PolicyKind::temporal, 4, false), 0.4, 1e-6);
  EXPECT_NEAR(communicates(PolicyKind::temporal, 8, false), 0.3, 1e-6);
  EXPECT_NEAR(communicates(std::nullopt, 4, true), 0.4, 1e-3);
  EXPECT_NEAR(communicates(PolicyKind::edge_disjoint, 4, true), 0.3, 1e-3);
  EXPECT_NEAR(communicates(PolicyKind::spatial, 4, true), 0.3, 1e-3);
  EXPECT_NEAR(communicates(PolicyKind::temporal, 8, true), 0.2, 1e-3);
}

/// Two groups of two GPUs, each of them below another leaf; two spines connect the leaves.
std::vector<JobResult> across(std::optional<PolicyKind> policy, std::uint32_t iterations, TimeNs from, TimeNs to) {
  ClusterOptions o = options(policy);
  o.fabric = {.pods = 1, .leaves = 2, .spines = 2, .gpus_per_leaf = 8};
  const inc::policy::Topology t = Fabric(o.fabric).topology({});
  o.failures = {failure_of(t, t.find("spine0"), from, to)};
  JobPlan plan;
  plan.ranks = 16;
  plan.iterations = iterations;
  plan.groups = {{GroupKind::data, {0, 8}}, {GroupKind::data, {1, 9}}};
  plan.phases = {{"compute", kSecond, {}}, {"data", 0, {{0, kBytes}, {1, kBytes}}}};
  Cluster cluster(o, {job(plan)});
  EXPECT_TRUE(cluster.run({}));
  return cluster.results();
}

// The spine fails when 0.04 of 0.1 s have passed. Both groups have one uplink then.
TEST(Cluster, RingsGoOnOverOtherWays) {
  const auto results = across(std::nullopt, 1, 1'040'000'000, 9 * kSecond);
  EXPECT_NEAR(static_cast<double>(results[0].end_ns) / 1e9, 1.04 + 2 * 0.06, 1e-8);
}

TEST(Cluster, GroupsMoveToAnotherTreeAndBeginAgain) {
  // The one that loses its tree sends 0.06 s of a link until the other has ended, and the rest alone.
  const auto results = across(PolicyKind::spatial, 1, 1'040'000'000, 9 * kSecond);
  EXPECT_NEAR(static_cast<double>(results[0].end_ns) / 1e9, 1.04 + 2 * 0.06 + 0.04, 1e-8);
  EXPECT_EQ(results[0].moved, 1u);
  EXPECT_EQ(results[0].fell_back, 0u);
  EXPECT_EQ(results[0].counts.in_network, 2u);
}

TEST(Cluster, GroupsFallBackToRingsAndComeBack) {
  // Edge-disjoint trees leave no second tree. The spine is back before the second iteration communicates.
  const auto results = across(PolicyKind::edge_disjoint, 3, 1'040'000'000, 1'540'000'000);
  EXPECT_NEAR(static_cast<double>(results[0].end_ns) / 1e9, 1.20 + 1.1 + 1.1, 1e-8);
  EXPECT_EQ(results[0].fell_back, 1u);
  EXPECT_EQ(results[0].came_back, 1u);
  EXPECT_EQ(results[0].counts.in_network, 5u);
  EXPECT_EQ(results[0].counts.in_rings, 1u);
}

TEST(Cluster, GroupsWithoutATreeHaveAReason) {
  Cluster cluster(options(PolicyKind::edge_disjoint), {job(training(128, kBytes, kBytes))});
  ASSERT_TRUE(cluster.run({}));
  EXPECT_EQ(cluster.results()[0].with_tree, 16u);
  EXPECT_EQ(cluster.results()[0].without_tree, 8u);
  EXPECT_EQ(cluster.reasons().at(Reason::none), 16u);
  EXPECT_EQ(cluster.reasons().at(Reason::links_taken), 8u);
  EXPECT_EQ(cluster.results()[0].counts.in_network, 16u);
  EXPECT_EQ(cluster.results()[0].counts.in_rings, 8u);
}

TEST(Cluster, BytesOfTiersAreThoseOfTheTrees) {
  Cluster cluster(options(PolicyKind::spatial, 16), {job(training(128, kBytes, kBytes, 2))});
  ASSERT_TRUE(cluster.run({}));
  const Counts& c = cluster.results()[0].counts;
  // Per iteration: 16 tensor trees with 8 links of GPUs, 8 data trees with 16; 16 leaf and 4 spine links each.
  EXPECT_NEAR(c.tier_bytes[0], 2 * kBytes * 2 * (16 * 8 + 8 * 16), 1);
  EXPECT_NEAR(c.tier_bytes[1], 2 * kBytes * 2 * 8 * 16, 1);
  EXPECT_NEAR(c.tier_bytes[2], 2 * kBytes * 2 * 8 * 4, 1);
}

TEST(Cluster, InsideOfAServerNothingReachesTheFabric) {
  ClusterOptions o = options(PolicyKind::temporal);
  o.scale_up = {8, 125};
  Cluster cluster(o, {job(training(8, kBytes, 0))});
  ASSERT_TRUE(cluster.run({}));
  EXPECT_NEAR(static_cast<double>(cluster.results()[0].end_ns) / 1e9, 1 + 0.01 * 1.75, 1e-8);
  EXPECT_EQ(cluster.results()[0].inside, 1u);
  EXPECT_EQ(cluster.results()[0].counts.inside, 1u);
  EXPECT_EQ(cluster.results()[0].counts.tier_bytes[0], 0);
}

// One GPU of each server speaks for it; what servers add up and hand out inside comes on top.
// A ring of eight sends 7/4 of the vector in each direction, a switch of the server gets and sends it once.
TEST(Cluster, AServerCanAddUpByItself) {
  ClusterOptions o = options();
  o.scale_up = {8, 12.5, true};
  EXPECT_NEAR(seconds(o, training(8, kBytes, 0)), 1.1, 1e-6);
  o.scale_up.in_network = false;
  EXPECT_NEAR(seconds(o, training(8, kBytes, 0)), 1.175, 1e-6);
  // All GPUs of two servers: a sum inside, and a tree for the rest.
  ClusterOptions trees = options(PolicyKind::spatial);
  for (const auto& [in_network, volume] : {std::pair{false, 2 * 7 / 8.0}, std::pair{true, 1.0}}) {
    trees.scale_up = {8, 12.5, in_network};
    JobPlan plan;
    plan.ranks = 16;
    plan.groups = {{GroupKind::data, {}}};
    for (std::uint32_t r = 0; r < 16; ++r) plan.groups[0].ranks.push_back(r);
    plan.phases = {{"data", 0, {{0, kBytes}}}};
    EXPECT_NEAR(seconds(trees, plan), 0.1 * (1 + volume), 1e-6) << in_network;
  }
  // Sends from one GPU to another have nothing to add up.
  JobPlan sends;
  sends.ranks = 8;
  sends.groups = {{GroupKind::pipeline, {0, 1}}};
  sends.phases = {{"send", 0, {{0, kBytes}}}};
  o.scale_up.in_network = true;
  EXPECT_NEAR(seconds(o, sends), 0.1, 1e-6);
}

TEST(Cluster, ServersWithSeveralRanksSendOneVector) {
  ClusterOptions o = options(PolicyKind::spatial);
  o.scale_up = {8, 125};
  JobPlan plan;
  plan.ranks = 16;
  plan.groups = {{GroupKind::data, {0, 1, 2, 3, 8, 9, 10, 11}}};
  plan.phases = {{"data", 0, {{0, kBytes}}}};
  Cluster cluster(o, {job(plan)});
  ASSERT_TRUE(cluster.run({}));
  EXPECT_NEAR(static_cast<double>(cluster.results()[0].end_ns) / 1e9, 0.1 + 0.01 * 2 * 3 / 4, 1e-8);
  EXPECT_NEAR(cluster.results()[0].counts.tier_bytes[0], kBytes * 4, 1);
  o.policy = std::nullopt;
  EXPECT_NEAR(seconds(o, plan), 0.1 * 2 * 7 / 8, 1e-8);
}

// Eight data groups of 16 ranks over leaves with memory for three: the other five take as long as before.
TEST(Cluster, TreesForSomeGroupsOfAPhaseAreNoneForAll) {
  ClusterOptions o = options(PolicyKind::spatial, 4);
  for (const bool together : {false, true}) {
    o.admission.together = together;
    Cluster cluster(o, {job(training(128, kBytes, kBytes))});
    ASSERT_TRUE(cluster.run({}));
    EXPECT_EQ(cluster.results()[0].with_tree, together ? 16u : 19u);  // tensor groups need one unit of a leaf each
    EXPECT_EQ(cluster.results()[0].without_tree, together ? 8u : 5u);
    EXPECT_EQ(cluster.reasons().at(Reason::none), together ? 16u : 19u);
  }
}

// The first job has all of its leaf's memory until it ends.
TEST(Cluster, GroupsAskAgainWhenAJobEnds) {
  for (const bool again : {false, true}) {
    ClusterOptions o = options(PolicyKind::spatial, 1);
    o.fabric = {.pods = 1, .leaves = 2, .spines = 2, .gpus_per_leaf = 16};
    o.admission.ask_again = again;
    Cluster cluster(o, {job(training(8, kBytes, 0)), job(training(8, kBytes, 0, 2))});
    ASSERT_TRUE(cluster.run({}));
    EXPECT_NEAR(static_cast<double>(cluster.results()[0].end_ns) / 1e9, 1.1, 1e-8);
    EXPECT_NEAR(static_cast<double>(cluster.results()[1].end_ns) / 1e9, 1.175 + (again ? 1.1 : 1.175), 1e-8);
    EXPECT_EQ(cluster.results()[1].came_back, again ? 1u : 0u);
  }
}

// Two jobs have one unit in turns; the second asks when the first is half done.
TEST(Cluster, GroupsWaitForALockThatIsFreeSoon) {
  for (const bool wait : {false, true}) {
    ClusterOptions o = options(PolicyKind::temporal, 1);
    o.fabric = {.pods = 1, .leaves = 2, .spines = 2, .gpus_per_leaf = 16};
    o.admission.patience = wait ? 1 : 0;
    Cluster cluster(o, {job(training(8, kBytes, 0)), job(training(8, kBytes, 0), kSecond / 20)});
    ASSERT_TRUE(cluster.run({}));
    EXPECT_NEAR(static_cast<double>(cluster.results()[0].end_ns) / 1e9, 1.1, 1e-8);
    EXPECT_NEAR(static_cast<double>(cluster.results()[1].end_ns) / 1e9, wait ? 1.1 + 0.1 : 1.05 + 0.175, 1e-8);
    EXPECT_EQ(cluster.results()[1].counts.refused, wait ? 0u : 1u);
    EXPECT_EQ(cluster.results()[1].counts.waits, wait ? 1u : 0u);
    EXPECT_EQ(cluster.results()[1].counts.in_network, wait ? 1u : 0u);
  }
  // Right after the first has begun, the ring is faster.
  ClusterOptions o = options(PolicyKind::temporal, 1);
  o.fabric = {.pods = 1, .leaves = 2, .spines = 2, .gpus_per_leaf = 16};
  o.admission.patience = 1;
  Cluster cluster(o, {job(training(8, kBytes, 0)), job(training(8, kBytes, 0), kSecond / 100)});
  ASSERT_TRUE(cluster.run({}));
  EXPECT_NEAR(static_cast<double>(cluster.results()[1].end_ns) / 1e9, 1.01 + 0.175, 1e-8);
  EXPECT_EQ(cluster.results()[1].counts.refused, 1u);
  o.admission.patience = 1.2;
  Cluster patient(o, {job(training(8, kBytes, 0)), job(training(8, kBytes, 0), kSecond / 100)});
  ASSERT_TRUE(patient.run({}));
  EXPECT_NEAR(static_cast<double>(patient.results()[1].end_ns) / 1e9, 1.1 + 0.1, 1e-8);
}

TEST(Cluster, PairsLeaveMemoryToOthers) {
  ClusterOptions o = options(PolicyKind::spatial, 2);
  o.fabric = {.pods = 1, .leaves = 2, .spines = 2, .gpus_per_leaf = 16};
  // Data groups of two, between servers of one leaf, would take both units before the second tensor group comes.
  const auto with_tree = [&] {
    JobPlan plan = training(16, kBytes, kBytes);
    std::rotate(plan.groups.begin(), plan.groups.begin() + 2, plan.groups.end());  // data groups ask first
    plan.phases = {{"data", 0, {{0, kBytes}}}, {"tensor", 0, {{8, kBytes}, {9, kBytes}}}};
    Cluster cluster(o, {job(plan)});
    EXPECT_TRUE(cluster.run({}));
    return cluster.results()[0].counts.in_network;
  };
  EXPECT_EQ(with_tree(), 1u);
  o.admission.least_hosts = 3;
  EXPECT_EQ(with_tree(), 2u);
}

TEST(Cluster, JobsThatDoNotFitWait) {
  Cluster cluster(options(), {job(training(128, 0, 0)), job(training(128, 0, 0), 5), job(training(8, 0, 0), 6)});
  ASSERT_TRUE(cluster.run({}));
  EXPECT_EQ(cluster.results()[0].end_ns, kSecond);
  EXPECT_EQ(cluster.results()[1].start_ns, kSecond);
  EXPECT_EQ(cluster.results()[2].start_ns, 2 * kSecond);  // the first in the queue goes first
  EXPECT_EQ(cluster.results()[2].end_ns, 3 * kSecond);
}

// Eight jobs of 30 years that wait for each other: what comes 146 years after the first is left out.
TEST(Cluster, TimesDoNotOverflow) {
  JobPlan plan = training(128, 0, 0, 10);
  plan.phases[0].compute_ns = 100'000'000 * kSecond;
  std::vector<Job> jobs(8, job(plan));
  Cluster cluster(options(), jobs);
  EXPECT_FALSE(cluster.run({}));
  EXPECT_EQ(cluster.ended(), 4u);
  EXPECT_EQ(cluster.results()[3].end_ns, 4'000'000'000 * kSecond);
  EXPECT_FALSE(cluster.results()[4].ended);
  EXPECT_TRUE(cluster.results()[4].started);
  EXPECT_FALSE(cluster.results()[5].started);
}

TEST(Cluster, AStopLeavesWhatIsDone) {
  ClusterOptions o = options();
  o.closed_form = false;
  Cluster cluster(o, {job(training(8, kBytes, 0, 100'000))});
  EXPECT_FALSE(cluster.run([&] { return cluster.events() > 0; }));
  EXPECT_GT(cluster.results()[0].iterations, 0u);
  EXPECT_FALSE(cluster.results()[0].ended);
}

}  // namespace
}  // namespace weft::flow
