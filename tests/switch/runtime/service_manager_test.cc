// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/runtime/service_manager.h"

#include <gtest/gtest.h>

namespace weft {
namespace {

TEST(WorkerWatch, TheFirstLookFindsNothing) {
  WorkerWatch watch;
  EXPECT_EQ(watch.look({0, 0}), std::nullopt);
}

TEST(WorkerWatch, FindsTheFirstWorkerThatStoodStillBetweenTwoLooks) {
  WorkerWatch watch;
  EXPECT_EQ(watch.look({5, 5, 5}), std::nullopt);
  EXPECT_EQ(watch.look({6, 5, 5}), 1u);
  EXPECT_EQ(watch.look({7, 6, 5}), 2u);
  EXPECT_EQ(watch.look({8, 7, 6}), std::nullopt);
}

TEST(StatusText, SaysPortsAndRatesSinceTheLastStatus) {
  const Health before{.worker_loops = {}, .ports = 4, .ports_up = 4, .rx_packets = 1000, .dropped = 10};
  const Health now{.worker_loops = {}, .ports = 4, .ports_up = 3, .rx_packets = 6'251'000, .dropped = 20};
  EXPECT_EQ(status_text(before, now, 5'000'000'000), "3 of 4 ports up, 1.25 Mpps received, 2 pps dropped");
  EXPECT_EQ(status_text(before, before, 0), "4 of 4 ports up, 0 pps received, 0 pps dropped");
}

}  // namespace
}  // namespace weft
