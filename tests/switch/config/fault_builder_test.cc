// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include <gtest/gtest.h>

#include "tests/support/config_mistakes.h"

namespace weft::config {
namespace {

using testing::expect_accepted;
using testing::expect_mistakes;

std::string with(const std::string& faults) {
  return "switches:\n  - name: s1\n    ports: [ { name: p1, type: null }, { name: p2, type: null } ]\n    faults: " +
         faults + "\n    pipeline: [parse, l2]\n";
}

TEST(FaultBuilder, ASwitchHasNoFaultsUnlessItSaysSo) {
  EXPECT_TRUE(expect_accepted(with("[]")).switches.at(0).faults.empty());
}

TEST(FaultBuilder, FaultsAreReadInTheOrderOfTheirTimes) {
  const auto faults = expect_accepted(with("[ { at_s: 2, port: p2, link: up }, { at_s: 0.5, port: p2, link: down }, "
                                           "{ at_s: 2, port: p1, rate_mbps: 0, delay_ns: 7 } ]"))
                          .switches.at(0)
                          .faults;
  ASSERT_EQ(faults.size(), 3u);
  EXPECT_EQ(faults[0].at_ns, 500'000'000u);
  EXPECT_EQ(faults[0].port, 1u);
  EXPECT_EQ(faults[0].change.link_up, false);
  EXPECT_EQ(faults[0].change.rate_mbps, std::nullopt);
  EXPECT_EQ(faults[1].change.link_up, true);
  EXPECT_EQ(faults[2].port, 0u);
  EXPECT_EQ(faults[2].change.link_up, std::nullopt);
  EXPECT_EQ(faults[2].change.rate_mbps, 0u);
  EXPECT_EQ(faults[2].change.delay_ns, 7u);
}

TEST(FaultBuilder, MistakesAreNamedWhereTheyStand) {
  expect_mistakes(with("[ @{ at_s: 1, port: p1 } ]"),
                  {"faults: nothing changes; expected link, rate_mbps or delay_ns"});
  expect_mistakes(with("[ { at_s: 1, port: @p3, link: up } ]"), {"port: unknown port 'p3'; did you mean 'p1'?"});
  expect_mistakes(with("[ { at_s: 1, port: p1, link: @sideways } ]"),
                  {"link: expected one of up, down, found 'sideways'"});
}

}  // namespace
}  // namespace weft::config
