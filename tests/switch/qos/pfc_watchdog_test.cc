// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/qos/pfc_watchdog.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "switch/base/time.h"
#include "switch/wire/emit.h"

namespace weft::qos {
namespace {

struct Port {
  explicit Port(const WatchdogSettings& w = {.detection_ns = 200 * kMs, .restoration_ns = 100 * kMs}) : watchdog(w) {
    settings.pfc_enable = 0b00011000;
    settings.speed_mbps = 100'000;
    receiver = std::make_unique<PfcReceiver>(settings);
  }
  void pause(TimeNs now, std::uint8_t classes, std::uint16_t quanta = 0xffff) {
    std::vector<std::uint8_t> f(60);
    std::array<std::uint16_t, 8> all{};
    all.fill(quanta);
    wire::write_pfc(f, {}, classes, all);
    receiver->on_frame(now, f);
  }
  std::uint8_t step(TimeNs now, std::uint8_t waiting) {
    (void)receiver->paused(now);
    return watchdog.step(now, *receiver, waiting);
  }
  PortSettings settings;
  std::unique_ptr<PfcReceiver> receiver;
  PfcWatchdog watchdog;
};

TEST(PfcWatchdog, APauseThatIsRenewedForTheDetectionTimeIsAStormUntilNoneComesForTheRestorationTime) {
  Port p;
  TimeNs now = 0;
  for (; now < 200 * kMs; now += kMs / 10) {
    p.pause(now, 0b1000);
    ASSERT_EQ(p.step(now, 0b1000), 0) << now;
  }
  p.pause(now, 0b1000);
  EXPECT_EQ(p.step(now, 0b1000), 0b1000);
  EXPECT_EQ(p.watchdog.counters().detected[3].value(), 1u);
  const TimeNs last = now;
  EXPECT_EQ(p.step(last + 100 * kMs - 1, 0), 0b1000);
  EXPECT_EQ(p.watchdog.deadline(*p.receiver, 0), last + 100 * kMs);
  EXPECT_EQ(p.step(last + 100 * kMs, 0), 0);
  EXPECT_EQ(p.watchdog.counters().restored[3].value(), 1u);
}

TEST(PfcWatchdog, APauseWithNothingWaitingIsNoStorm) {
  Port p;
  for (TimeNs now = 0; now < 1000 * kMs; now += kMs / 10) {
    p.pause(now, 0b1000);
    ASSERT_EQ(p.step(now, 0b10000), 0);
  }
}

TEST(PfcWatchdog, TimeCountsFromWhenPacketsBeganToWait) {
  Port p;
  for (TimeNs now = 0; now <= 400 * kMs; now += kMs / 10) {
    p.pause(now, 0b1000);
    ASSERT_EQ(p.step(now, now < 300 * kMs ? 0 : 0b1000), 0);
  }
}

TEST(PfcWatchdog, APauseThatEndsInTimeStartsAnew) {
  Port p;
  for (TimeNs now = 0; now < 1000 * kMs; now += kMs / 10) {
    p.pause(now, 0b1000, now % (150 * kMs) == 0 ? 0 : 0xffff);
    ASSERT_EQ(p.step(now, 0b1000), 0);
  }
}

TEST(PfcWatchdog, AHostThatOnlyCallsAtDeadlinesSeesTheStormInTime) {
  Port p;
  p.pause(0, 0b1000);
  (void)p.step(0, 0b1000);
  EXPECT_EQ(p.watchdog.deadline(*p.receiver, 0b1000), 200 * kMs);
  EXPECT_EQ(p.watchdog.deadline(*p.receiver, 0b11000), 200 * kMs);
}

TEST(PfcWatchdog, SwitchedOffItSeesNothing) {
  Port p(WatchdogSettings{.enabled = false});
  for (TimeNs now = 0; now < 1000 * kMs; now += kMs / 10) {
    p.pause(now, 0b1000);
    ASSERT_EQ(p.step(now, 0b1000), 0);
  }
  EXPECT_EQ(p.watchdog.deadline(*p.receiver, 0b1000), kNever);
}

}  // namespace
}  // namespace weft::qos
