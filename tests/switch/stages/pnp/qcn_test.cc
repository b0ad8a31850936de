// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/stages/pnp/qcn.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace weft::stages {
namespace {

// Qeq 1000, w 2: congestion of 5000 and more is 63.
constexpr QcnSettings kSmall{.equilibrium_bytes = 1000, .weight = 2, .sample_bytes = 10'000};

/// Packets of 100 bytes until the next sample, its feedback.
struct Sample {
  unsigned packets = 0, feedback = 0;
};
Sample next(QcnSampler& sampler, std::uint64_t queue, Rng& rng) {
  const std::uint64_t before = sampler.samples();
  Sample sample;
  while (sampler.samples() == before) {
    ++sample.packets;
    sample.feedback = sampler.on_packet(100, queue, rng);
  }
  return sample;
}

TEST(Qcn, FeedbackIsHowLongTheQueueIsAndHowItGrows) {
  Rng rng(1);
  QcnSampler sampler(kSmall);
  EXPECT_EQ(next(sampler, 1000, rng).feedback, 25u) << "0 over and 1000 more: 2000 * 63 / 5000";
  EXPECT_EQ(next(sampler, 1000, rng).feedback, 0u) << "as it should be, and not growing";
  EXPECT_EQ(next(sampler, 800, rng).feedback, 0u);
  EXPECT_EQ(next(sampler, 950, rng).feedback, 3u) << "below, and growing: 250 * 63 / 5000";
  EXPECT_EQ(next(sampler, 3000, rng).feedback, 63u) << "no more than that";
  EXPECT_EQ(next(sampler, 2100, rng).feedback, 0u) << "1100 over, and 900 less";
}

TEST(Qcn, CongestedQueuesAreSampledUpToEightTimesAsOften) {
  Rng rng(1);
  QcnSampler sampler(kSmall);
  static_cast<void>(next(sampler, 0, rng));
  double calm = 0, busy = 0;
  unsigned least = 1000, most = 0;
  for (int i = 0; i < 2000; ++i) {
    const unsigned packets = next(sampler, 500, rng).packets;
    if (i == 0) continue;  // the queue has grown
    calm += packets;
    least = std::min(least, packets);
    most = std::max(most, packets);
  }
  EXPECT_GE(least, 85u);
  EXPECT_LE(most, 116u);
  EXPECT_GT(most - least, 25u) << "by chance";
  static_cast<void>(next(sampler, 100'000, rng));
  for (int i = 0; i < 2000; ++i) busy += next(sampler, 100'000, rng).packets;
  EXPECT_NEAR(calm / 1999, 100, 2);
  EXPECT_NEAR(busy / 2000, 12.5, 1);
}

}  // namespace
}  // namespace weft::stages
