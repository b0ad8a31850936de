// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Which receivers NackFilterUnit takes for ones that keep early packets.
#include <gtest/gtest.h>

#include "tests/switch/stages/nack_filter/one_qp.h"

namespace weft::stages {
namespace {

NackRules rules(NackCheck check = NackCheck::gap, std::uint64_t guard_ns = 0) {
  NackRules r;
  r.check = check;
  r.guard_ns = guard_ns;
  r.weights = {1, 1};
  r.window_psns = 64;
  return r;
}

// What a receiver says that keeps nothing early, while of two paths the second one is faster: 1, 0, 3, 2, 5, 4, ...
TEST(NackFilterReceiver, AReceiverThatKeepsNoEarlyPacketsIsFoundByItsNacks) {
  for (const bool detect : {true, false}) {
    NackRules r = rules(NackCheck::gap, 500);
    r.detect_gbn = detect;
    OneQp qp(r);
    qp.all({0, 1, 3});
    EXPECT_EQ(qp.nack(2), NackVerdict::stored);
    qp.data(2);
    for (std::uint32_t psn = 5; psn < 9; psn += 2) {
      qp.all({psn, psn - 1});
      EXPECT_EQ(qp.nack(psn), NackVerdict::stored) << "it has left before the one in front of it";
      qp.ack(psn);
    }
    qp.all({9, 8});
    EXPECT_EQ(qp.nack(9), detect ? NackVerdict::in_order : NackVerdict::stored);
    EXPECT_EQ(qp.has(NackFlag::in_order), detect);
    if (!detect) continue;
    EXPECT_FALSE(qp.unit.on_guard(qp.qp(), 10'000)) << "nothing is blocked any more";
    qp.data(12);
    EXPECT_EQ(qp.nack(10), NackVerdict::in_order);
    EXPECT_EQ(qp.state().lost_count, 0u);
    qp.data(10'000'000);
    EXPECT_FALSE(qp.has(NackFlag::in_order)) << "another connection, maybe of another receiver";
  }
}

TEST(NackFilterReceiver, AReceiverThatKeepsNoEarlyPacketsIsFoundByTheGuard) {
  OneQp qp(rules(NackCheck::gap, 500));
  qp.all({0, 1, 3});
  for (std::uint32_t round = 0; round < 3; ++round) {
    EXPECT_FALSE(qp.has(NackFlag::in_order));
    const std::uint32_t psn = 2 * round + 1;
    EXPECT_EQ(qp.nack(psn, 1000 * round), NackVerdict::stored);
    EXPECT_TRUE(qp.unit.on_guard(qp.qp(), 1000 * round + 500));
    // The sender goes back to it.
    qp.all({psn, psn + 2, psn + 4, psn + 1, psn + 3});
  }
  EXPECT_TRUE(qp.has(NackFlag::in_order));
}

TEST(NackFilterReceiver, AGuardForWhatHasNotLeftSaysNothingAboutTheReceiver) {
  OneQp qp(rules(NackCheck::gap, 500));
  qp.all({0, 1, 3});
  for (std::uint32_t round = 0; round < 8; ++round) {
    EXPECT_EQ(qp.nack(2, 1000 * round), NackVerdict::stored);
    EXPECT_TRUE(qp.unit.on_guard(qp.qp(), 1000 * round + 500));
  }
  EXPECT_FALSE(qp.has(NackFlag::in_order));
}

TEST(NackFilterReceiver, AReceiverThatKeepsEarlyPacketsIsNotTakenForOneThatDoesNot) {
  OneQp qp(rules(NackCheck::gap, 500));
  qp.all({0, 1, 3});
  EXPECT_EQ(qp.nack(2), NackVerdict::stored);
  qp.data(2);
  qp.ack(3);
  for (std::uint32_t psn = 4; psn < 40; psn += 4) {
    qp.all({psn + 1, psn});
    qp.ack(psn + 1);
    // What the last hop loses now and then looks like a drop.
    qp.all({psn + 3, psn + 2});
    EXPECT_NE(qp.nack(psn + 3), NackVerdict::in_order);
    qp.data(psn + 3);
    qp.ack(psn + 3);
  }
  EXPECT_FALSE(qp.has(NackFlag::in_order));
}

TEST(NackFilterReceiver, OnceItHasShownThatItKeepsEarlyPacketsNothingMoreIsLookedFor) {
  OneQp qp(rules());
  qp.all({0, 1, 3});
  EXPECT_EQ(qp.nack(2), NackVerdict::stored);
  EXPECT_TRUE(qp.has(NackFlag::watching));
  qp.data(2);
  std::uint32_t psn = 4;
  for (; qp.has(NackFlag::watching) && psn < 100; psn += 2) {
    qp.all({psn + 1, psn});
    qp.ack(psn + 1);
  }
  EXPECT_EQ(qp.state().kept_proofs, NackState::kKeptProofs);
  qp.all({psn, psn + 1, psn + 3});
  EXPECT_EQ(qp.nack(psn + 2), NackVerdict::stored);
  EXPECT_FALSE(qp.has(NackFlag::watching));
}

TEST(NackFilterReceiver, WithoutAnythingEarlyNothingMoreIsLookedFor) {
  OneQp qp(rules());
  qp.all({0, 1, 3});
  EXPECT_EQ(qp.nack(2), NackVerdict::stored);
  for (std::uint32_t psn = 2; psn < 80; ++psn) qp.data(psn);
  EXPECT_EQ(qp.state().flags, 0u);
}

}  // namespace
}  // namespace weft::stages
