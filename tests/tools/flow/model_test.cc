// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "tools/flow/model.h"

#include <gmock/gmock.h>

#include <map>
#include <set>

namespace weft::flow {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const Model& model(const char* name) {
  for (const Model& m : known_models()) {
    if (m.name == name) return m;
  }
  ADD_FAILURE() << name;
  return known_models().front();
}

struct Sums {
  double compute_s = 0;
  std::map<GroupKind, double> bytes;  ///< of the vectors of all groups
  std::map<GroupKind, std::size_t> groups;
};

Sums sums(const JobPlan& plan) {
  Sums s;
  for (const Phase& phase : plan.phases) {
    s.compute_s += static_cast<double>(phase.compute_ns) / 1e9;
    for (const Collective& c : phase.collectives) s.bytes[plan.groups[c.group].kind] += c.bytes * c.count;
  }
  for (const GroupPlan& g : plan.groups) ++s.groups[g.kind];
  return s;
}

TEST(Model, VolumesAreThoseOfTheClosedForms) {
  const Model& m = model("gpt3-13b");
  const Sums s = sums(plan_of(m, {8, 16, 1, 1}, 3));
  EXPECT_NEAR(s.compute_s, 6 * 13e9 * 128 * 2048 / (128 * 312e12), 1e-6);
  // Sixteen tensor groups, each with eight sequences, 40 layers, four times.
  EXPECT_NEAR(s.bytes.at(GroupKind::tensor), 16 * 8.0 * 2048 * 5120 * 4 * 40 * 4, 1);
  EXPECT_NEAR(s.bytes.at(GroupKind::data), 8 * 13e9 / 8 * 4, 1);
  EXPECT_EQ(s.groups, (std::map<GroupKind, std::size_t>{{GroupKind::tensor, 16}, {GroupKind::data, 8}}));
}

// What divides the work changes who does it, not how much there is.
TEST(Model, StagesAndMicroBatchesKeepTheSums) {
  const Model& m = model("llama-7b");
  const Sums whole = sums(plan_of(m, {4, 4, 1, 1}, 1));
  for (const auto& [pp, micro] :
       std::vector<std::pair<std::uint32_t, std::uint32_t>>{{1, 8}, {2, 4}, {4, 8}, {8, 32}}) {
    const Sums s = sums(plan_of(m, {4, 4, pp, micro}, 1));
    EXPECT_NEAR(s.bytes.at(GroupKind::tensor), whole.bytes.at(GroupKind::tensor),
                1e-6 * whole.bytes.at(GroupKind::tensor));
    EXPECT_NEAR(s.bytes.at(GroupKind::data), whole.bytes.at(GroupKind::data), 1);
    // Each of pp times as many GPUs computes a part, and waits until the pipeline has filled and emptied.
    const double expected = whole.compute_s / pp * (micro + pp - 1) / micro;
    EXPECT_NEAR(s.compute_s, expected, 1e-6);
    // Activations of all tokens go over each of the pp - 1 borders, and gradients back.
    const double sent = 2.0 * (pp - 1) * m.batch * m.sequence * m.hidden * m.activation_bytes;
    EXPECT_NEAR(pp == 1 ? 0 : s.bytes.at(GroupKind::pipeline), sent, 1e-6 * sent);
  }
}

TEST(Model, EveryRankIsInOneGroupOfEachKind) {
  const JobPlan plan = plan_of(model("llama-7b"), {2, 4, 8, 16}, 1);
  EXPECT_EQ(plan.ranks, 64u);
  std::map<GroupKind, std::multiset<std::uint32_t>> seen;
  for (const GroupPlan& g : plan.groups) seen[g.kind].insert(g.ranks.begin(), g.ranks.end());
  for (const GroupKind kind : {GroupKind::tensor, GroupKind::data}) {
    EXPECT_EQ(seen[kind].size(), 64u);
    for (std::uint32_t r = 0; r < 64; ++r) EXPECT_EQ(seen[kind].count(r), 1u);
  }
}

TEST(Model, APassGoesThroughTheStagesInOrder) {
  const JobPlan plan = plan_of(model("llama-7b"), {2, 1, 2, 1}, 1);
  std::vector<std::string> what;
  for (const Phase& phase : plan.phases) what.push_back(phase.what + " " + std::to_string(phase.collectives.size()));
  EXPECT_THAT(what, ElementsAre("forward slot 0 1", "forward slot 0: to the next stage 2", "forward slot 1 1",
                                "backward slot 0 1", "backward slot 0: to the next stage 2", "backward slot 1 1"));
  EXPECT_THAT(plan.groups[plan.phases[0].collectives[0].group].ranks, ElementsAre(0, 1));
  EXPECT_THAT(plan.groups[plan.phases[1].collectives[0].group].ranks, ElementsAre(0, 2));
  EXPECT_THAT(plan.groups[plan.phases[3].collectives[0].group].ranks, ElementsAre(2, 3));
  EXPECT_THAT(plan.groups[plan.phases[4].collectives[0].group].ranks, ElementsAre(2, 0));
}

TEST(Model, SaysWhatDoesNotFit) {
  Model m = model("gpt3-175b");
  EXPECT_THAT(mistakes_of(m, {8, 16, 1, 1}), IsEmpty());
  m.gpu_flops = 0;
  EXPECT_THAT(mistakes_of(m, {8, 16, 7, 3}),
              ElementsAre(HasSubstr("computes nothing"), HasSubstr("96 layers cannot be divided by 7"),
                          HasSubstr("8 sequences of a replica cannot be divided by 3")));
  EXPECT_THAT(mistakes_of(model("gpt3-13b"), {8, 0, 1, 1}), ElementsAre(HasSubstr("1 or more")));
  EXPECT_THAT(mistakes_of(model("gpt3-13b"), {3, 100, 1, 1}),
              ElementsAre(HasSubstr("5120 elements"), HasSubstr("128 sequences (batch) cannot be divided by 100")));
}

TEST(Model, IsExplained) {
  const Division d{8, 16, 1, 1};
  const std::string text = explain(model("gpt3-13b"), d, plan_of(model("gpt3-13b"), d, 3));
  EXPECT_THAT(text, HasSubstr("128 GPUs, TP 8, DP 16, PP 1"));
  EXPECT_THAT(text, HasSubstr("tensor: 16 groups of 8 ranks"));
  EXPECT_THAT(text, HasSubstr("AllReduces in 8 data groups, 1 of 6500 MB each"));
}

}  // namespace
}  // namespace weft::flow
