// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "tools/flow/fair_shares.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "switch/base/rng.h"
#include "tools/flow/fabric.h"

namespace weft::flow {
namespace {

constexpr double kNoCap = 1e9;

TransferId run(FairShares& shares, std::vector<Use> uses, double cap = kNoCap) {
  const TransferId id = shares.define(std::move(uses), cap);
  shares.start(id);
  return id;
}

TEST(FairShares, ATransferAloneGetsWhatItsNarrowestLinkGivesItsFlows) {
  FairShares shares({12.5, 5});
  const TransferId one = run(shares, {{0, 2}, {1, 0.5}});
  ASSERT_EQ(shares.settle().size(), 1u);
  EXPECT_DOUBLE_EQ(shares.rate(one), 6.25);
  EXPECT_DOUBLE_EQ(shares.alone(one), 6.25);
  FairShares capped({12.5});
  const TransferId slow = run(capped, {{0, 1}}, 3);
  capped.settle();
  EXPECT_DOUBLE_EQ(capped.rate(slow), 3);
}

TEST(FairShares, EachFlowOfALinkGetsAsMuch) {
  FairShares shares({12});
  const TransferId a = run(shares, {{0, 1}}), b = run(shares, {{0, 2}});
  EXPECT_EQ(shares.settle().size(), 2u);
  EXPECT_DOUBLE_EQ(shares.rate(a), 4);
  EXPECT_DOUBLE_EQ(shares.rate(b), 4);
  shares.stop(a);
  ASSERT_EQ(shares.settle().size(), 1u);
  EXPECT_DOUBLE_EQ(shares.rate(b), 6);
}

// The textbook's example: one long flow and one on each link, where one link is twice as wide.
TEST(FairShares, WhatALimitedTransferLeavesGoesToOthers) {
  FairShares shares({10, 20, 20});
  const TransferId lengthwise = run(shares, {{0, 1}, {1, 1}}), first = run(shares, {{0, 1}}),
                   second = run(shares, {{1, 1}}), capped = run(shares, {{2, 1}}, 4), other = run(shares, {{2, 1}});
  shares.settle();
  EXPECT_DOUBLE_EQ(shares.rate(lengthwise), 5);
  EXPECT_DOUBLE_EQ(shares.rate(first), 5);
  EXPECT_DOUBLE_EQ(shares.rate(second), 15);
  EXPECT_DOUBLE_EQ(shares.rate(capped), 4);
  EXPECT_DOUBLE_EQ(shares.rate(other), 16);
}

TEST(FairShares, AChangeLooksOnlyAtWhatItCanReach) {
  FairShares shares(std::vector<double>(100, 10.0));
  for (std::uint32_t link = 0; link < 100; ++link) {
    run(shares, {{link, 1}});
    run(shares, {{link, 1}});
  }
  shares.settle();
  const std::uint64_t before = shares.looked_at();
  const TransferId third = run(shares, {{7, 1}});
  EXPECT_EQ(shares.settle().size(), 3u);
  EXPECT_EQ(shares.looked_at() - before, 3u);
  // Two that share a link with room for both do not reach each other.
  FairShares wide({100, 10, 10});
  run(wide, {{0, 1}, {1, 1}});
  wide.settle();
  const std::uint64_t alone = wide.looked_at();
  run(wide, {{0, 1}, {2, 1}});
  wide.settle();
  EXPECT_EQ(wide.looked_at() - alone, 1u);
  EXPECT_DOUBLE_EQ(shares.rate(third), 10.0 / 3);
}

/// The definition: raise all rates in small steps of events over all links, without any of the shortcuts.
std::map<TransferId, double> naive(const FairShares& shares, const std::vector<TransferId>& running,
                                   const std::map<TransferId, double>& caps) {
  std::map<TransferId, double> rates;
  std::vector<TransferId> open = running;
  while (!open.empty()) {
    double level = 1e300;
    for (std::uint32_t link = 0; link < shares.links(); ++link) {
      double left = shares.capacity(link), weight = 0;
      for (const TransferId id : running) {
        for (const Use& use : shares.uses(id)) {
          if (use.link != link) continue;
          const auto at = rates.find(id);
          if (at != rates.end())
            left -= use.flows * at->second;
          else
            weight += use.flows;
        }
      }
      if (weight > 0) level = std::min(level, left / weight);
    }
    for (const TransferId id : open) level = std::min(level, caps.at(id));
    std::vector<TransferId> still;
    for (const TransferId id : open) {
      bool full = caps.at(id) <= level * (1 + 1e-12);
      for (const Use& use : shares.uses(id)) {
        double used = 0;
        for (const TransferId other : running) {
          for (const Use& o : shares.uses(other)) {
            if (o.link == use.link) used += o.flows * (rates.contains(other) ? rates[other] : level);
          }
        }
        full = full || used >= shares.capacity(use.link) * (1 - 1e-12);
      }
      if (!full) still.push_back(id);
    }
    if (still.size() == open.size()) {
      ADD_FAILURE() << "nothing is full";
      return rates;
    }
    for (const TransferId id : open) {
      if (std::find(still.begin(), still.end(), id) == still.end()) rates[id] = level;
    }
    open = still;
  }
  return rates;
}

class Random {
 public:
  explicit Random(std::uint64_t seed) : rng_(seed), shares_(capacities()) {}
  void step() {
    if (running_.empty() || rng_.below(3) > 0) {
      std::vector<Use> uses;
      for (std::uint64_t n = 1 + rng_.below(4); n > 0; --n) {
        uses.push_back({static_cast<std::uint32_t>(rng_.below(shares_.links())), 0.5 * (1 + rng_.below(4))});
      }
      const double cap = rng_.below(3) == 0 ? 0.1 * static_cast<double>(1 + rng_.below(40)) : kNoCap;
      const TransferId id = run(shares_, merged(std::move(uses)), cap);
      running_.push_back(id);
      caps_[id] = cap;
    } else {
      const std::size_t at = rng_.below(running_.size());
      shares_.stop(running_[at]);
      shares_.forget(running_[at]);
      running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(at));
    }
  }
  void check() {
    for (std::uint32_t link = 0; link < shares_.links(); ++link) {
      EXPECT_LE(used(link), shares_.capacity(link) * (1 + 1e-9)) << "link " << link;
    }
    for (const TransferId id : running_) EXPECT_TRUE(has_all_it_can(id)) << "transfer " << id;
    const auto expected = naive(shares_, running_, caps_);
    for (const TransferId id : running_) EXPECT_NEAR(shares_.rate(id), expected.at(id), 1e-9) << "transfer " << id;
  }
  FairShares& shares() { return shares_; }

