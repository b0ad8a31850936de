// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Themis-D while the sender's ToR changes its mapping of PSNs to paths.
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <deque>
#include <random>
#include <set>
#include <vector>

#include "switch/stages/nack_filter/unit.h"
#include "tests/support/effort.h"
#include "tests/switch/stages/nack_filter/one_qp.h"

namespace weft::stages {
namespace {

using wire::Psn;

constexpr std::uint32_t kUplinks = 4;

NackRules rules(std::uint32_t paths, std::uint64_t guard_ns) {
  NackRules r;
  r.paths = paths;
  r.uplinks = kUplinks;
  r.weights = {1, 1, 1, 1};
  r.guard_ns = guard_ns;
  return r;
}

constexpr std::uint8_t kLearns = NackFlag::learning | NackFlag::probation;

// Uplinks 0, 2 and 3, in turn.
std::uint32_t of_three(std::uint32_t psn) {
  constexpr std::uint32_t kLeft[] = {0, 2, 3};
  return kLeft[psn % 3];
}

TEST(NackFilterMapping, APathThatComesBackIsLearnedWhileTheOthersStillDeliverWhatIsOlder) {
  OneQp qp(rules(3, 500));
  for (std::uint32_t psn = 0; psn < 30; ++psn) ASSERT_FALSE(qp.data_through(of_three(psn), psn).any());
  // From 60 on there are four paths, and the one that has come back is empty: 30 to 59 wait in the other queues.
  for (std::uint32_t psn = 61; psn < 200; psn += 4) qp.data_through(1, psn);
  EXPECT_EQ(qp.state().paths.value(), 4u) << "all uplinks that deliver anything newer are one";
  EXPECT_FALSE(qp.has(kLearns));
}

TEST(NackFilterMapping, WhenAPathComesBackTheGuardDecidesOfNacksForWhatWasSentBefore) {
  OneQp qp(rules(3, 500));
  for (std::uint32_t psn = 0; psn < 30; ++psn) qp.data_through(of_three(psn), psn);
  qp.data_through(1, 61);
  EXPECT_TRUE(qp.has(NackFlag::learning));
  EXPECT_EQ(qp.nack(30), NackVerdict::stored);
  EXPECT_EQ(qp.state().guard_at, 500u);
  for (std::uint32_t psn = 65; psn < 200; psn += 4) EXPECT_FALSE(qp.data_through(1, psn).compensate);
  EXPECT_TRUE(qp.unit.on_guard(qp.qp(), 500)) << "30 does not come";
  EXPECT_EQ(qp.nack(31), NackVerdict::stored);
  EXPECT_EQ(qp.nack(190), NackVerdict::stored) << "sent by the new mapping";
  EXPECT_FALSE(qp.has(NackFlag::grown)) << "the receiver has all that was sent before";
}

TEST(NackFilterMapping, WithoutAGuardNacksPassWhenAPathComesBack) {
  OneQp qp(rules(3, 0));
  for (std::uint32_t psn = 0; psn < 30; ++psn) qp.data_through(of_three(psn), psn);
  qp.data_through(1, 61);
  EXPECT_EQ(qp.nack(30), NackVerdict::unknown);
}

TEST(NackFilterMapping, NacksPassWhenAPathComesBackBeforeTheLossesOfItsFailureAreRepaired) {
  OneQp qp(rules(4, 500));
  for (std::uint32_t psn = 0; psn < 20; ++psn) qp.data_through(psn % 4, psn);
  // 21 was on the path that went down; then three paths, then four again.
  for (std::uint32_t psn = 24; psn < 90; ++psn) qp.data_through(of_three(psn), psn);
  EXPECT_FALSE(qp.has(kLearns));
  for (std::uint32_t psn = 90; psn < 160; ++psn) qp.data_through(psn % 4, psn);
  EXPECT_FALSE(qp.has(kLearns | NackFlag::grown));
  EXPECT_EQ(qp.nack(21), NackVerdict::unknown);
}

TEST(NackFilterMapping, AMappingThatLeavesGapsIsNotBelieved) {
  OneQp qp(rules(4, 500));
  for (std::uint32_t psn = 0; psn < 8; ++psn) qp.data_through(psn % 4, psn);
  for (std::uint32_t psn = 9; psn < 26; ++psn) qp.data_through(2, psn);
  EXPECT_EQ(qp.state().paths.value(), 1u);
  EXPECT_TRUE(qp.has(NackFlag::probation));
  for (const std::uint32_t psn : {28u, 31u}) qp.data_through(2, psn);
  EXPECT_TRUE(qp.has(NackFlag::learning)) << "others paths deliver what lies between";
}

TEST(NackFilterMapping, ReadsLeavePsnsOutWithoutBeingGaps) {
  OneQp qp(rules(4, 500));
  for (std::uint32_t psn = 0; psn < 8; ++psn) qp.data_through(psn % 4, psn);
  for (std::uint32_t psn = 9; psn < 200; psn += 3) qp.data_through(psn % 2, psn, 3);
  EXPECT_EQ(qp.state().paths.value() % 2, 0u);
  EXPECT_FALSE(qp.has(kLearns));
}

// One sender, whose paths come and go while each delivers in order at a speed of its own, and a receiver that asks for
// every hole at once.
class Fabric {
 public:
  Fabric(std::uint32_t seed, std::uint64_t guard_ns) : random_(seed), qp_(rules(kUplinks, guard_ns)) {
    qp_.unit.start(qp_.qp(), Psn(kFirst));
  }

