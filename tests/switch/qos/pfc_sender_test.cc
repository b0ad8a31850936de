// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/qos/pfc_sender.h"

#include <gtest/gtest.h>

#include "switch/base/rng.h"

namespace weft::qos {
namespace {

PortSettings lossless() {
  PortSettings s;
  s.map = ClassMap::defaults();
  s.pfc_enable = 0b00011000;
  s.group[3].headroom_bytes = s.group[4].headroom_bytes = 1000;
  s.speed_mbps = 100'000;
  return s;
}

TEST(PfcSender, AFullGroupIsPausedOnceAndSetFreeOnceItHasDrained) {
  PfcSender s(lossless());
  EXPECT_FALSE(s.due(0, 0, 0xff));
  ASSERT_TRUE(s.due(0, 0b1000, 0));
  PauseFrame f = s.take(0, 0b1000, 0);
  EXPECT_TRUE(f.pfc);
  EXPECT_EQ(f.class_enable, 0b1000);
  EXPECT_EQ(f.quanta[3], 0xffff);
  EXPECT_FALSE(s.due(1000, 0b1000, 0));
  // Between the two thresholds nothing changes.
  EXPECT_FALSE(s.due(1000, 0, 0));
  ASSERT_TRUE(s.due(2000, 0, 0b1000));
  f = s.take(2000, 0, 0b1000);
  EXPECT_EQ(f.class_enable, 0b1000);
  EXPECT_EQ(f.quanta[3], 0);
  EXPECT_FALSE(s.due(3000, 0, 0xff));
  EXPECT_EQ(s.refresh_at(), kNever);
  EXPECT_EQ(s.counters().xoff[3].value(), 1u);
  EXPECT_EQ(s.counters().xon[3].value(), 1u);
  EXPECT_EQ(s.counters().paused_ns[3].value(), 2000u);
}

TEST(PfcSender, APauseIsSentAgainAfterHalfItsTime) {
  PfcSender s(lossless());
  (void)s.take(0, 0b1000, 0);
  // 65535 quanta of 512 bits at 100 Gbit/s are 335.5 us.
  EXPECT_NEAR(static_cast<double>(s.refresh_at()), 335'539 / 2.0, 2);
  EXPECT_FALSE(s.due(s.refresh_at() - 1, 0, 0));
  ASSERT_TRUE(s.due(s.refresh_at(), 0, 0));
  const PauseFrame f = s.take(s.refresh_at(), 0, 0);
  EXPECT_EQ(f.quanta[3], 0xffff);
  EXPECT_EQ(s.counters().xoff[3].value(), 1u);
  EXPECT_EQ(s.counters().frames.value(), 2u);
}

TEST(PfcSender, ClassesWithoutPfcAreNeverPaused) {
  PfcSender s(lossless());
  EXPECT_FALSE(s.due(0, 0b11100111, 0));
  EXPECT_FALSE(PfcSender().due(0, 0xff, 0));
}

TEST(PfcSender, With8023xAnyLosslessGroupPausesTheLinkAndAllSetItFree) {
  PortSettings settings = lossless();
  settings.pfc_enable = 0;
  settings.flow_control = true;
  PfcSender s(settings);
  EXPECT_EQ(s.priorities(), 0b00011000);
  ASSERT_TRUE(s.due(0, 0b10000, 0b01000));
  const PauseFrame f = s.take(0, 0b10000, 0b01000);
  EXPECT_FALSE(f.pfc);
  EXPECT_EQ(f.quanta[0], 0xffff);
  EXPECT_FALSE(s.due(10, 0, 0b01000));
  ASSERT_TRUE(s.due(10, 0, 0b11000));
  EXPECT_EQ(s.take(10, 0, 0b11000).quanta[0], 0);
}

TEST(PfcSender, PropertyEveryXoffIsFollowedByAnXonOnceGroupsDrain) {
  for (const std::uint64_t seed : {1u, 2u, 3u, 4u}) {
    SCOPED_TRACE(seed);
    Rng rng(seed);
    PfcSender s(lossless());
    TimeNs now = 0;
    const auto step = [&](std::uint8_t xoff, std::uint8_t xon) {
      if (s.due(now, xoff, xon)) (void)s.take(now, xoff, xon);
      now += rng.below(400'000);
    };
    for (int i = 0; i < 10'000; ++i) {
      const auto xoff = static_cast<std::uint8_t>(rng.next());
      step(xoff, static_cast<std::uint8_t>(rng.next() & ~xoff));
    }
    step(0, 0xff);
    EXPECT_EQ(s.paused(), 0);
    for (unsigned i = 0; i < kClasses; ++i) {
      EXPECT_EQ(s.counters().xoff[i].value(), s.counters().xon[i].value());
    }
  }
}

}  // namespace
}  // namespace weft::qos
