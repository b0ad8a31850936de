// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/stages/lb/gemma_source.h"

#include <gtest/gtest.h>

#include <array>
#include <set>

#include "switch/base/rng.h"

namespace weft::stages {
namespace {

constexpr FlowKey kFlow{1, 2};

class Paths final : public GemmaPaths {
 public:
  [[nodiscard]] bool up(std::uint16_t path) noexcept override { return path < 4 && path != down; }
  [[nodiscard]] std::uint64_t score(std::uint16_t path) noexcept override { return scores[path]; }
  [[nodiscard]] std::uint32_t size() const noexcept override { return 4; }
  [[nodiscard]] std::uint16_t at(std::uint32_t i) const noexcept override { return static_cast<std::uint16_t>(i); }
  [[nodiscard]] std::uint32_t below(std::uint32_t bound) noexcept override {
    return static_cast<std::uint32_t>(rng.below(bound));
  }

  std::array<std::uint64_t, 4> scores{};
  std::uint16_t down = kNone;
  Rng rng{3};
};

class GemmaSourceTest : public ::testing::Test {
 protected:
  std::uint16_t send(TimeNs at, const FlowKey& key = kFlow) { return source.on_packet(at, key, paths); }
  // A flow that is on path 0, and all paths as they are.
  void begin_on_0(TimeNs at) {
    const auto before = paths.down;
    while (send(at) != 0) source = GemmaSource(rules);
    paths.down = before;
  }

