// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/observe/metrics_endpoint.h"

#include <gtest/gtest.h>

#include <chrono>

namespace weft {
namespace {

TEST(MetricsEndpoint, EndsAtOnceAndCanBeginAgain) {
  const auto begin = std::chrono::steady_clock::now();
  MetricsEndpoint endpoint;
  for (const char* address : {"127.0.0.1", "0.0.0.0", "127.0.0.1", "0.0.0.0"}) {
    ASSERT_EQ(endpoint.start(address, 0, [] { return std::vector<prometheus::MetricFamily>{}; }), "");
    EXPECT_NE(endpoint.url(), "");
    endpoint.stop();
    EXPECT_EQ(endpoint.url(), "");
  }
  // The library alone takes up to two seconds each time.
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(1500));
}

TEST(MetricsEndpoint, AnAddressThatIsNotOursIsAnError) {
  MetricsEndpoint endpoint;
  EXPECT_NE(endpoint.start("192.0.2.1", 0, [] { return std::vector<prometheus::MetricFamily>{}; }), "");
  EXPECT_EQ(endpoint.url(), "");
}

}  // namespace
}  // namespace weft