  /// NACKs that were judged valid, or compensated, for a packet that was not lost, but for those before the first
  /// packet has come in where it should not since a change: it is the first sign of one.
  std::uint32_t run() {
    std::uint32_t next = 0;
    while (received_ < kPackets) {
      if (chance(300)) change_mapping();
      if (chance(40)) favoured_ = below(kUplinks);
      const std::uint32_t uplink = chance(20) ? below(kUplinks) : favoured_;
      const bool full = next > received_ + 200;
      if (next < kPackets && !full && chance(2)) {
        send(next++, chance(100));
      } else if (!queues_[uplink].empty()) {
        deliver(uplink);
      } else if (full || next == kPackets) {
        favoured_ = below(kUplinks);
        // A timeout, or the guard: the hole is filled when nothing else is under way.
        if (all_empty()) send(received_, false);
      }
    }
    return false_;
  }

 private:
  static constexpr std::uint32_t kFirst = 0xfffe00, kPackets = 4000;

  std::uint32_t below(std::uint32_t n) { return std::uniform_int_distribution<std::uint32_t>(0, n - 1)(random_); }
  bool chance(std::uint32_t one_in) { return below(one_in) == 0; }
  [[nodiscard]] bool all_empty() const {
    for (const auto& queue : queues_) {
      if (!queue.empty()) return false;
    }
    return true;
  }
  void change_mapping() {
    noticed_ = false;
    mapping_.clear();
    const std::uint32_t without = below(2 * kUplinks);
    for (std::uint32_t i = 0; i < kUplinks; ++i) {
      if (i != without) mapping_.push_back(i);
    }
  }
  void send(std::uint32_t i, bool lose) {
    if (!lose) queues_[mapping_[Psn(kFirst + i).value() % mapping_.size()]].push_back(i);
  }
  [[nodiscard]] bool under_way(std::uint32_t i) const {
    for (const auto& queue : queues_) {
      for (const std::uint32_t other : queue) {
        if (other == i) return true;
      }
    }
    return false;
  }
  void told(std::uint32_t i) {
    if (noticed_ && (i < received_ || early_.contains(i) || under_way(i))) ++false_;
  }
  void deliver(std::uint32_t uplink) {
    const std::uint32_t i = queues_[uplink].front();
    queues_[uplink].pop_front();
    const Psn blocked(qp_.state().blocked);
    const DataVerdict said = qp_.unit.on_data(qp_.qp(), Psn(kFirst + i), uplink);
    noticed_ = noticed_ || said.mismatch;
    if (said.compensate) {
      const auto asked = static_cast<std::uint32_t>(blocked.distance_from(Psn(kFirst)));
      told(asked);
      send(asked, false);
    }
    if (i < received_) return;
    early_.insert(i);
    const bool hole = !early_.contains(received_);
    while (early_.erase(received_) != 0) ++received_;
    if (!hole) qp_.unit.on_receipt(qp_.qp(), Psn(kFirst + received_ - 1));
    if (early_.empty() || asked_ == received_) return;
    asked_ = received_;
    const NackVerdict verdict = qp_.nack(kFirst + received_);
    if (verdict == NackVerdict::valid) told(received_);
    if (verdict == NackVerdict::valid || verdict == NackVerdict::unknown) send(received_, false);
  }

  std::mt19937 random_;
  OneQp qp_;
  std::vector<std::uint32_t> mapping_{0, 1, 2, 3};
  std::array<std::deque<std::uint32_t>, kUplinks> queues_;
  std::uint32_t favoured_ = 0, received_ = 0, asked_ = ~0u, false_ = 0;
  bool noticed_ = true;
  std::set<std::uint32_t> early_;
};

TEST(NackFilterMapping, OnceAChangeIsNoticedNoNackIsJudgedValidForAPacketThatIsNotLost) {
  for (std::uint32_t seed = 1; seed <= weft::testing::rounds(300); ++seed) {
    EXPECT_EQ(Fabric(seed, seed % 2 == 0 ? 0 : 500).run(), 0u) << "seed " << seed;
  }
}

}  // namespace
}  // namespace weft::stages
