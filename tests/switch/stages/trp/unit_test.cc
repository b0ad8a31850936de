// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/stages/trp/unit.h"

#include <gmock/gmock.h>

#include <utility>
#include <vector>

#include "switch/base/time.h"

namespace weft::stages {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr wire::FlowName kFlow{0x0a000001'0a010001, 34, false}, kOther{0x0a000001'0a010001, 35, false};

// A byte takes a nanosecond on the loop port, and a packet 50 more until it is back.
TrpSettings settings(TrpMode mode = TrpMode::recirculate) {
  TrpSettings s;
  s.mode = mode;
  s.loop_mbps = 8'000;
  s.loop_delay_ns = 50;
  s.max_packets = 64;
  return s;
}

// All ways to slow down.
std::vector<TrpSettings> modes() {
  std::vector<TrpSettings> all{settings(), settings(TrpMode::pace), settings(TrpMode::pace)};
  all.back().at_departure = true;
  return all;
}

class Rig : public TrpSink {
 public:
  explicit Rig(const TrpSettings& s) : unit(s) {}
  void release(TrpPacket packet) noexcept override { gone.emplace_back(packet, now); }
  [[nodiscard]] bool reserve(TrpPacket packet) noexcept override { return packet != refused; }
  void passed_loop(TrpPacket packet, TrpFlow& /*flow*/, std::uint64_t waiting) noexcept override {
    passes.emplace_back(packet, waiting);
  }
  TrpVerdict data(TrpPacket packet, const wire::FlowName& name = kFlow, std::uint32_t bytes = 100) {
    return unit.on_data(now, name, packet, bytes, *this);
  }
  void run_to(TimeNs time) {
    while (unit.next_deadline() <= time) {
      now = std::max(now, unit.next_deadline());
      unit.on_timer(now, *this);
    }
    now = time;
  }
  TrpUnit unit;
  TimeNs now = 0;
  TrpPacket refused = 0;  ///< the switch has no room for this one
  std::vector<std::pair<TrpPacket, TimeNs>> gone;
  std::vector<std::pair<TrpPacket, std::uint64_t>> passes;
};

TEST(TrpUnit, WithoutCnpsNothingIsHeld) {
  Rig rig(settings());
  EXPECT_FALSE(rig.unit.busy());
  EXPECT_EQ(rig.data(1), TrpVerdict::pass);
  EXPECT_EQ(rig.unit.next_deadline(), kNever);
}

TEST(TrpUnit, APassOfTheLoopPortTakesItsTime) {
  Rig rig(settings());
  rig.unit.on_cnp(0, kFlow);
  EXPECT_EQ(rig.data(1), TrpVerdict::held);
  EXPECT_EQ(rig.data(2), TrpVerdict::held);
  EXPECT_EQ(rig.data(3, kOther), TrpVerdict::pass) << "innocent";
  rig.run_to(kUs);
  using Gone = std::pair<TrpPacket, TimeNs>;
  EXPECT_THAT(rig.gone, ElementsAre(Gone{1, 150}, Gone{2, 250}));
  EXPECT_EQ(rig.unit.held(), 0u);
  EXPECT_EQ(rig.unit.counters().most_bytes, 200u);
}

TEST(TrpUnit, MoreCnpsMoreLoops) {
  TrpSettings s = settings();
  s.rules.alpha = 1;
  Rig rig(s);
  for (int i = 0; i < 3; ++i) rig.unit.on_cnp(0, kFlow);
  EXPECT_EQ(rig.data(1), TrpVerdict::held);
  rig.run_to(kUs);
  EXPECT_THAT(rig.gone, ElementsAre(std::pair<TrpPacket, TimeNs>{1, 300}));
}

TEST(TrpUnit, WhoWantsToMarkIsToldWhatWaitsForTheLoopPort) {
  TrpSettings s = settings();
  for (const bool tell : {false, true}) {
    s.tell_passes = tell;
    Rig rig(s);
    rig.unit.on_cnp(0, kFlow);
    for (TrpPacket p = 1; p <= 3; ++p) EXPECT_EQ(rig.data(p), TrpVerdict::held);
    rig.run_to(kUs);
    ASSERT_THAT(rig.gone, SizeIs(3));
    if (!tell) {
      EXPECT_THAT(rig.passes, IsEmpty());
      continue;
    }
    using Pass = std::pair<TrpPacket, std::uint64_t>;
    // The first comes back 50 ns behind its end, when as many bytes of the second have gone.
    EXPECT_THAT(rig.passes, ElementsAre(Pass{1, 150}, Pass{2, 50}, Pass{3, 0}));
  }
}

// With the authors' rule a packet takes all its loops when it comes, and only in the loop it is found that the flow
// recovers; then it has one more to go.
TrpSettings code_settings(TrpRecovery recovery) {
  TrpSettings s = settings();
  s.rules = {.rule = TrpRule::code, .alpha = 1, .beta_ns = 220, .max_loops = 20};
  s.recovery = recovery;
  return s;
}

TEST(TrpUnit, InTheCodeAFlowThatRecoversGoesRoundTwiceForEver) {
  for (const TrpRecovery recovery : {TrpRecovery::aligned, TrpRecovery::direct}) {
    Rig rig(code_settings(recovery));
    for (TimeNs at = 0; at < 100; at += 10) rig.unit.on_cnp(at, kFlow);
    rig.now = 1000;
    EXPECT_EQ(rig.data(1), TrpVerdict::held);
    rig.run_to(10 * kUs);
    rig.now = 20 * kUs;
    EXPECT_EQ(rig.data(2), TrpVerdict::held);
    rig.run_to(30 * kUs);
    using Gone = std::pair<TrpPacket, TimeNs>;
    EXPECT_THAT(rig.gone, ElementsAre(Gone{1, 1300}, Gone{2, 20'300}));
    EXPECT_EQ(rig.unit.counters().recovered, 0u);
  }
}

// The second packet comes back for the first time when the flow recovers, while the first is in its second loop of
// four.
TEST(TrpUnit, InTheCodeLoopsEndEarlyWhenNoneOfTheFlowHasFewerLeft) {
  using Gone = std::pair<TrpPacket, TimeNs>;
  for (const TrpRecovery recovery : {TrpRecovery::aligned, TrpRecovery::direct}) {
    TrpSettings s = code_settings(recovery);
    s.rules.max_loops = 4;
    Rig rig(s);
    for (TimeNs at = 0; at < 100; at += 10) rig.unit.on_cnp(at, kFlow);
    rig.run_to(100);
    EXPECT_EQ(rig.data(1), TrpVerdict::held);
    rig.run_to(240);
    EXPECT_EQ(rig.data(2), TrpVerdict::held);
    rig.run_to(10 * kUs);
    // Directly the second one goes on after its second loop, in front of the first.
    if (recovery == TrpRecovery::direct) {
      EXPECT_THAT(rig.gone, ElementsAre(Gone{2, 590}, Gone{1, 690}));
    } else {
      EXPECT_THAT(rig.gone, ElementsAre(Gone{1, 690}, Gone{2, 790}));
    }
  }
}

TEST(TrpUnit, WhatWasHeldForTooLongGoesOnWhenItComesBack) {
  TrpSettings s = settings();
  s.rules.alpha = 1;
  s.max_hold_ns = 400;
  Rig rig(s);
  for (int i = 0; i < 1000; ++i) rig.unit.on_cnp(0, kFlow);
  EXPECT_EQ(rig.data(1), TrpVerdict::held);
  rig.run_to(100 * kUs);
  EXPECT_THAT(rig.gone, ElementsAre(std::pair<TrpPacket, TimeNs>{1, 450})) << "in its third pass";
}

TEST(TrpUnit, AFlowThatHasRecoveredPasses) {
  Rig rig(settings());
  rig.unit.on_cnp(0, kFlow);
  EXPECT_EQ(rig.data(1), TrpVerdict::held);
  rig.run_to(600 * kUs);
  EXPECT_EQ(rig.data(2), TrpVerdict::pass);
  EXPECT_EQ(rig.unit.counters().recovered, 1u);
}

TEST(TrpUnit, RecoveryKeepsTheOrderOfWhatIsInTheLoop) {
  TrpSettings s = settings();
  s.rules.beta_ns = 220;
  s.rules.alpha = 1;
  Rig rig(s);
  for (int i = 0; i < 10; ++i) rig.unit.on_cnp(0, kFlow);
  for (TrpPacket p = 1; p <= 6; ++p) {
    EXPECT_EQ(rig.data(p), TrpVerdict::held);
    rig.run_to(rig.now + 40);
  }
  rig.run_to(100 * kUs);
  ASSERT_THAT(rig.gone, SizeIs(6));
  for (std::size_t i = 0; i < 6; ++i) EXPECT_EQ(rig.gone[i].first, i + 1);
}

TEST(TrpUnit, AFlowWithoutRoomGoesOnInOrder) {
  TrpSettings s = settings();
  s.max_packets = 2;
  Rig rig(s);
  rig.unit.on_cnp(0, kFlow);
  rig.unit.on_cnp(0, kOther);
  EXPECT_EQ(rig.data(1), TrpVerdict::held);
  EXPECT_EQ(rig.data(2, kOther), TrpVerdict::held);
  EXPECT_EQ(rig.data(3), TrpVerdict::flushed);
  ASSERT_THAT(rig.gone, SizeIs(1));
  EXPECT_EQ(rig.gone[0].first, 1u);
  EXPECT_EQ(rig.unit.held(), 1u) << "the other flow stays";
  EXPECT_EQ(rig.data(4), TrpVerdict::pass) << "it is slowed down no more";
  rig.run_to(kUs);
  EXPECT_EQ(rig.unit.held(), 0u);
}

TEST(TrpUnit, AFlowForWhichTheSwitchHasNoRoomGoesOnInOrder) {
  Rig rig(settings());
  rig.refused = 3;
  rig.unit.on_cnp(0, kFlow);
  EXPECT_EQ(rig.data(1), TrpVerdict::held);
  EXPECT_EQ(rig.data(2), TrpVerdict::held);
  EXPECT_EQ(rig.data(3), TrpVerdict::flushed);
  EXPECT_THAT(rig.gone, SizeIs(2)) << "in front of it";
  EXPECT_EQ(rig.unit.held(), 0u);
  EXPECT_EQ(rig.unit.counters().held, 2u);
  EXPECT_EQ(rig.unit.counters().flushed, 3u);
  EXPECT_EQ(rig.data(4), TrpVerdict::pass) << "it is slowed down no more";
}

TEST(TrpUnit, BytesAreBoundedToo) {
  TrpSettings s = settings();
  s.buffer_bytes = 250;
  Rig rig(s);
  rig.unit.on_cnp(0, kFlow);
  EXPECT_EQ(rig.data(1), TrpVerdict::held);
  EXPECT_EQ(rig.data(2), TrpVerdict::held);
  EXPECT_EQ(rig.data(3), TrpVerdict::flushed);
  EXPECT_EQ(rig.unit.held_bytes(), 0u);
  EXPECT_EQ(rig.unit.counters().most_bytes, 200u);
}

TEST(TrpUnit, PaceHalvesTheRateThatAFlowCameWith) {
  Rig rig(settings(TrpMode::pace));
  rig.unit.on_cnp(0, kFlow);
  // 1000 bytes a microsecond come, for 40 of them.
  for (TrpPacket p = 1; p <= 40; ++p) {
    if (rig.data(p, kFlow, 1000) == TrpVerdict::pass) rig.gone.emplace_back(p, rig.now);
    rig.run_to(rig.now + kUs);
  }
  rig.run_to(200 * kUs);
  ASSERT_THAT(rig.gone, SizeIs(40));
  for (std::size_t i = 0; i < 40; ++i) EXPECT_EQ(rig.gone[i].first, i + 1);
  // The first nine measure; then one every two microseconds.
  for (std::size_t i = 11; i < 40; ++i) EXPECT_EQ(rig.gone[i].second - rig.gone[i - 1].second, 2 * kUs) << i;
}

// 1000 bytes a microsecond come for 60 of them, three CNPs in the 20th, and none before the end: 2 and, from then on, 3
// loops. When each packet went on.
std::vector<std::pair<TrpPacket, TimeNs>> paced(TrpSettings s) {
  s.rules = {.rule = TrpRule::text, .alpha = 1, .beta_ns = 60 * kUs};
  Rig rig(s);
  rig.unit.on_cnp(0, kFlow);
  for (TrpPacket p = 1; p <= 60; ++p) {
    if (rig.data(p, kFlow, 1000) == TrpVerdict::pass) rig.gone.emplace_back(p, rig.now);
    rig.run_to(rig.now + kUs);
    for (int i = 0; p == 20 && i < 2; ++i) rig.unit.on_cnp(rig.now, kFlow);
  }
  rig.run_to(1000 * kUs);
  EXPECT_THAT(rig.gone, SizeIs(60));
  for (std::size_t i = 0; i < rig.gone.size(); ++i) EXPECT_EQ(rig.gone[i].first, i + 1);
  return rig.gone;
}

// Packet 20 came before the CNPs: it leaves by the rate of its time, as all before it.
TEST(TrpUnit, APacedPacketKeepsTheRateOfItsArrival) {
  const auto gone = paced(settings(TrpMode::pace));
  for (std::size_t i = 11; i < 20; ++i) EXPECT_EQ(gone[i].second - gone[i - 1].second, 2 * kUs) << i;
  for (std::size_t i = 21; i < 60; ++i) EXPECT_EQ(gone[i].second - gone[i - 1].second, 3 * kUs) << i;
}

// At departure what waits is slower at once, and faster when there were no CNPs for beta.
TEST(TrpUnit, AtDepartureARateHoldsForWhatWaits) {
  TrpSettings s = settings(TrpMode::pace);
  s.at_departure = true;
  const auto gone = paced(s);
  for (std::size_t i = 11; i < 60; ++i) {
    const TimeNs before = gone[i - 1].second;
    const TimeNs gap = before < 20 * kUs ? 2 * kUs : before <= 80 * kUs ? 3 * kUs : kUs;
    EXPECT_EQ(gone[i].second - before, gap) << i;
  }
  EXPECT_GT(gone.back().second, 90 * kUs) << "there was something left to get faster";
}

TEST(TrpUnit, HalvesHalveWithEachLoop) {
  TrpSettings s = settings(TrpMode::pace);
  s.halves = true;
  const auto gone = paced(s);
  for (std::size_t i = 11; i < 20; ++i) EXPECT_EQ(gone[i].second - gone[i - 1].second, 2 * kUs) << i;
  for (std::size_t i = 21; i < 60; ++i) EXPECT_EQ(gone[i].second - gone[i - 1].second, 4 * kUs) << i;
}

// However many CNPs come, the limit holds.
TEST(TrpUnit, PaceHoldsNothingLongerThanTheLimitWhateverItsLaw) {
  for (const bool at_departure : {false, true}) {
    TrpSettings s = settings(TrpMode::pace);
    s.rules.rule = TrpRule::algorithm1;
    s.halves = true;
    s.at_departure = at_departure;
    s.max_hold_ns = 20 * kUs;
    s.max_packets = 1000;
    Rig rig(s);
    for (int i = 0; i < 200; ++i) rig.unit.on_cnp(0, kFlow);
    for (TrpPacket p = 1; p <= 200; ++p) {
      static_cast<void>(rig.data(p, kFlow, 1000));
      rig.run_to(rig.now + kUs);
    }
    rig.run_to(1000 * kUs);
    EXPECT_EQ(rig.unit.held(), 0u);
    EXPECT_LE(rig.unit.counters().longest_hold_ns, 20 * kUs);
    EXPECT_GE(rig.unit.counters().longest_hold_ns, 18 * kUs);
    for (std::size_t i = 1; i < rig.gone.size(); ++i) EXPECT_EQ(rig.gone[i].first, rig.gone[i - 1].first + 1);
  }
}

TEST(TrpUnit, PaceHoldsNothingLongerThanTheLimit) {
  TrpSettings s = settings(TrpMode::pace);
  s.max_hold_ns = 20 * kUs;
  s.max_packets = 1000;
  Rig rig(s);
  for (int i = 0; i < 200; ++i) rig.unit.on_cnp(0, kFlow);
  for (TrpPacket p = 1; p <= 200; ++p) {
    static_cast<void>(rig.data(p, kFlow, 1000));
    rig.run_to(rig.now + kUs);
  }
  rig.run_to(1000 * kUs);
  EXPECT_EQ(rig.unit.held(), 0u);
  EXPECT_LE(rig.unit.counters().longest_hold_ns, 20 * kUs);
  EXPECT_GE(rig.unit.counters().longest_hold_ns, 18 * kUs);
}

TEST(TrpUnit, EverythingGoesOnWhenAllIsReleased) {
  for (const TrpSettings& of_mode : modes()) {
    TrpSettings s = of_mode;
    s.measure_packets = 1;
    s.measure_ns = 0;
    Rig rig(s);
    rig.unit.on_cnp(0, kFlow);
    std::size_t passed = 0;
    for (TrpPacket p = 1; p <= 20; ++p) {
      rig.now += 100;
      passed += rig.data(p) == TrpVerdict::pass ? 1 : 0;
    }
    EXPECT_GT(rig.unit.held(), 0u);
    rig.unit.release_all(rig);
    EXPECT_EQ(rig.gone.size() + passed, 20u);
    EXPECT_EQ(rig.unit.held(), 0u);
    EXPECT_EQ(rig.unit.next_deadline(), kNever);
    EXPECT_FALSE(rig.unit.busy());
    EXPECT_EQ(rig.data(21), TrpVerdict::pass);
  }
}

TEST(TrpUnit, SomeOfWhatIsHeldCanBeTakenOut) {
  for (const TrpSettings& of_mode : modes()) {
    TrpSettings s = of_mode;
    s.measure_packets = 1;
    s.measure_ns = 0;
    Rig rig(s);
    rig.unit.on_cnp(0, kFlow);
    std::vector<TrpPacket> held;
    for (TrpPacket p = 1; p <= 12; ++p) {
      rig.now += 1;
      if (rig.data(p) == TrpVerdict::held) held.push_back(p);
    }
    std::vector<TrpPacket> taken;
    rig.unit.remove_if([](TrpPacket p) { return p % 2 == 0; }, [&](TrpPacket p) { taken.push_back(p); });
    rig.run_to(1000 * kUs);
    EXPECT_EQ(rig.gone.size() + taken.size(), held.size());
    for (std::size_t i = 1; i < rig.gone.size(); ++i) EXPECT_LT(rig.gone[i - 1].first, rig.gone[i].first);
    for (const auto& [packet, at] : rig.gone) EXPECT_EQ(packet % 2, 1u);
    EXPECT_EQ(rig.unit.next_deadline(), kNever);
  }
}

}  // namespace
}  // namespace weft::stages
