// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/qos/defaults.h"

#include <gtest/gtest.h>

#include "switch/qos/shared_buffer.h"

namespace weft::qos {
namespace {

TEST(Defaults, MarksAreThoseOfTheSimulators) {
  // Thresholds of HPCC's configurations: 100/400 kB at 25 Gbit/s, 400/1600 kB at 100 Gbit/s.
  EXPECT_EQ(default_wred(25'000).mark, (CurveSettings{100'000, 400'000, 0.2}));
  EXPECT_EQ(default_wred(100'000).mark, (CurveSettings{400'000, 1'600'000, 0.2}));
}

TEST(Defaults, HeadroomCoversTheRoundTripAndABurst) {
  // 100 Gbit/s for 2 us, and 66 frames of 1518 bytes.
  EXPECT_EQ(default_headroom({100'000, 1000, 1500}), 25'000u + 66 * 1518);
}

TEST(Defaults, HeadroomCoversWhatHasGatheredWhileNobodyLooked) {
  // 10 Gbit/s for 250 us are 312,500 bytes; three workers have a burst each.
  const PortFacts facts{.speed_mbps = 10'000, .mtu_bytes = 1500, .workers = 3, .away_ns = 250'000};
  EXPECT_EQ(default_headroom(facts), 312'500u + (2 + 3 * 64) * 1518);
  // A device with 100 descriptors keeps no more than that.
  PortFacts few = facts;
  few.rx_packets = 100;
  EXPECT_EQ(default_headroom(few), 100 * 1518u + (2 + 3 * 64) * 1518);
}

TEST(Defaults, HeadroomSaysWhatItIsMadeOf) {
  // 2000 km at 100 Gbit/s: 250 MB travel both ways.
  const PortFacts far{.delay_ns = 10'000'000, .mtu_bytes = 1500, .workers = 2, .away_ns = 1000};
  const HeadroomParts parts = headroom_parts(far);
  EXPECT_EQ(parts.on_the_link, 250'000'000u);
  EXPECT_EQ(parts.frames, 2 * 1518u);
  EXPECT_EQ(parts.bursts, 128 * 1518u);
  EXPECT_EQ(parts.kept, 12'500u);
  EXPECT_EQ(parts.sum(), default_headroom(far));
}

TEST(Defaults, LosslessClassesHaveHeadroomPfcAndMarksAndOthersHaveNone) {
  const PortSettings p = default_port({});
  for (unsigned i = 0; i < kClasses; ++i) {
    const bool lossless = i == 3 || i == 4;
    EXPECT_EQ((p.pfc_enable >> i & 1) != 0, lossless);
    EXPECT_EQ(p.group[i].headroom_bytes != 0, lossless);
    EXPECT_EQ(p.wred[i].has_value(), lossless);
    EXPECT_EQ(p.scheduler[i].type == SchedulerSettings::Type::strict, i >= 6);
  }
}

TEST(Defaults, ThePoolHoldsAllReservesAndHeadroomsBesidesWhatIsShared) {
  Settings s;
  s.ports.assign(5, default_port({}));
  s.pool_bytes = default_pool_bytes(s);
  EXPECT_EQ(SharedBuffer(s, false).shared_size(), kDefaultSharedBytes);
}

}  // namespace
}  // namespace weft::qos
