// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/stages/lb/congestion.h"

#include <gtest/gtest.h>

#include <set>

#include "switch/base/time.h"

namespace weft::stages {
namespace {

constexpr CongestionRules kRules{};

// A link of 100 Gbit/s carries 12500 bytes in a microsecond.
constexpr std::uint64_t kRate = 100'000;
constexpr std::uint32_t kBytesPerUs = 12'500;

TEST(Dre, ForgetsAPartInEveryPeriod) {
  Dre dre;
  dre.add(kRules, 0, 1000);
  EXPECT_EQ(dre.bytes(kRules, 49'999), 1000u);
  EXPECT_EQ(dre.bytes(kRules, 50'000), 800u);
  EXPECT_EQ(dre.bytes(kRules, 99'999), 800u);
  EXPECT_EQ(dre.bytes(kRules, 100'000), 640u);
  dre.add(kRules, 100'000, 60);
  EXPECT_EQ(dre.bytes(kRules, 100'000), 700u);
  EXPECT_EQ(dre.bytes(kRules, 150'000), 560u);
  EXPECT_EQ(dre.bytes(kRules, 50'000 * 100), 0u);
}

TEST(Dre, DoesNotWrapWhenALinkIsFasterThanItCanCount) {
  Dre dre;
  dre.add(kRules, 0, ~0u);
  dre.add(kRules, 0, ~0u);
  EXPECT_EQ(dre.bytes(kRules, 0), ~0u);
}

// CONGA 3.2: in the steady state X = R * tau, tau = T_dre / alpha.
TEST(Dre, SettlesAtTheRateTimesTheTimeConstant) {
  Dre dre;
  for (TimeNs now = 0; now < 5000 * kUs; now += kUs) dre.add(kRules, now, kBytesPerUs / 2);
  const double tau_us = 250;
  // Just before a period ends a part of the next one has been added.
  EXPECT_NEAR(dre.bytes(kRules, 5000 * kUs - 1), kBytesPerUs / 2 * tau_us, 1000);
}

TEST(CongestionMetric, IsInEighthsOfTheRate) {
  const auto at = [](double share, const CongestionRules& rules) {
    return congestion_metric(rules, static_cast<std::uint64_t>(share * kBytesPerUs * 250), kRate);
  };
  EXPECT_EQ(at(0, kRules), 0);
  EXPECT_EQ(at(0.124, kRules), 0);
  EXPECT_EQ(at(0.126, kRules), 1);
  EXPECT_EQ(at(0.51, kRules), 4);
  EXPECT_EQ(at(0.99, kRules), 7);
  EXPECT_EQ(at(1.7, kRules), 7) << "three bits";
  CongestionRules open;
  open.clamped = false;
  EXPECT_EQ(at(1.7, open), 13) << "as a public model has it";
  EXPECT_EQ(at(1000, open), 255);
}

class Tables : public ::testing::Test {
 protected:
  Tables() : tables(kRules, {{kRate}, {kRate}, {0}}, 3, 2, 2) {}
  CongestionTables tables;
};

TEST_F(Tables, APortIsAsCongestedAsAllWorkersTogetherMakeIt) {
  const std::uint32_t half = kBytesPerUs * 250 / 2;
  tables.on_sent(0, 0, 0, half + 100);
  EXPECT_EQ(tables.local(0, 0), 4);
  tables.on_sent(1, 0, 0, half / 2);
  EXPECT_EQ(tables.local(0, 0), 6);
  EXPECT_EQ(tables.local(0, 50 * kUs), 4);
  EXPECT_EQ(tables.local(1, 0), 0);
  tables.on_sent(0, 2, 0, half);
  EXPECT_EQ(tables.local(2, 0), 0) << "its rate is not known";
}

TEST_F(Tables, WhatALeafHasToldCountsUntilItAges) {
  EXPECT_TRUE(tables.on_feedback(1, 1, 5, 1000 * kUs));
  EXPECT_EQ(tables.remote(1, 1, 1000 * kUs), 5);
  EXPECT_EQ(tables.remote(1, 0, 1000 * kUs), 0);
  EXPECT_EQ(tables.remote(0, 1, 1000 * kUs), 0) << "of another leaf";
  EXPECT_EQ(tables.remote(1, 1, 1500 * kUs), 5);
  EXPECT_EQ(tables.remote(1, 1, 1501 * kUs), 0);
  EXPECT_FALSE(tables.on_feedback(1, 2, 5, 1000 * kUs)) << "no such path";
}

TEST_F(Tables, FeedbackGoesInTurnAndChangesFirst) {
  EXPECT_EQ(tables.next_feedback(1, 1000 * kUs), std::nullopt);
  for (std::uint8_t path = 0; path < 4; ++path) tables.on_arrived(1, path, path, 1000 * kUs);
  const auto next = [&] {
    const auto told = tables.next_feedback(1, 1001 * kUs);
    return told ? std::pair<int, int>(told->path, told->metric) : std::pair(-1, -1);
  };
  std::set<std::pair<int, int>> seen;
  for (int i = 0; i < 4; ++i) seen.insert(next());
  EXPECT_EQ(seen, (std::set<std::pair<int, int>>{{0, 0}, {1, 1}, {2, 2}, {3, 3}})) << "each once";
  seen.clear();
  for (int i = 0; i < 4; ++i) seen.insert(next());
  EXPECT_EQ(seen.size(), 4u) << "and again, because a tag may have been lost";
  tables.on_arrived(1, 2, 7, 1001 * kUs);
  EXPECT_EQ(next(), std::pair(2, 7));
  tables.on_arrived(1, 2, 7, 1001 * kUs);
  EXPECT_EQ(next(), std::pair(3, 3)) << "the same again is no change";
  EXPECT_EQ(tables.next_feedback(2, 1001 * kUs), std::nullopt) << "another leaf";
}

TEST_F(Tables, WhatHasAgedIsNotFedBack) {
  tables.on_arrived(1, 0, 3, 1000 * kUs);
  tables.on_arrived(1, 1, 4, 1400 * kUs);
  for (int i = 0; i < 3; ++i) {
    const auto told = tables.next_feedback(1, 1600 * kUs);
    ASSERT_TRUE(told.has_value());
    EXPECT_EQ(told->path, 1);
  }
  EXPECT_EQ(tables.next_feedback(1, 2000 * kUs), std::nullopt);
}

TEST_F(Tables, AChangeThatHadAgedIsFedBackWhenItIsFreshAgain) {
  const auto next = [&](TimeNs now) {
    const auto told = tables.next_feedback(1, now);
    return told ? std::pair<int, int>(told->path, told->metric) : std::pair(-1, -1);
  };
  tables.on_arrived(1, 0, 3, 1000 * kUs);
  tables.on_arrived(1, 1, 4, 1000 * kUs);
  EXPECT_EQ(next(1001 * kUs), std::pair(1, 4));
  // Path 0 has not been told when it ages.
  tables.on_arrived(1, 1, 4, 2000 * kUs);
  tables.on_arrived(1, 2, 6, 2000 * kUs);
  EXPECT_EQ(next(2001 * kUs), std::pair(2, 6));
  EXPECT_EQ(next(2001 * kUs), std::pair(1, 4));
  tables.on_arrived(1, 0, 3, 2002 * kUs);
  tables.on_arrived(1, 2, 6, 2002 * kUs);
  EXPECT_EQ(next(2003 * kUs), std::pair(0, 3)) << "before path 2, whose turn it is and which has been told";
}

TEST_F(Tables, AReloadTakesOverWhatIsKnown) {
  tables.on_feedback(1, 1, 5, 1000 * kUs);
  tables.on_arrived(2, 7, 4, 1000 * kUs);
  tables.on_sent(0, 1, 1000 * kUs, kBytesPerUs * 250);
  CongestionTables next(kRules, {{kRate}, {kRate}, {0}}, 3, 2, 2);
  next.adopt(tables);
  EXPECT_EQ(next.remote(1, 1, 1000 * kUs), 5);
  EXPECT_EQ(next.local(1, 1000 * kUs), 7);
  ASSERT_TRUE(next.next_feedback(2, 1000 * kUs).has_value());
  EXPECT_EQ(next.from_leaf(2, 7).metric, 4);
}

}  // namespace
}  // namespace weft::stages
