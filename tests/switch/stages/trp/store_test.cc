// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/stages/trp/store.h"

#include <gtest/gtest.h>

namespace weft::stages {
namespace {

wire::FlowName name_of(std::uint32_t qp) {
  return {0x0a000001'0a010001, qp, false};
}

TEST(TrpStore, AFlowIsKnownAtOnceWithoutADelay) {
  TrpStore store({.flows = 4, .cache = 1});
  EXPECT_EQ(store.find(0, name_of(1)), TrpStore::kNone);
  const std::uint32_t a = store.find_or_add(0, name_of(1));
  EXPECT_EQ(store.find_or_add(0, name_of(1)), a);
  EXPECT_EQ(store.find(0, name_of(1)), a);
  EXPECT_EQ(store.find(0, name_of(2)), TrpStore::kNone);
  EXPECT_EQ(store.size(), 1u);
}

TEST(TrpStore, ManyFlowsAreToldApart) {
  TrpStore store({.flows = 64, .cache = 1});
  for (std::uint32_t qp = 0; qp < 64; ++qp) store.flow(store.find_or_add(0, name_of(qp))).measured = qp;
  for (std::uint32_t qp = 0; qp < 64; ++qp) EXPECT_EQ(store.flow(store.find(0, name_of(qp))).measured, qp);
  for (std::uint32_t qp = 64; qp < 128; ++qp) EXPECT_EQ(store.find(0, name_of(qp)), TrpStore::kNone);
}

// With one place in the cache every two flows collide.
TEST(TrpStore, UntilItIsStoredAFlowIsKnownWhileTheCacheHasIt) {
  TrpStore store({.flows = 4, .cache = 1, .insert_delay_ns = 1000});
  const std::uint32_t a = store.find_or_add(0, name_of(1));
  EXPECT_EQ(store.find(0, name_of(1)), a);
  const std::uint32_t b = store.find_or_add(10, name_of(2));
  EXPECT_EQ(store.find(10, name_of(1)), TrpStore::kNone) << "the other one took its place";
  EXPECT_EQ(store.find(10, name_of(2)), b);
  EXPECT_EQ(store.find_or_add(20, name_of(1)), a) << "a CNP brings it back";
  EXPECT_EQ(store.find(20, name_of(1)), a);
  EXPECT_EQ(store.find(20, name_of(2)), TrpStore::kNone);
  EXPECT_EQ(store.find(1000, name_of(1)), a);
  EXPECT_EQ(store.find(1010, name_of(2)), b);
}

TEST(TrpStore, WhatIsHeldIsKnownWhateverTheCacheHas) {
  TrpStore store({.flows = 4, .cache = 1, .insert_delay_ns = 1000});
  const std::uint32_t a = store.find_or_add(0, name_of(1));
  store.flow(a).held = 1;
  static_cast<void>(store.find_or_add(0, name_of(2)));
  EXPECT_EQ(store.find(0, name_of(1)), a);
}

TEST(TrpStore, FlowsThatHoldNothingLeaveForOthersIdleOnesFirst) {
  TrpStore store({.flows = 3, .cache = 1});
  for (std::uint32_t qp = 1; qp <= 3; ++qp) {
    store.flow(store.find_or_add(0, name_of(qp))).law.status = qp == 2 ? TrpStatus::idle : TrpStatus::throttled;
    if (qp != 2) store.begin();
  }
  store.flow(store.find(0, name_of(1))).held = 1;
  EXPECT_NE(store.find_or_add(0, name_of(4)), TrpStore::kNone);
  EXPECT_EQ(store.find(0, name_of(2)), TrpStore::kNone);
  EXPECT_EQ(store.evicted(), 1u);
  store.flow(store.find(0, name_of(3))).held = 1;
  store.flow(store.find(0, name_of(4))).held = 1;
  EXPECT_EQ(store.find_or_add(0, name_of(5)), TrpStore::kNone);
  EXPECT_EQ(store.size(), 3u);
  EXPECT_EQ(store.active(), 2u);
  store.clear();
  EXPECT_EQ(store.active(), 0u);
  EXPECT_EQ(store.find(0, name_of(1)), TrpStore::kNone);
}

TEST(TrpStore, OfIdleFlowsTheOneLeavesWhoseLastCnpIsLongestAgo) {
  TrpStore store({.flows = 4, .cache = 1});
  for (const auto& [qp, told] : {std::pair{1u, 300u}, {2u, 100u}, {3u, 200u}}) {
    store.flow(store.find_or_add(told, name_of(qp))).law.cnp_time = told;
  }
  TrpFlow& slow = store.flow(store.find_or_add(50, name_of(4)));
  slow.law = {.status = TrpStatus::throttled, .cnp_time = 50};
  store.begin();
  for (const std::uint32_t gone : {2u, 3u}) {
    EXPECT_NE(store.find(400, name_of(gone)), TrpStore::kNone);
    TrpFlow& added = store.flow(store.find_or_add(400, name_of(10 + gone)));
    added.law.cnp_time = 400;
    EXPECT_EQ(store.find(400, name_of(gone)), TrpStore::kNone) << gone;
  }
  EXPECT_NE(store.find(400, name_of(4)), TrpStore::kNone) << "one that is slowed down stays while others are idle";
}

}  // namespace
}  // namespace weft::stages
