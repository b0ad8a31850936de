// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/stages/nack_filter/unit.h"

#include <gmock/gmock.h>

#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "tests/switch/stages/nack_filter/one_qp.h"

namespace weft::stages {
namespace {

using wire::Psn;

NackRules rules(NackCheck check = NackCheck::gap, std::uint64_t guard_ns = 0) {
  NackRules r;
  r.check = check;
  r.guard_ns = guard_ns;
  r.weights = {1, 1};
  r.window_psns = 64;
  return r;
}

TEST(NackFilterUnit, OfAConnectionWhoseFirstPsnIsKnownNothingIsMissed) {
  OneQp known(rules());
  known.unit.start(known.qp(), Psn(10));
  known.all({11, 13, 12});
  EXPECT_EQ(known.nack(10), NackVerdict::valid);

  OneQp unknown(rules());
  unknown.all({11, 13, 12});
  EXPECT_EQ(unknown.nack(10), NackVerdict::stored) << "it may have left before";
}

TEST(NackFilterUnit, BeforeTheFirstPacketOfAPathOnlyTheGuardKnows) {
  OneQp without(rules());
  without.data(1);
  EXPECT_EQ(without.nack(0), NackVerdict::unknown);
  OneQp with(rules(NackCheck::gap, 500));
  with.data(1);
  EXPECT_EQ(with.nack(0, 1000), NackVerdict::stored);
  EXPECT_FALSE(with.data(2).compensate) << "2 does not prove anything about 0";
  EXPECT_FALSE(with.unit.on_guard(with.qp(), 1499));
  EXPECT_TRUE(with.unit.on_guard(with.qp(), 1500));
}

TEST(NackFilterUnit, AReadTakesPsnsThatCountAsLostNowhere) {
  OneQp qp(rules());
  qp.all({0, 1});
  qp.data(2, 10);
  qp.all({12, 13});
  EXPECT_EQ(qp.state().lost_count, 0u);
  qp.all({16, 17});
  EXPECT_EQ(qp.state().lost_count, 2u) << "14 and 15 are";
}

TEST(NackFilterUnit, WhatIsAcknowledgedIsLostNoMore) {
  OneQp qp(rules());
  qp.all({0, 1, 4, 5, 8, 9});
  EXPECT_EQ(qp.state().lost_count, 4u);
  qp.ack(3);
  EXPECT_EQ(qp.state().lost_count, 2u);
  EXPECT_EQ(qp.nack(6), NackVerdict::valid);
  qp.ack(9);
  EXPECT_EQ(qp.state().flags, 0u);
}

TEST(NackFilterUnit, LossesThatFallOutOfTheWindowAreForgotten) {
  OneQp qp(rules());
  qp.all({0, 1, 3, 4});
  EXPECT_EQ(qp.nack(2), NackVerdict::valid);
  for (std::uint32_t psn = 5; psn < 2 + 64; ++psn) qp.data(psn);
  EXPECT_EQ(qp.state().lost_count, 1u);
  qp.data(66);
  qp.data(67);
  EXPECT_EQ(qp.state().lost_count, 0u);
  EXPECT_EQ(qp.state().flags, 0u);
}

TEST(NackFilterUnit, ALongBurstOfLossesIsKnownAsFarAsTheWindowReaches) {
  OneQp qp(rules());
  qp.all({0, 1, 1000, 1001});
  EXPECT_EQ(qp.nack(990), NackVerdict::valid);
  EXPECT_EQ(qp.nack(991), NackVerdict::valid);
  OneQp other(rules());
  other.all({0, 1, 1000, 1001});
  EXPECT_EQ(other.nack(2), NackVerdict::unknown) << "too long ago to be judged";
}

TEST(NackFilterUnit, ACopyOfANackThatIsSettledIsBlockedWithoutGuard) {
  OneQp qp(rules(NackCheck::gap, 500));
  qp.all({0, 1, 3});
  EXPECT_EQ(qp.nack(2), NackVerdict::stored);
  qp.data(2);
  qp.ack(3);
  EXPECT_EQ(qp.nack(2, 100), NackVerdict::blocked);
  EXPECT_EQ(qp.state().guard_at, 0u);
}

TEST(NackFilterUnit, ASecondNackOfTheSamePsnDoesNotPutOffTheGuard) {
  OneQp qp(rules(NackCheck::gap, 500));
  qp.all({0, 1, 3});
  qp.nack(2, 1000);
  qp.nack(2, 1400);
  EXPECT_EQ(qp.state().guard_at, 1500u);
}

TEST(NackFilterUnit, ANackForWhatAPathThatIsDownHasNotDeliveredPasses) {
  OneQp qp(rules(NackCheck::gap, 500));
  qp.all({0, 1, 3});
  EXPECT_EQ(qp.unit.on_nack(qp.qp(), 0, Psn(2), 0, 0b10), NackVerdict::stored) << "the other uplink is down";
  EXPECT_EQ(qp.unit.on_nack(qp.qp(), 0, Psn(2), 0, 0b01), NackVerdict::path_down);
  EXPECT_FALSE(qp.unit.on_guard(qp.qp(), 1000)) << "it has been told";
}

TEST(NackFilterUnit, WhatLeftBeforeItsPathWentDownIsNotLost) {
  OneQp qp(rules(NackCheck::gap, 500));
  qp.all({1, 3, 0, 2});
  EXPECT_EQ(qp.unit.on_nack(qp.qp(), 0, Psn(0), 0, 0b01), NackVerdict::stored) << "the NACK crossed it";
  EXPECT_FALSE(qp.unit.on_uplinks_down(qp.qp(), 0b01));
}

TEST(NackFilterUnit, ABlockedNackIsDueWhenThePathOfItsPacketGoesDown) {
  OneQp qp(rules(NackCheck::gap, 500));
  qp.all({0, 1, 3});
  EXPECT_EQ(qp.nack(2), NackVerdict::stored);
  EXPECT_FALSE(qp.unit.on_uplinks_down(qp.qp(), 0b10));
  EXPECT_TRUE(qp.unit.on_uplinks_down(qp.qp(), 0b01));
  EXPECT_FALSE(qp.unit.on_uplinks_down(qp.qp(), 0b01)) << "one NACK per PSN";
  EXPECT_FALSE(qp.unit.on_guard(qp.qp(), 1000));
}

// Two paths, then packets come through the second uplink alone.
TEST(NackFilterUnit, NacksForPsnsFromBeforeANewMappingPassAlsoWhenItIsLearned) {
  OneQp qp(rules(NackCheck::gap, 500));
  qp.all({0, 1, 2, 3, 4, 5});
  EXPECT_TRUE(qp.data_through(1, 8).mismatch);
  for (std::uint32_t psn = 9; psn < 40; ++psn) qp.data_through(1, psn);
  EXPECT_EQ(qp.state().flags, 0) << "learned";
  EXPECT_EQ(qp.nack(6), NackVerdict::unknown);
  qp.data_through(1, 41);
  EXPECT_EQ(qp.nack(40), NackVerdict::valid) << "sent by the new mapping";
}

TEST(NackFilterUnit, LatePacketsOfTheMappingBeforeChangeNothing) {
  OneQp qp(rules(NackCheck::gap, 500));
  qp.all({0, 1, 3, 5});
  EXPECT_TRUE(qp.data_through(1, 8).mismatch);
  qp.data_through(0, 2);
  for (std::uint32_t psn = 9; psn < 40; ++psn) qp.data_through(1, psn);
  EXPECT_EQ(qp.state().paths.value(), 1u) << "2 came by the old mapping";
  EXPECT_FALSE(qp.data_through(0, 4).mismatch);
  EXPECT_FALSE(qp.data_through(0, 6).mismatch);
  EXPECT_EQ(qp.state().flags, 0);
  EXPECT_TRUE(qp.data_through(0, 40).mismatch) << "a new one";
}

TEST(NackFilterUnit, APsnFarAwayBeginsAnew) {
  for (const std::uint32_t psn : {1u << 20, (1u << 24) - (1u << 20)}) {
    OneQp qp(rules());
    qp.all({0, 1, 3});
    EXPECT_EQ(qp.nack(2), NackVerdict::stored);
    EXPECT_TRUE(qp.data(psn).release) << "no guard would send it";
    EXPECT_EQ(qp.nack(psn + 1), NackVerdict::unknown);
    EXPECT_FALSE(qp.data(psn + 1).release);
    qp.all({psn + 4, psn + 5});
    EXPECT_EQ(qp.nack(psn + 2), NackVerdict::valid);
  }
}

TEST(NackFilterUnit, ADropOfACopyProvesNothing) {
  OneQp qp(rules(NackCheck::gap, 500));
  qp.all({0, 1, 2, 3});
  EXPECT_EQ(qp.nack(2), NackVerdict::stored);
  EXPECT_FALSE(qp.unit.on_dropped(qp.qp(), Psn(2)).compensate);
  EXPECT_EQ(qp.unit.on_dropped(qp.qp(), Psn(4)).compensate, false);
  EXPECT_EQ(qp.nack(4), NackVerdict::valid);
}

TEST(NackFilterUnit, RingFirstTakesTheFirstLaterEntryAndDropsWhatIsBeforeIt) {
  // The example of the paper's figure 4b.
  for (const std::uint8_t bits : {std::uint8_t{8}, std::uint8_t{24}}) {
    NackRules r = rules(NackCheck::ring_first);
    r.ring_entry_bits = bits;
    OneQp qp(r);
    qp.all({0, 1, 3, 2});
    EXPECT_EQ(qp.nack(2), NackVerdict::stored) << "tPSN 3";
    qp.all({6});
    EXPECT_EQ(qp.nack(4), NackVerdict::valid) << "tPSN 6";
    EXPECT_EQ(qp.state().ring_size, 0u);
  }
}

TEST(NackFilterUnit, RingScanLooksAtAllEntries) {
  OneQp first(rules(NackCheck::ring_first)), scan(rules(NackCheck::ring_scan));
  for (OneQp* qp : {&first, &scan}) qp->all({0, 1, 3, 4});
  EXPECT_EQ(first.nack(2), NackVerdict::stored);
  EXPECT_EQ(scan.nack(2), NackVerdict::valid);
}

TEST(NackFilterUnit, AFullRingForgetsItsOldestEntry) {
  NackRules r = rules(NackCheck::ring_scan);
  r.ring_entries = 3;
  OneQp qp(r);
  qp.all({0, 4, 1, 3, 5});
  EXPECT_EQ(qp.nack(2), NackVerdict::stored) << "4 has fallen out";
}

TEST(NackFilterUnit, EntriesOfEightBitsMeanThePsnNextToTheOneAskedFor) {
  OneQp qp(rules(NackCheck::ring_first));
  qp.all({0xffffff - 1, 0xffffff, 1, 2});
  EXPECT_EQ(qp.nack(0), NackVerdict::stored) << "tPSN 1";
  EXPECT_TRUE(qp.data(4).compensate);
}

TEST(NackFilterUnit, HwmGoesByTheHighestPsnOfThePathAlone) {
  OneQp qp(rules(NackCheck::hwm));
  qp.all({0, 1, 2, 4});
  EXPECT_EQ(qp.nack(2), NackVerdict::valid) << "although 2 has left";
  EXPECT_EQ(qp.nack(3), NackVerdict::stored);
  EXPECT_TRUE(qp.data(5).compensate);
}

TEST(NackFilterUnit, RetransmissionsThatFollowABlockedNackAreSaid) {
  OneQp qp(rules(NackCheck::gap, 500));
  qp.all({0, 1, 2, 3});
  EXPECT_FALSE(qp.data(1).after_block) << "none was blocked";
  EXPECT_EQ(qp.nack(2), NackVerdict::stored);
  EXPECT_FALSE(qp.data(1).after_block) << "an earlier one";
  EXPECT_TRUE(qp.data(2).after_block);
  EXPECT_TRUE(qp.data(3).after_block);
  EXPECT_FALSE(qp.data(4).after_block) << "a new one";
}

TEST(NackFilterUnit, WeightsSayHowManyPathsAnUplinkStandsFor) {
  NackRules r = rules();
  r.weights = {3, 1};
  r.paths = 4;
  OneQp qp(r);
  const std::uint32_t four[] = {0, 0, 0, 1};
  for (std::uint32_t psn = 0; psn < 8; ++psn) EXPECT_FALSE(qp.data_through(four[psn % 4], psn).mismatch);
  EXPECT_TRUE(qp.data_through(0, 11).mismatch) << "everything through the first uplink now: three paths";
  for (std::uint32_t psn = 12; psn < 40; ++psn) qp.data_through(0, psn);
  EXPECT_EQ(qp.state().flags, 0u);
  EXPECT_EQ(qp.state().paths.value(), 3u);
}

TEST(NackFilterUnit, TheMemoryOfThePapersExampleIsWhatEquation4Says) {
  NackRules r = rules(NackCheck::ring_first);
  r.paths = 256;
  r.ring_entries = 100;
  EXPECT_EQ(NackFilterUnit(r).paper_bytes(), 120u);
}

}  // namespace
}  // namespace weft::stages
