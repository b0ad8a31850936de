// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "collectives/engine/group.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "tests/collectives/engine/groups.h"

namespace weft::inc {
namespace {

using ::testing::HasSubstr;

TEST(GroupConfig, AStarAndALeafAreAccepted) {
  EXPECT_EQ(check(testing::star(2)), std::nullopt);
  EXPECT_EQ(check(testing::star(64)), std::nullopt);
  EXPECT_EQ(check(testing::leaf()), std::nullopt);
}

TEST(GroupConfig, WhatIsWrongIsSaid) {
  const auto refused = [](const std::function<void(GroupConfig&)>& change) {
    GroupConfig g = testing::leaf();
    change(g);
    return check(g).value_or("accepted");
  };
  EXPECT_THAT(refused([](auto& g) { g.endpoints.resize(1); }), HasSubstr("two endpoints"));
  EXPECT_THAT(refused([](auto& g) { g.endpoints.resize(66); }), HasSubstr("64 children"));
  EXPECT_THAT(refused([](auto& g) { g.parent = 9; }), HasSubstr("the parent is no endpoint"));
  EXPECT_THAT(refused([](auto& g) { g.parent = 0; }), HasSubstr("not a rank"));
  EXPECT_THAT(refused([](auto& g) { g.way.resize(1); }), HasSubstr("two ranks"));
  EXPECT_THAT(refused([](auto& g) { g.way[3] = 7; }), HasSubstr("rank 3 is behind no endpoint"));
  EXPECT_THAT(refused([](auto& g) { g.way[0] = 1; }), HasSubstr("endpoint 0 is rank 0"));
  EXPECT_THAT(refused([](auto& g) { g.way[3] = 1; }), HasSubstr("rank 3 is behind endpoint 1, which is a rank"));
  EXPECT_THAT(refused([](auto& g) { g.mtu = 1500; }), HasSubstr("mtu"));
  EXPECT_THAT(refused([](auto& g) { g.message_packets = 0; }), HasSubstr("message"));
  EXPECT_THAT(refused([](auto& g) { g.window = 0; }), HasSubstr("window"));
  EXPECT_THAT(refused([](auto& g) { g.slots = 1; }), HasSubstr("slots"));
  EXPECT_THAT(refused([](auto& g) { g.invocations = 1; }), HasSubstr("invocations"));
  EXPECT_THAT(refused([](auto& g) { g.rnr_timer = 32; }), HasSubstr("RNR"));
  EXPECT_THAT(refused([](auto& g) { g.endpoints[0].loss_recovery = nic::LossRecovery::ideal; }),
              HasSubstr("loss recovery"));
  GroupConfig g = testing::star(65);
  EXPECT_THAT(check(g).value_or(""), HasSubstr("64 children at most"));
}

TEST(EndpointSet, HoldsWhatIsPutIn) {
  EndpointSet set;
  for (const EndpointIndex e : {0, 63, 64}) set.add(e);
  EXPECT_EQ(set.size(), 3u);
  for (EndpointIndex e = 0; e < kMaxEndpoints; ++e) EXPECT_EQ(set.has(e), e == 0 || e >= 63) << int{e};
  set.remove(63);
  EXPECT_EQ(set.size(), 2u);
  EndpointSet other;
  other.add(64);
  other.add(0);
  EXPECT_EQ(set, other);
  set.clear();
  EXPECT_EQ(set.size(), 0u);
}

}  // namespace
}  // namespace weft::inc
