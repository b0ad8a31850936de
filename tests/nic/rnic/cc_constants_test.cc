// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "nic/rnic/cc_constants.h"

#include <gtest/gtest.h>

#include <limits>
#include <map>

namespace weft::nic {
namespace {

QpConfig config_of(CongestionControl kind) {
  QpConfig c;
  c.congestion_control = kind;
  c.line_bps = 100'000'000'000;
  return c;
}

TEST(CcConstants, EachSetsSomethingOfItsOwnKindAlone) {
  for (const CcConstant& c : cc_constants()) {
    SCOPED_TRACE(std::string(name(c.kind)) + " " + std::string(c.name));
    QpConfig changed = config_of(c.kind);
    const QpConfig before = changed;
    ASSERT_EQ(set_cc_constant(changed, c.name, c.high), "");
    EXPECT_EQ(changed.dcqcn == before.dcqcn, c.kind != CongestionControl::dcqcn);
    EXPECT_EQ(changed.timely == before.timely, c.kind != CongestionControl::timely);
    EXPECT_EQ(changed.swift == before.swift, c.kind != CongestionControl::swift);
    EXPECT_EQ(changed.hpcc == before.hpcc, c.kind != CongestionControl::hpcc);
    EXPECT_EQ(set_cc_constant(changed, c.name, c.low), "");
    for (const double bad : {c.low - 1, c.high * 1.01 + 1, std::numeric_limits<double>::quiet_NaN()}) {
      EXPECT_NE(set_cc_constant(changed, c.name, bad), "") << bad;
    }
    if (c.whole) {
      EXPECT_NE(set_cc_constant(changed, c.name, 1.5), "");
    }
  }
}

TEST(CcConstants, ANameHasTheSameRangeInAllKinds) {
  std::map<std::string_view, const CcConstant*> known;
  for (const CcConstant& c : cc_constants()) {
    const auto [at, added] = known.emplace(c.name, &c);
    if (added) continue;
    EXPECT_NE(at->second->kind, c.kind) << c.name << " stands twice";
    EXPECT_EQ(at->second->low, c.low) << c.name;
    EXPECT_EQ(at->second->high, c.high) << c.name;
    EXPECT_EQ(at->second->whole, c.whole) << c.name;
  }
}

TEST(CcConstants, SayWhatIsWrong) {
  QpConfig timely = config_of(CongestionControl::timely);
  EXPECT_EQ(set_cc_constant(timely, "t_i_us", 5), "t_i_us: a constant of dcqcn, not of timely");
  EXPECT_EQ(set_cc_constant(timely, "t_low", 5), "t_low: no kind of congestion control has such a constant");
  EXPECT_EQ(set_cc_constant(timely, "beta", 2), "beta: expected a number from 0.001 to 1, found 2");
  EXPECT_EQ(set_cc_constant(timely, "hai_events", 2.5),
            "hai_events: expected a whole number from 1 to 1000, found 2.5");
  QpConfig none = config_of(CongestionControl::none);
  EXPECT_EQ(set_cc_constant(none, "beta", 0.5), "beta: a constant of timely, swift, not of none");
  EXPECT_EQ(cc_mistake(timely), "");
  ASSERT_EQ(set_cc_constant(timely, "t_high_us", 50), "");
  EXPECT_EQ(cc_mistake(timely), "") << "both at 50 us: there is nothing between them";
  ASSERT_EQ(set_cc_constant(timely, "t_high_us", 49.9), "");
  EXPECT_EQ(cc_mistake(timely), "t_high_us: expected at least t_low_us (50), found 49.9");
}

TEST(CcConstants, RefuseWhatCouldNotWork) {
  QpConfig timely = config_of(CongestionControl::timely);
  timely.line_bps = 100'000'000;
  EXPECT_EQ(cc_mistake(timely),
            "min_mbps: expected less than the line's 100 Mbit/s, found 100: the rate could not fall");
  timely.line_bps = 0;
  EXPECT_EQ(cc_mistake(timely), "") << "not paced";
  QpConfig hpcc = config_of(CongestionControl::hpcc);
  EXPECT_EQ(cc_mistake(hpcc), "");
  hpcc.line_bps = 50'000'000;
  EXPECT_EQ(cc_mistake(hpcc), "min_mbps: expected less than the line's 50 Mbit/s, found 100: the rate could not fall");
  QpConfig swift = config_of(CongestionControl::swift);
  EXPECT_EQ(cc_mistake(swift), "");
  ASSERT_EQ(set_cc_constant(swift, "fs_max_cwnd", 0.1), "");
  EXPECT_EQ(cc_mistake(swift), "fs_max_cwnd: expected more than fs_min_cwnd (0.1), found 0.1");
  QpConfig dcqcn = config_of(CongestionControl::dcqcn);
  EXPECT_EQ(cc_mistake(dcqcn), "");
}

}  // namespace
}  // namespace weft::nic