  GemmaRules rules{.reroute_bytes = 100, .gap_bytes = 20, .guard_ns = 8 * kUs, .new_ns = 2000 * kUs, .flows = 4};
  GemmaSource source{rules};
  Paths paths;
};

TEST_F(GemmaSourceTest, AScoreIsTheWeightedSumOfBothQueues) {
  EXPECT_EQ(gemma_score({}, 1000, 500), 1500u);
  EXPECT_EQ(gemma_score({.alpha = 2, .beta = 0.5}, 1000, 500), 2250u);
  EXPECT_EQ(gemma_score({.alpha = 0, .beta = 0}, 1000, 500), 0u);
}

TEST_F(GemmaSourceTest, NewFlowsTakeAnyPathThatIsUp) {
  paths.down = 2;
  std::set<std::uint16_t> taken;
  for (std::uint64_t flow = 0; flow < 100; ++flow) taken.insert(send(0, {flow, 0}));
  EXPECT_EQ(taken, (std::set<std::uint16_t>{0, 1, 3}));
  EXPECT_EQ(source.counts().flows, 100u);
  EXPECT_EQ(source.counts().evicted, 96u) << "four entries";
}

TEST_F(GemmaSourceTest, NewFlowsMayPreferSmoothPathsOrTheBest) {
  const auto taken = [this](GemmaFirst first, const std::array<std::uint64_t, 4>& scores) {
    rules.first = first;
    source = GemmaSource(rules);
    paths.scores = scores;
    std::set<std::uint16_t> found;
    for (std::uint64_t flow = 0; flow < 100; ++flow) found.insert(send(0, {flow, 0}));
    return found;
  };
  paths.down = 2;
  using Set = std::set<std::uint16_t>;
  EXPECT_EQ(taken(GemmaFirst::any, {500, 100, 0, 5}), (Set{0, 1, 3}));
  EXPECT_EQ(taken(GemmaFirst::smooth, {500, 100, 0, 5}), (Set{1, 3}));
  EXPECT_EQ(taken(GemmaFirst::smooth, {500, 101, 0, 600}), (Set{0, 1, 3})) << "none is smooth";
  EXPECT_EQ(taken(GemmaFirst::best, {500, 100, 0, 5}), (Set{3}));
  EXPECT_EQ(taken(GemmaFirst::best, {5, 100, 0, 5}), (Set{0, 3}));
}

TEST_F(GemmaSourceTest, ASmoothPathIsKeptThoughOthersAreBetter) {
  paths.scores = {0, 0, 0, 0};
  begin_on_0(0);
  paths.scores = {100, 0, 0, 0};
  EXPECT_EQ(send(20 * kUs), 0);
  paths.scores = {101, 0, 5, 5};
  EXPECT_EQ(send(21 * kUs), 1) << "the lowest score";
  EXPECT_EQ(source.counts().reroutes, 1u);
  EXPECT_EQ(source.counts().smooth, 1u);
}

TEST_F(GemmaSourceTest, FromACongestedPathItMovesToOneThatIsSmoothOrBetterByMoreThanTheGap) {
  begin_on_0(0);
  paths.scores = {150, 131, 130, 140};
  EXPECT_EQ(send(20 * kUs), 0) << "none is better by more than 20";
  EXPECT_EQ(source.counts().stays, 1u);
  paths.scores = {151, 131, 130, 140};
  EXPECT_EQ(send(21 * kUs), 2);
  paths.scores = {110, 100, 101, 140};
  EXPECT_EQ(send(40 * kUs), 1) << "a smooth one, however near";
}

TEST_F(GemmaSourceTest, EqualsAreDrawnAmong) {
  std::set<std::uint16_t> taken;
  for (int i = 0; i < 50; ++i) {
    paths.scores = {};
    begin_on_0(0);
    paths.scores = {500, 7, 7, 7};
    taken.insert(send(20 * kUs));
  }
  EXPECT_EQ(taken, (std::set<std::uint16_t>{1, 2, 3}));
}

TEST_F(GemmaSourceTest, AFlowThatHasMovedStaysForTheGuard) {
  begin_on_0(0);
  paths.scores = {500, 0, 300, 300};
  EXPECT_EQ(send(1 * kUs), 1) << "the first time at once";
  paths.scores = {0, 500, 300, 300};
  EXPECT_EQ(send(9 * kUs - 1), 1);
  EXPECT_EQ(source.counts().guarded, 1u);
  EXPECT_EQ(send(9 * kUs), 0);
}

TEST_F(GemmaSourceTest, APathThatIsGoneIsLeftAtOnceAndASilentFlowIsNew) {
  begin_on_0(0);
  paths.down = 0;
  EXPECT_NE(send(1), 0);
  EXPECT_EQ(source.counts().cut, 1u);
  const std::uint64_t flows = source.counts().flows;
  send(1 + 2000 * kUs);
  EXPECT_EQ(source.counts().flows, flows);
  send(3 + 4000 * kUs);
  EXPECT_EQ(source.counts().flows, flows + 1);
}

TEST_F(GemmaSourceTest, WithoutAPathThereIsNoEntry) {
  class None final : public GemmaPaths {
    [[nodiscard]] bool up(std::uint16_t) noexcept override { return false; }
    [[nodiscard]] std::uint64_t score(std::uint16_t) noexcept override { return 0; }
    [[nodiscard]] std::uint32_t size() const noexcept override { return 2; }
    [[nodiscard]] std::uint16_t at(std::uint32_t i) const noexcept override { return static_cast<std::uint16_t>(i); }
    [[nodiscard]] std::uint32_t below(std::uint32_t) noexcept override { return 0; }
  } none;
  EXPECT_EQ(source.on_packet(0, kFlow, none), GemmaPaths::kNone);
  EXPECT_EQ(source.counts().flows, 0u);
  for (const GemmaFlow& flow : source.entries()) EXPECT_FALSE(source.is_live(flow, 0));
}

TEST_F(GemmaSourceTest, ATableOfAnotherSizeTakesOverWhatFits) {
  begin_on_0(5);
  GemmaRules larger = rules;
  larger.flows = 8;
  GemmaSource next(larger);
  next.adopt(source);
  EXPECT_EQ(next.on_packet(6, kFlow, paths), 0);
  EXPECT_EQ(next.counts().flows, 0u);
}

}  // namespace
}  // namespace weft::stages
