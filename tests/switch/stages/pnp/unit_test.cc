// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/stages/pnp/unit.h"

#include <gtest/gtest.h>

namespace weft::stages {
namespace {

constexpr TimeNs kInterval = 5'000;
constexpr PnpName kFlow{0x0a000001'0a010001, 34, false};

class PnpUnitTest : public ::testing::Test {
 protected:
  PnpVerdict mark(TimeNs now, const PnpName& name = kFlow) { return unit.on_marked(now, kInterval, name, client_qp); }
  PnpUnit::Learned learn(TimeNs now, const PnpName& name = kFlow, std::uint32_t qp = 17) {
    return unit.learn(now, kInterval, name, qp);
  }
  PnpUnit unit{4};
  std::uint32_t client_qp = 0;
};

TEST_F(PnpUnitTest, AMarkOfAFlowThatIsNotKnownStays) {
  EXPECT_EQ(mark(0), PnpVerdict::pass);
  learn(0);
  PnpName other = kFlow;
  other.dest_qp = 35;
  EXPECT_EQ(mark(0, other), PnpVerdict::pass);
  other = kFlow;
  other.ipv6 = true;
  EXPECT_EQ(mark(0, other), PnpVerdict::pass);
}

TEST_F(PnpUnitTest, OneCnpPerIntervalAtTheQueuePairOfTheSource) {
  EXPECT_EQ(learn(0), PnpUnit::Learned::added);
  EXPECT_EQ(mark(0), PnpVerdict::notify);
  EXPECT_EQ(client_qp, 17u);
  EXPECT_EQ(learn(1), PnpUnit::Learned::known);
  EXPECT_EQ(mark(kInterval - 1), PnpVerdict::clear);
  EXPECT_EQ(mark(kInterval), PnpVerdict::notify);
  EXPECT_EQ(mark(2 * kInterval - 1), PnpVerdict::clear);
}

TEST_F(PnpUnitTest, WithoutAnIntervalEveryMarkIsACnp) {
  learn(0);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(unit.on_marked(7, 0, kFlow, client_qp), PnpVerdict::notify);
}

TEST_F(PnpUnitTest, AnotherQueuePairAtTheSourceIsAnotherConnection) {
  learn(0);
  EXPECT_EQ(mark(0), PnpVerdict::notify);
  learn(1, kFlow, 18);
  EXPECT_EQ(mark(1), PnpVerdict::notify);
  EXPECT_EQ(client_qp, 18u);
}

TEST_F(PnpUnitTest, WhatIsForgottenIsUnknown) {
  learn(0);
  unit.forget(kFlow);
  EXPECT_EQ(mark(0), PnpVerdict::pass);
}

TEST_F(PnpUnitTest, ACnpThatCouldNotBeSentMayFollowAtOnce) {
  learn(0);
  EXPECT_EQ(mark(0), PnpVerdict::notify);
  unit.not_notified(kFlow);
  EXPECT_EQ(mark(1), PnpVerdict::notify);
  EXPECT_EQ(unit.flows(0)[0].cnps, 1u);
}

TEST_F(PnpUnitTest, TheFlowUsedLongestAgoLeavesUnlessItWasTold) {
  for (std::uint32_t i = 0; i < 4; ++i) EXPECT_EQ(learn(i, {1, i + 1, false}), PnpUnit::Learned::added);
  EXPECT_EQ(mark(10, {1, 1, false}), PnpVerdict::notify);
  EXPECT_EQ(learn(11, {1, 5, false}), PnpUnit::Learned::evicted);
  EXPECT_EQ(mark(12, {1, 2, false}), PnpVerdict::pass) << "it was used longest ago";
  EXPECT_EQ(mark(12, {1, 1, false}), PnpVerdict::clear);
  for (const std::uint32_t qp : {3u, 4u, 5u}) EXPECT_EQ(mark(12, {1, qp, false}), PnpVerdict::notify);
  EXPECT_EQ(learn(13, {1, 6, false}), PnpUnit::Learned::full);
  EXPECT_EQ(mark(13, {1, 6, false}), PnpVerdict::pass);
  EXPECT_EQ(learn(10 + kInterval, {1, 6, false}), PnpUnit::Learned::evicted);
}

}  // namespace
}  // namespace weft::stages
