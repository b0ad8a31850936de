// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/qos/pfc_receiver.h"

#include <gtest/gtest.h>

#include <vector>

#include "switch/base/rng.h"
#include "switch/qos/pfc_sender.h"
#include "switch/wire/emit.h"
#include "switch/wire/headers.h"

namespace weft::qos {
namespace {

using Frame = std::vector<std::uint8_t>;

PortSettings lossless(std::uint64_t speed_mbps = 100'000) {
  PortSettings s;
  s.pfc_enable = 0b00011000;
  s.speed_mbps = speed_mbps;
  return s;
}

Frame pfc(std::uint8_t classes, std::uint16_t quanta) {
  Frame f(wire::kMinFrameBytes);
  std::array<std::uint16_t, 8> all{};
  all.fill(quanta);
  wire::write_pfc(f, wire::MacAddress::from_u64(0x020000000001), classes, all);
  return f;
}
Frame pause(std::uint16_t quanta) {
  Frame f(wire::kMinFrameBytes);
  wire::write_pause(f, wire::MacAddress::from_u64(0x020000000001), quanta);
  return f;
}

TEST(PfcReceiver, APauseLastsItsQuantaAtThePortsSpeed) {
  PfcReceiver r(lossless(10'000));
  r.on_frame(1000, pfc(0b1000, 100));
  EXPECT_EQ(r.paused(1000), 0b1000);
  // 100 quanta of 512 bits at 10 Gbit/s: 5120 ns.
  EXPECT_EQ(r.next_end(), 6120u);
  EXPECT_EQ(r.paused(6119), 0b1000);
  EXPECT_EQ(r.paused(6120), 0);
  EXPECT_EQ(r.next_end(), kNever);
  EXPECT_EQ(r.counters().paused_ns[3].value(), 5120u);
}

TEST(PfcReceiver, XonEndsAPauseAtOnceAndOnlyForItsClass) {
  PfcReceiver r(lossless());
  r.on_frame(0, pfc(0b11000, 0xffff));
  EXPECT_EQ(r.paused(10), 0b11000);
  r.on_frame(20, pfc(0b01000, 0));
  EXPECT_EQ(r.paused(20), 0b10000);
  EXPECT_EQ(r.counters().xon[3].value(), 1u);
}

TEST(PfcReceiver, ARenewedPauseHasNoGap) {
  PfcReceiver r(lossless());
  r.on_frame(100, pfc(0b1000, 0xffff));
  r.on_frame(200'000, pfc(0b1000, 0xffff));
  EXPECT_EQ(r.paused(400'000), 0b1000);
  EXPECT_EQ(r.paused_since(3), 100u);
  EXPECT_EQ(r.last_xoff(3), 200'000u);
}

TEST(PfcReceiver, ClassesThatThePortDoesNotHeedAreCountedAndIgnored) {
  PfcReceiver r(lossless());
  r.on_frame(0, pfc(0b11100111, 0xffff));
  EXPECT_EQ(r.paused(1), 0);
  EXPECT_EQ(r.counters().ignored.value(), 1u);
  r.on_frame(0, pfc(0xff, 0xffff));
  EXPECT_EQ(r.paused(1), 0b00011000);
  r.on_frame(0, pause(0xffff));
  EXPECT_EQ(r.counters().ignored.value(), 2u);
}

TEST(PfcReceiver, PauseStopsAllClassesWhereFlowControlIsOn) {
  PortSettings s;
  s.flow_control = true;
  PfcReceiver r(s);
  r.on_frame(0, pause(10));
  EXPECT_EQ(r.paused(1), 0xff);
  r.on_frame(2, pause(0));
  EXPECT_EQ(r.paused(2), 0);
  EXPECT_EQ(r.counters().pause.value(), 2u);
  r.on_frame(0, pfc(0b1000, 0xffff));
  EXPECT_EQ(r.counters().ignored.value(), 1u);
}

TEST(PfcReceiver, AnAbsurdlyLongPauseIsCutShortAndCounted) {
  PfcReceiver r(lossless(1));
  r.on_frame(0, pfc(0b1000, 0xffff));
  EXPECT_EQ(r.counters().clamped.value(), 1u);
  EXPECT_EQ(r.paused(PfcReceiver::kLongestPauseNs - 1), 0b1000);
  EXPECT_EQ(r.paused(PfcReceiver::kLongestPauseNs), 0);
}

TEST(PfcReceiver, MalformedFramesAreCountedAndDoNothing) {
  PfcReceiver r(lossless());
  const Frame good = pfc(0b1000, 0xffff);
  std::uint64_t frames = 0;
  for (std::size_t size = 0; size < 14 + 20; ++size) {
    r.on_frame(0, std::span(good).first(size));
    ++frames;
  }
  Frame to_other = good;
  to_other[5] = 0x02;
  Frame opcode = good;
  opcode[14] = 0x7f;
  for (const Frame& f : {to_other, opcode, pfc(0, 0xffff)}) {
    r.on_frame(0, f);
    ++frames;
  }
  EXPECT_EQ(r.counters().malformed.value(), frames);
  EXPECT_EQ(r.paused(1), 0);
}

TEST(PfcReceiver, PropertyWhateverComesInNothingIsPausedLongerThanTheBoundAfterTheLastFrame) {
  for (const std::uint64_t seed : {1u, 2u, 3u}) {
    SCOPED_TRACE(seed);
    Rng rng(seed);
    PortSettings s = lossless(1 + rng.below(100));
    PfcReceiver r(s);
    TimeNs now = 0;
    constexpr std::uint64_t kFrames = 20'000;
    for (std::uint64_t i = 0; i < kFrames; ++i) {
      Frame f = rng.below(2) == 0 ? pfc(static_cast<std::uint8_t>(rng.next()), static_cast<std::uint16_t>(rng.next()))
                                  : pause(static_cast<std::uint16_t>(rng.next()));
      if (rng.below(4) == 0) f[rng.below(f.size())] ^= static_cast<std::uint8_t>(1u << rng.below(8));
      if (rng.below(8) == 0) f.resize(rng.below(f.size()));
      r.on_frame(now, f);
      EXPECT_EQ(r.paused(now) & ~s.pfc_enable, 0);
      now += rng.below(1'000'000);
    }
    EXPECT_EQ(r.paused(now + PfcReceiver::kLongestPauseNs), 0);
    const auto& c = r.counters();
    EXPECT_EQ(c.pfc.value() + c.pause.value() + c.malformed.value() + c.ignored.value(), kFrames);
  }
}

}  // namespace
}  // namespace weft::qos
