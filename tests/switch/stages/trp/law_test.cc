// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/stages/trp/law.h"

#include <gmock/gmock.h>

#include <vector>

#include "switch/base/time.h"

namespace weft::stages {
namespace {

using ::testing::ElementsAre;

// Which CNPs, counted from 1 and 10 us apart, add a loop.
std::vector<int> steps(const TrpRules& rules, int cnps) {
  TrpLaw law;
  std::vector<int> at;
  for (int i = 1; i <= cnps; ++i) {
    const std::uint32_t before = law.loop_num;
    law.on_cnp(static_cast<TimeNs>(i) * 10 * kUs, rules);
    if (law.loop_num != before) at.push_back(i);
  }
  return at;
}

TEST(TrpLaw, TextStepsGetRarer) {
  EXPECT_THAT(steps({}, 30), ElementsAre(1, 7, 14, 22)) << "after 6, 7, 8 more: alpha has grown with each step";
}

// cnp_num % alpha == 1 with an alpha that grows by one per step holds for every CNP once it has held twice in a row.
TEST(TrpLaw, Algorithm1AsPrintedStepsAtEveryCnpFromTheSeventhOn) {
  EXPECT_THAT(steps({.rule = TrpRule::algorithm1}, 12), ElementsAre(1, 7, 8, 9, 10, 11, 12));
}

TEST(TrpLaw, TheCodeStepsTwicePerAlpha) {
  EXPECT_THAT(steps({.rule = TrpRule::code}, 23), ElementsAre(1, 5, 6, 12, 13, 21, 22));
}

TEST(TrpLaw, TheCodeCountsCnpsOfOneInstantOnce) {
  TrpLaw law;
  const TrpRules rules{.rule = TrpRule::code};
  law.on_cnp(100, rules);
  law.on_cnp(100, rules);
  law.on_cnp(104, rules);
  EXPECT_EQ(law.cnp_num, 2u);
  law.on_cnp(105, rules);
  EXPECT_EQ(law.cnp_num, 3u);
}

TEST(TrpLaw, LoopsGrowToTheLimit) {
  EXPECT_THAT(steps({.rule = TrpRule::algorithm1, .max_loops = 3}, 12), ElementsAre(1, 7, 8));
}

TEST(TrpLaw, RecoversAfterBetaAndHalvesAlphaOnce) {
  TrpLaw law;
  const TrpRules rules;
  for (int i = 0; i < 7; ++i) law.on_cnp(0, rules);
  EXPECT_EQ(law.alpha, 7u);
  law.on_packet(500 * kUs, rules);
  EXPECT_EQ(law.status, TrpStatus::throttled);
  for (int i = 1; i < 5; ++i) {
    law.on_packet(500 * kUs + static_cast<TimeNs>(i), rules);
    EXPECT_EQ(law.status, TrpStatus::recover);
    EXPECT_EQ(law.alpha, 3u);
    EXPECT_EQ(law.cnp_num, 0u);
  }
}

TEST(TrpLaw, ACnpDuringRecoveryThrottlesAgain) {
  TrpLaw law;
  const TrpRules rules;
  law.on_cnp(0, rules);
  law.on_packet(501 * kUs, rules);
  law.on_cnp(502 * kUs, rules);
  EXPECT_EQ(law.status, TrpStatus::throttled);
  law.on_packet(503 * kUs, rules);
  EXPECT_EQ(law.status, TrpStatus::throttled);
}

TEST(TrpLaw, TheNextTimeBeginsWithOneLoopAndTheHalvedAlpha) {
  TrpLaw law;
  const TrpRules rules;
  law.on_cnp(0, rules);
  law.on_packet(501 * kUs, rules);
  law.end();
  EXPECT_EQ(law.status, TrpStatus::idle);
  law.on_cnp(900 * kUs, rules);
  EXPECT_EQ(law.loop_num, 1u);
  EXPECT_EQ(law.alpha, 4u) << "6 halved, and one more by this step";
}

TEST(TrpLaw, InTheCodeTheFirstCnpCountsAsIfBetaWereOverAndEveryPacketHalvesAlpha) {
  TrpLaw law;
  const TrpRules rules{.rule = TrpRule::code, .alpha = 8};
  law.on_cnp(0, rules);
  law.on_packet(1, rules);
  law.on_packet(2, rules);
  EXPECT_EQ(law.status, TrpStatus::recover);
  EXPECT_EQ(law.alpha, 2u);
  law.on_cnp(10, rules);
  law.on_packet(11, rules);
  EXPECT_EQ(law.status, TrpStatus::throttled);
}

// Their alpha is an integer that packets halve down to zero. A CNP behind that adds a loop whatever their number.
TEST(TrpLaw, InTheCodeAlphaFallsToZero) {
  TrpLaw law;
  const TrpRules rules{.rule = TrpRule::code, .alpha = 2, .beta_ns = 100};
  for (TimeNs at = 0; at < 50; at += 10) law.on_cnp(at, rules);
  const std::uint32_t loops = law.loop_num;
  for (TimeNs at = 200; at < 205; ++at) law.on_packet(at, rules);
  EXPECT_EQ(law.alpha, 0u);
  law.on_cnp(300, rules);
  EXPECT_GT(law.loop_num, loops);
}

}  // namespace
}  // namespace weft::stages
