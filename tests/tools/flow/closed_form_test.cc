// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Iterations that are taken as done at once end when they would have ended one by one.
#include <gtest/gtest.h>

#include <tuple>

#include "switch/base/rng.h"
#include "tools/flow/cluster.h"

namespace weft::flow {
namespace {

using inc::policy::PolicyKind;

JobPlan random_plan(Rng& rng) {
  JobPlan plan;
  plan.ranks = static_cast<std::uint32_t>(1 + rng.below(40));
  plan.iterations = static_cast<std::uint32_t>(1 + rng.below(60));
  for (std::uint64_t n = rng.below(6); n > 0 && plan.ranks > 1; --n) {
    GroupPlan g{rng.below(4) == 0 ? GroupKind::pipeline : GroupKind::data, {}};
    const std::uint32_t step = static_cast<std::uint32_t>(1 + rng.below(3));
    for (std::uint32_t r = static_cast<std::uint32_t>(rng.below(plan.ranks)); r < plan.ranks; r += step)
      g.ranks.push_back(r);
    if (g.kind == GroupKind::pipeline && g.ranks.size() > 2) g.ranks.resize(2);
    if (g.ranks.size() >= 2) plan.groups.push_back(g);
  }
  for (std::uint64_t n = 1 + rng.below(4); n > 0; --n) {
    Phase phase{"phase", 1000 + rng.below(1'000'000), {}};
    for (std::uint32_t g = 0; g < plan.groups.size(); ++g) {
      if (rng.below(2) == 0) phase.collectives.push_back({g, 1000.0 + static_cast<double>(rng.below(3'000'000)), 2});
    }
    plan.phases.push_back(phase);
  }
  return plan;
}

struct Outcome {
  std::vector<JobResult> results;
  std::uint64_t hash = 0, skipped = 0;
};

/// One or two: any two leave one of three planes of spines.
std::vector<Failure> random_failures(const FabricSpec& fabric, Rng& rng) {
  const inc::policy::Topology t = Fabric(fabric).topology({});
  std::vector<Failure> out(1 + rng.below(2));
  for (Failure& f : out) {
    const TimeNs from = rng.below(200'000'000), to = from + 1 + rng.below(400'000'000);
    const auto link = static_cast<inc::policy::LinkId>(fabric.gpus() + rng.below(t.links().size() - fabric.gpus()));
    f = rng.below(2) == 0 ? Failure{{link}, std::nullopt, from, to} : failure_of(t, t.link(link).upper, from, to);
  }
  return out;
}

/// What the plots show is what jobs have sent.
void expect_timeline_of(const Cluster& cluster) {
  for (int tier = 0; tier < 3; ++tier) {
    double sent = 0, shown = 0;
    for (const JobResult& r : cluster.results()) sent += r.counts.tier_bytes[tier];
    for (std::size_t i = 0; i < cluster.timeline().used(); ++i) {
      shown += cluster.timeline().at(i, static_cast<std::size_t>(tier));
    }
    EXPECT_NEAR(shown, sent, 1e-6 * sent + 1);
  }
}

Outcome outcome(std::uint64_t seed, bool closed_form) {
  Rng rng(seed);
  ClusterOptions o;
  o.fabric = {.pods = 2, .leaves = 4, .spines = 3, .gpus_per_leaf = 8, .cores_per_spine = 2};
  constexpr std::optional<PolicyKind> kPolicies[]{std::nullopt, PolicyKind::edge_disjoint, PolicyKind::spatial,
                                                  PolicyKind::temporal};
  o.policy = kPolicies[seed % 4];
  o.memory = memory_in_units(1 + rng.below(4), o.fabric, o.hop_ns);
  o.admission = {static_cast<std::uint32_t>(2 + rng.below(2)),
                 static_cast<std::uint32_t>(rng.below(2) * 500),
                 static_cast<std::uint32_t>(1000 - rng.below(2) * 600),
                 rng.below(2) == 0,
                 rng.below(2) == 0,
                 rng.below(2) == 0,
                 static_cast<double>(rng.below(3))};
  o.paths = static_cast<Paths>(rng.below(3));
  o.placement = rng.below(2) == 0 ? Placement::packed : Placement::random;
  if (rng.below(3) == 0) o.scale_up = {4, 100};
  o.closed_form = closed_form;
  std::vector<Job> jobs;
  TimeNs at = 0;
  for (int i = 0; i < 12; ++i) {
    jobs.push_back({std::make_shared<const JobPlan>(random_plan(rng)), at});
    at += rng.below(30'000'000);
  }
  o.failures = random_failures(o.fabric, rng);
  Cluster cluster(o, jobs);
  EXPECT_TRUE(cluster.run({}));
  expect_timeline_of(cluster);
  return {cluster.results(), cluster.trace_hash(), cluster.iterations_in_closed_form()};
}

TEST(ClosedForm, EndsAsOneByOne) {
  std::uint64_t skipped = 0, moved = 0;
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const Outcome one_by_one = outcome(seed, false), at_once = outcome(seed, true);
    EXPECT_EQ(one_by_one.skipped, 0u);
    skipped += at_once.skipped;
    for (std::size_t j = 0; j < one_by_one.results.size(); ++j) {
      const JobResult &a = one_by_one.results[j], &b = at_once.results[j];
      EXPECT_EQ(a.end_ns, b.end_ns) << "job " << j;
      EXPECT_EQ(a.iterations, b.iterations) << "job " << j;
      EXPECT_EQ(a.counts.in_network, b.counts.in_network) << "job " << j;
      EXPECT_EQ(a.counts.refused, b.counts.refused) << "job " << j;
      EXPECT_EQ(std::tuple(a.moved, a.fell_back, a.came_back), std::tuple(b.moved, b.fell_back, b.came_back));
      moved += a.moved + a.fell_back + a.came_back;
      for (int t = 0; t < 3; ++t) {
        EXPECT_NEAR(a.counts.tier_bytes[t], b.counts.tier_bytes[t], 1e-9 * a.counts.tier_bytes[t]) << "job " << j;
      }
    }
    EXPECT_EQ(one_by_one.hash, at_once.hash);
    if (HasFailure()) return;
  }
  EXPECT_GT(skipped, 10'000u);
  EXPECT_GT(moved, 50u);
}

TEST(ClosedForm, TheSameRunTwiceIsTheSame) {
  for (std::uint64_t seed = 1; seed <= 8; ++seed) EXPECT_EQ(outcome(seed, true).hash, outcome(seed, true).hash);
  EXPECT_NE(outcome(1, true).hash, outcome(5, true).hash);
}

}  // namespace
}  // namespace weft::flow