 private:
  std::vector<double> capacities() {
    std::vector<double> out;
    for (std::uint64_t n = 2 + rng_.below(6); n > 0; --n) out.push_back(static_cast<double>(1 + rng_.below(20)));
    return out;
  }
  double used(std::uint32_t link) {
    double sum = 0;
    for (const TransferId id : running_) {
      for (const Use& use : shares_.uses(id)) sum += use.link == link ? use.flows * shares_.rate(id) : 0;
    }
    return sum;
  }
  /// Its own limit, or a link that is full and on which nobody has more than it.
  bool has_all_it_can(TransferId id) {
    if (shares_.rate(id) >= caps_[id] * (1 - 1e-9)) return true;
    for (const Use& use : shares_.uses(id)) {
      if (used(use.link) < shares_.capacity(use.link) * (1 - 1e-9)) continue;
      double most = 0;
      for (const TransferId other : running_) {
        for (const Use& o : shares_.uses(other)) most = std::max(most, o.link == use.link ? shares_.rate(other) : 0);
      }
      if (shares_.rate(id) >= most * (1 - 1e-9)) return true;
    }
    return false;
  }

  Rng rng_;
  FairShares shares_;
  std::vector<TransferId> running_;
  std::map<TransferId, double> caps_;
};

TEST(FairShares, AreThoseOfTheDefinitionAfterAnyChanges) {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    for (int i = 0; i < 25; ++i) {
      for (int n = 0; n < 1 + i % 3; ++n) random.step();
      random.shares().settle();
      random.check();
      if (testing::Test::HasFailure()) return;
    }
  }
}

TEST(FairShares, DoNotDependOnWhatHappenedBefore) {
  const std::vector<std::vector<Use>> uses{{{0, 1}, {1, 1}}, {{1, 1}, {2, 1}}, {{2, 1}, {0, 1}}, {{0, 1}}};
  FairShares straight({7, 11, 13}), roundabout({7, 11, 13});
  std::vector<TransferId> ids;
  for (const auto& each : uses) ids.push_back(run(straight, each));
  straight.settle();
  for (const auto& each : uses) static_cast<void>(roundabout.define(each, kNoCap));
  for (const TransferId id : {3u, 1u, 0u}) roundabout.start(id);
  roundabout.settle();
  roundabout.stop(1);
  roundabout.settle();
  for (const TransferId id : {2u, 1u}) roundabout.start(id);
  roundabout.settle();
  for (const TransferId id : ids) EXPECT_EQ(straight.rate(id), roundabout.rate(id));
}

}  // namespace
}  // namespace weft::flow
