// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/stages/impair/unit.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "tests/switch/stages/impair/packets.h"

namespace weft::stages {
namespace {
using wire::Psn;
using wire::Qpn;
using What = ImpairStep::What;

constexpr std::uint64_t kSeeds[] = {1, 42, 20'260'101};

Ratio ratio(double p) {
  return Ratio::from_double(p);
}

// Five standard deviations of a binomial distribution: a right generator fails one run in two million.
::testing::AssertionResult within_binomial_bound(std::uint64_t hits, std::uint64_t trials, double p) {
  const double mean = static_cast<double>(trials) * p;
  const double bound = 5 * std::sqrt(mean * (1 - p)) + 1;
  if (std::abs(static_cast<double>(hits) - mean) <= bound) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << hits << " of " << trials << " is not " << mean << " +- " << bound;
}

What last(const std::vector<ImpairStep>& steps) {
  return steps.back().what;
}

// The 1-based numbers of those of `count` equal packets that the rule loses.
std::vector<int> lost_numbers(ImpairRule rule, int count) {
  rule.loss = ratio(1);
  ImpairUnit unit({rule});
  Rng rng(1);
  TestPacket packet(write_middle(17, 5));
  std::vector<int> out;
  for (int i = 1; i <= count; ++i) {
    if (last(decide(unit, 0, packet, rng)) == What::lose) out.push_back(i);
  }
  return out;
}

// --- which packets -----------------------------------------------------------------------------------------------

TEST(ImpairUnit, LosesExactlyTheFirstPacketWithThatPsnOfThatQp) {
  ImpairRule rule;
  rule.match.dest_qp(Qpn(17)).psn(Psn(5), Psn(5));
  rule.nth = 1;
  rule.loss = ratio(1);
  ImpairUnit unit({rule});
  Rng rng(1);
  for (int round = 0; round < 3; ++round) {
    for (std::uint32_t psn = 0; psn < 10; ++psn) {
      for (const std::uint32_t qp : {16, 17, 18}) {
        TestPacket packet(write_middle(qp, psn));
        const bool chosen = round == 0 && psn == 5 && qp == 17;
        EXPECT_EQ(last(decide(unit, 0, packet, rng)), chosen ? What::lose : What::pass)
            << "round " << round << " PSN " << psn << " QP " << qp;
      }
    }
  }
  EXPECT_EQ(unit.counters(0).matched, 3u);
  EXPECT_EQ(unit.counters(0).lost, 1u);
}

TEST(ImpairUnit, NthEveryAfterAndLimitChooseByNumber) {
  EXPECT_EQ(lost_numbers({.nth = 3}, 9), (std::vector<int>{3}));
  EXPECT_EQ(lost_numbers({.every = 3}, 9), (std::vector<int>{3, 6, 9}));
  EXPECT_EQ(lost_numbers({.after = 6}, 9), (std::vector<int>{7, 8, 9}));
  EXPECT_EQ(lost_numbers({.limit = 2}, 9), (std::vector<int>{1, 2}));
  EXPECT_EQ(lost_numbers({.after = 4, .nth = 2}, 9), (std::vector<int>{6}));
  EXPECT_EQ(lost_numbers({.after = 1, .every = 3}, 9), (std::vector<int>{4, 7}));
  EXPECT_EQ(lost_numbers({.every = 2, .limit = 3}, 9), (std::vector<int>{2, 4, 6}));
}

TEST(ImpairUnit, TheLimitCountsPacketsThatWereHitAndNotThoseThatWereLucky) {
  ImpairRule rule;
  rule.loss = ratio(0.1);
  rule.limit = 7;
  ImpairUnit unit({rule});
  Rng rng(1);
  TestPacket packet(write_middle(17, 5));
  for (int i = 0; i < 10'000; ++i) static_cast<void>(decide(unit, 0, packet, rng));
  EXPECT_EQ(unit.counters(0).lost, 7u);
  EXPECT_EQ(unit.counters(0).matched, 10'000u);
}

TEST(ImpairUnit, APacketThatIsHitTwiceByOneRuleCountsOnceAgainstItsLimit) {
  ImpairRule rule;
  rule.corrupt = ratio(1);
  rule.duplicate = ratio(1);
  rule.delay_ns = 10;
  rule.limit = 2;
  ImpairUnit unit({rule});
  Rng rng(1);
  std::vector<std::size_t> steps;
  for (int i = 0; i < 3; ++i) {
    TestPacket packet(write_middle(17, 5));
    steps.push_back(decide(unit, 0, packet, rng).size());
  }
  EXPECT_EQ(steps, (std::vector<std::size_t>{3, 3, 1}));
}

TEST(ImpairUnit, TheFirstRuleThatLosesAPacketHidesItFromTheOthers) {
  ImpairRule first;
  first.nth = 1;
  first.loss = ratio(1);
  ImpairUnit unit({first, ImpairRule{}});
  Rng rng(1);
  TestPacket packet(write_middle(17, 5));
  for (int i = 0; i < 3; ++i) static_cast<void>(decide(unit, 0, packet, rng));
  EXPECT_EQ(unit.counters(0).matched, 3u);
  EXPECT_EQ(unit.counters(1).matched, 2u);
}

// --- ratios ------------------------------------------------------------------------------------------------------

TEST(ImpairUnit, RatiosAreMetWithinABinomialBound) {
  for (const std::uint64_t seed : kSeeds) {
    for (const double p : {0.001, 0.1, 0.5, 0.99}) {
      SCOPED_TRACE(testing::Message() << "seed " << seed << " ratio " << p);
      ImpairRule rule;
      rule.duplicate = ratio(p);
      rule.corrupt = ratio(p);
      rule.reorder = ratio(p);
      rule.reorder_gap_ns = 5;
      ImpairRule loss;
      loss.loss = ratio(p);
      ImpairUnit faults({rule});
      ImpairUnit losses({loss});
      Rng rng(seed);
      TestPacket packet(write_middle(17, 5));
      constexpr int kTrials = 50'000;
      for (int i = 0; i < kTrials; ++i) {
        TestPacket copy = packet;
        static_cast<void>(decide(faults, 0, copy, rng));
        static_cast<void>(decide(losses, 0, packet, rng));
      }
      EXPECT_TRUE(within_binomial_bound(losses.counters(0).lost, kTrials, p));
      EXPECT_TRUE(within_binomial_bound(faults.counters(0).duplicated, kTrials, p));
      EXPECT_TRUE(within_binomial_bound(faults.counters(0).corrupted, kTrials, p));
      EXPECT_TRUE(within_binomial_bound(faults.counters(0).reordered, kTrials, p));
    }
  }
}

// The canary of the bound above: fed with a loss that is 10 % off, it must not pass.
TEST(ImpairUnit, TheBinomialBoundNoticesARatioThatIsOffByATenth) {
  ImpairRule rule;
  rule.loss = ratio(0.11);
  ImpairUnit unit({rule});
  Rng rng(kSeeds[0]);
  TestPacket packet(write_middle(17, 5));
  for (int i = 0; i < 50'000; ++i) static_cast<void>(decide(unit, 0, packet, rng));
  EXPECT_FALSE(within_binomial_bound(unit.counters(0).lost, 50'000, 0.1));
}

TEST(ImpairUnit, BurstLossHasTheMeanAndTheBurstLengthOfTheModel) {
  constexpr double kP = 0.02;
  constexpr double kR = 0.25;
  for (const std::uint64_t seed : kSeeds) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    ImpairRule rule;
    rule.burst_loss = GilbertElliott{ratio(kP), ratio(kR), ratio(0), ratio(1)};
    ImpairUnit unit({rule});
    Rng rng(seed);
    TestPacket packet(write_middle(17, 5));
    constexpr int kTrials = 400'000;
    std::uint64_t lost = 0;
    std::uint64_t bursts = 0;
    bool in_burst = false;
    for (int i = 0; i < kTrials; ++i) {
      const bool now_lost = last(decide(unit, 0, packet, rng)) == What::lose;
      lost += now_lost ? 1 : 0;
      bursts += now_lost && !in_burst ? 1 : 0;
      in_burst = now_lost;
    }
    const double loss = static_cast<double>(lost) / kTrials;
    const double length = static_cast<double>(lost) / static_cast<double>(bursts);
    EXPECT_NEAR(loss, kP / (kP + kR), 0.005);
    EXPECT_NEAR(length, 1 / kR, 0.1);
  }
}

TEST(ImpairUnit, BurstLossLosesByTheRatiosOfBothStates) {
  ImpairRule rule;
  rule.burst_loss = GilbertElliott{ratio(0.5), ratio(0.5), ratio(0.1), ratio(0.3)};
  ImpairUnit unit({rule});
  Rng rng(kSeeds[1]);
  TestPacket packet(write_middle(17, 5));
  for (int i = 0; i < 100'000; ++i) static_cast<void>(decide(unit, 0, packet, rng));
  EXPECT_TRUE(within_binomial_bound(unit.counters(0).lost, 100'000, 0.2));
}

// --- time --------------------------------------------------------------------------------------------------------

TEST(ImpairUnit, DelayHoldsForExactlyItsTime) {
  ImpairRule rule;
  rule.delay_ns = 1500;
  ImpairUnit unit({rule});
  Rng rng(1);
  TestPacket packet(write_middle(17, 5));
  const ImpairStep step = decide(unit, 1000, packet, rng).back();
  EXPECT_EQ(step.what, What::hold);
  EXPECT_EQ(step.until, 2500u);
  EXPECT_TRUE(step.delayed);
  EXPECT_FALSE(step.reordered);
  EXPECT_EQ(step.next, (ImpairPlace{1}));
}

TEST(ImpairUnit, JitterIsUniformAroundTheDelay) {
  for (const std::uint64_t seed : kSeeds) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    ImpairRule rule;
    rule.delay_ns = 1000;
    rule.jitter_ns = 4;
    rule.keep_order = false;
    ImpairUnit unit({rule});
    Rng rng(seed);
    TestPacket packet(write_middle(17, 5));
    std::vector<std::uint64_t> seen(9);
    for (int i = 0; i < 90'000; ++i) ++seen.at(decide(unit, 0, packet, rng).back().until - 996);
    for (const std::uint64_t count : seen) EXPECT_TRUE(within_binomial_bound(count, 90'000, 1.0 / 9));
  }
}

// Release times of packets that arrive every 10 ns.
std::vector<TimeNs> release_times(const ImpairRule& rule, std::uint64_t seed) {
  ImpairUnit unit({rule});
  Rng rng(seed);
  TestPacket packet(write_middle(17, 5));
  std::vector<TimeNs> out;
  for (TimeNs now = 0; now < 10'000; now += 10) out.push_back(decide(unit, now, packet, rng).back().until);
  return out;
}

TEST(ImpairUnit, JitterKeepsTheOrderUnlessToldOtherwise) {
  for (const std::uint64_t seed : kSeeds) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    ImpairRule rule;
    rule.delay_ns = 500;
    rule.jitter_ns = 500;
    const auto kept = release_times(rule, seed);
    EXPECT_TRUE(std::is_sorted(kept.begin(), kept.end()));
    EXPECT_NE(kept.front(), kept.back());
    rule.keep_order = false;
    const auto free = release_times(rule, seed);
    EXPECT_FALSE(std::is_sorted(free.begin(), free.end()));
  }
}

TEST(ImpairUnit, OnlyReorderedPacketsAreOvertaken) {
  ImpairRule rule;
  rule.delay_ns = 100;
  rule.reorder = ratio(1);
  rule.reorder_gap_ns = 1000;
  rule.every = 5;
  ImpairRule rest;
  rest.delay_ns = 100;
  ImpairUnit unit({rule, rest});
  Rng rng(1);
  TestPacket packet(write_middle(17, 5));
  for (int i = 1; i <= 20; ++i) {
    const auto now = static_cast<TimeNs>(i);
    const ImpairStep step = decide(unit, now, packet, rng).back();
    EXPECT_EQ(step.until, now + (i % 5 == 0 ? 1100u : 100u)) << i;
    EXPECT_EQ(step.reordered, i % 5 == 0) << i;
  }
  EXPECT_EQ(unit.counters(0).reordered, 4u);
}

TEST(ImpairUnit, AReorderedPacketDoesNotHoldUpThosePacketsThatKeepTheOrder) {
  ImpairRule rule;
  rule.delay_ns = 100;
  rule.reorder = ratio(0.5);
  rule.reorder_gap_ns = 100'000;
  for (const TimeNs until : release_times(rule, kSeeds[2])) {
    EXPECT_TRUE(until <= 10'100 || until >= 100'100) << until;
  }
}

TEST(ImpairUnit, RateSpacesPacketsByTheirBytes) {
  ImpairRule rule;
  rule.rate_mbps = 8;  // one byte a microsecond
  rule.burst_bytes = 200;
  rule.queue_bytes = 10'000;
  ImpairUnit unit({rule});
  Rng rng(1);
  TestPacket packet(frame_of(100));
  EXPECT_EQ(last(decide(unit, 0, packet, rng)), What::pass);
  EXPECT_EQ(last(decide(unit, 0, packet, rng)), What::pass);
  EXPECT_EQ(decide(unit, 0, packet, rng).back().until, 100'000u);
  EXPECT_EQ(decide(unit, 0, packet, rng).back().until, 200'000u);
  EXPECT_EQ(decide(unit, 50'000, packet, rng).back().until, 300'000u);
  EXPECT_EQ(last(decide(unit, 500'000, packet, rng)), What::pass);
  EXPECT_EQ(unit.counters(0).delayed, 3u);
}

TEST(ImpairUnit, ExcessBeyondTheQueueIsDroppedAndTakesNoTokens) {
  ImpairRule rule;
  rule.rate_mbps = 8;
  rule.burst_bytes = 100;
  rule.queue_bytes = 250;
  ImpairUnit unit({rule});
  Rng rng(1);
  TestPacket packet(frame_of(100));
  std::vector<What> seen;
  for (int i = 0; i < 5; ++i) seen.push_back(last(decide(unit, 0, packet, rng)));
  EXPECT_EQ(seen, (std::vector<What>{What::pass, What::hold, What::hold, What::limit, What::limit}));
  EXPECT_EQ(decide(unit, 100'000, packet, rng).back().until, 300'000u);
}

TEST(ImpairUnit, WithoutAQueueAllExcessIsDropped) {
  ImpairRule rule;
  rule.rate_mbps = 8;
  rule.burst_bytes = 150;
  ImpairUnit unit({rule});
  Rng rng(1);
  TestPacket packet(frame_of(100));
  EXPECT_EQ(last(decide(unit, 0, packet, rng)), What::pass);
  EXPECT_EQ(last(decide(unit, 0, packet, rng)), What::limit);
  EXPECT_EQ(last(decide(unit, 49'999, packet, rng)), What::limit);
  EXPECT_EQ(last(decide(unit, 50'000, packet, rng)), What::pass);
}

TEST(ImpairUnit, RulesBehindADelaySeeThePacketWhenItLeavesTheDelay) {
  ImpairRule delay;
  delay.nth = 1;
  delay.delay_ns = 1'000'000;
  ImpairRule rate;
  rate.rate_mbps = 8;
  rate.burst_bytes = 100;
  rate.queue_bytes = 1000;
  ImpairUnit unit({delay, rate});
  Rng rng(1);
  TestPacket packet(frame_of(100));
  const ImpairStep held = decide(unit, 0, packet, rng).back();
  ASSERT_EQ(held.until, 1'000'000u);
  EXPECT_EQ(last(decide(unit, 10, packet, rng)), What::pass) << "the delayed packet took tokens before its time";
  EXPECT_EQ(last(decide(unit, 1'000'000, packet, rng, held.next)), What::pass);
  EXPECT_EQ(unit.counters(0).matched, 2u) << "a packet that goes on was matched again";
}

// --- copies and determinism --------------------------------------------------------------------------------------

TEST(ImpairUnit, ACopyGoesThroughTheRestOfItsRuleAndTheNextRules) {
  ImpairRule twice;
  twice.duplicate = ratio(1);
  twice.delay_ns = 100;
  ImpairUnit unit({twice, ImpairRule{}});
  Rng rng(1);
  TestPacket packet(write_middle(17, 5));
  const auto original = decide(unit, 0, packet, rng);
  ASSERT_EQ(original.size(), 2u);
  ASSERT_EQ(original[0].what, What::duplicate);
  const auto copy = decide(unit, 0, packet, rng, original[0].next);
  EXPECT_EQ(copy.back().what, What::hold);
  EXPECT_EQ(copy.back().until, 100u);
  EXPECT_EQ(unit.counters(0).matched, 1u);
  EXPECT_EQ(unit.counters(0).duplicated, 1u);
  EXPECT_EQ(last(decide(unit, 100, packet, rng, copy.back().next)), What::pass);
  EXPECT_EQ(unit.counters(1).matched, 1u);
}

// A little of everything.
ImpairUnit mixture() {
  ImpairRule a;
  a.loss = ratio(0.1);
  a.corrupt = ratio(0.2);
  a.duplicate = ratio(0.1);
  ImpairRule b;
  b.burst_loss = GilbertElliott{ratio(0.1), ratio(0.3), ratio(0), ratio(0.9)};
  b.rate_mbps = 100;
  b.burst_bytes = 300;
  b.queue_bytes = 1000;
  b.delay_ns = 700;
  b.jitter_ns = 600;
  b.reorder = ratio(0.1);
  b.reorder_gap_ns = 5000;
  return ImpairUnit({a, b});
}

std::vector<ImpairStep> history(ImpairUnit& unit, Rng& rng, TimeNs from, int packets) {
  std::vector<ImpairStep> out;
  for (int i = 0; i < packets; ++i) {
    TestPacket packet(write_middle(17, static_cast<std::uint32_t>(i)));
    const auto steps = decide(unit, from + static_cast<TimeNs>(i) * 4000, packet, rng);
    out.insert(out.end(), steps.begin(), steps.end());
  }
  return out;
}

TEST(ImpairUnit, EqualSeedsGiveEqualDecisionsAndOthersDoNot) {
  const auto run = [](std::uint64_t seed) {
    ImpairUnit unit = mixture();
    Rng rng(seed);
    return history(unit, rng, 0, 500);
  };
  EXPECT_EQ(run(1), run(1));
  EXPECT_NE(run(1), run(2));
}

TEST(ImpairUnit, ACopyOfTheUnitDecidesLikeTheOriginal) {
  ImpairUnit unit = mixture();
  Rng rng(9);
  static_cast<void>(history(unit, rng, 0, 300));
  ImpairUnit copy = unit;
  Rng copied_rng = rng;
  EXPECT_EQ(history(unit, rng, 2'000'000, 300), history(copy, copied_rng, 2'000'000, 300));
}

}  // namespace
}  // namespace weft::stages
