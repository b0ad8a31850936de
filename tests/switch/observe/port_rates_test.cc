// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/observe/port_rates.h"

#include <gtest/gtest.h>

namespace weft {
namespace {

TEST(PortRates, AreDifferencesOfTwoSamplesPerSecond) {
  PortRates rates;
  EXPECT_EQ(rates.of({1, 0}), std::nullopt);
  rates.sample(1'000'000'000, {{{1, 0}, {100, 10'000, 7, 700}}});
  EXPECT_EQ(rates.of({1, 0}), std::nullopt);
  rates.sample(3'000'000'000, {{{1, 0}, {300, 2'510'000, 7, 700}}});
  const auto rate = rates.of({1, 0});
  ASSERT_TRUE(rate);
  EXPECT_DOUBLE_EQ(rate->rx_pps, 100);
  EXPECT_DOUBLE_EQ(rate->rx_mbps, 10);
  EXPECT_DOUBLE_EQ(rate->tx_pps, 0);
  EXPECT_DOUBLE_EQ(rate->tx_mbps, 0);
  EXPECT_EQ(rates.of({1, 1}), std::nullopt);
  EXPECT_EQ(rates.of({2, 0}), std::nullopt);
}

TEST(PortRates, APortThatIsNewOrGoneHasNone) {
  PortRates rates;
  rates.sample(1, {{{1, 0}, {}}});
  rates.sample(2, {{{2, 0}, {}}});
  EXPECT_EQ(rates.of({1, 0}), std::nullopt);
  EXPECT_EQ(rates.of({2, 0}), std::nullopt);
}

}  // namespace
}  // namespace weft
