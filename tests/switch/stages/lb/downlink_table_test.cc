// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/stages/lb/downlink_table.h"

#include <gtest/gtest.h>

namespace weft::stages {
namespace {

TEST(DownlinkTable, WhatIsToldCountsFromTheNextScanOn) {
  DownlinkTable table({}, 2, 3);
  EXPECT_EQ(table.bytes(1, 2, 0), 0u);
  EXPECT_EQ(table.age(1, 2, 0), kNever);
  EXPECT_TRUE(table.on_told(1, 2, 25'600, 7'000));
  EXPECT_EQ(table.bytes(1, 2, 9'999), 0u);
  EXPECT_EQ(table.bytes(1, 2, 10'000), 25'600u);
  EXPECT_TRUE(table.on_told(1, 2, 512, 11'000));
  EXPECT_TRUE(table.on_told(1, 2, 1, 12'000));
  EXPECT_EQ(table.bytes(1, 2, 14'999), 25'600u);
  EXPECT_EQ(table.bytes(1, 2, 15'000), 256u) << "the newest, in units of 256, rounded up";
  EXPECT_EQ(table.bytes(0, 2, 15'000), 0u) << "another leaf";
  EXPECT_EQ(table.bytes(1, 1, 15'000), 0u) << "another path";
  EXPECT_EQ(table.age(1, 2, 21'000), 10'000u);
}

TEST(DownlinkTable, AScanSaysTheSameForAllTimesInIt) {
  DownlinkTable table({.scan_ns = 5'000, .age_ns = 20'000}, 1, 2);
  table.on_told(0, 1, 2560, 7'000);
  table.on_told(0, 1, 512, 12'000);
  for (TimeNs now = 12'000; now < 60'000; now += 500) {
    EXPECT_EQ(table.bytes_in(0, 1, table.scan_at(now)), table.bytes(0, 1, now)) << now;
    EXPECT_EQ(table.scan_at(now), table.scan_at(now / 5'000 * 5'000 + 4'999)) << now;
  }
  EXPECT_EQ(table.bytes_in(0, 1, table.scan_at(15'000)), 512u);
  EXPECT_EQ(table.bytes_in(0, 2, table.scan_at(15'000)), 0u) << "no such path";
}

TEST(DownlinkTable, WithoutScansItCountsAtOnce) {
  DownlinkTable table({.scan_ns = 0}, 1, 1);
  table.on_told(0, 0, 100'000'000, 3);
  EXPECT_EQ(table.bytes(0, 0, 3), 0xffffu * 256) << "as long as can be told";
  table.on_told(0, 0, 0, 4);
  EXPECT_EQ(table.bytes(0, 0, 4), 0u);
}

TEST(DownlinkTable, OldValuesCountForEverUnlessTheyAge) {
  DownlinkTable keeps({}, 1, 1);
  keeps.on_told(0, 0, 256, 0);
  EXPECT_EQ(keeps.bytes(0, 0, kSecond), 256u);
  DownlinkTable ages({.scan_ns = 5'000, .age_ns = 20'000}, 1, 1);
  ages.on_told(0, 0, 256, 0);
  EXPECT_EQ(ages.bytes(0, 0, 24'999), 256u);
  EXPECT_EQ(ages.bytes(0, 0, 25'000), 0u);
}

TEST(DownlinkTable, PathsAndLeavesThatAreNotThereAreRefused) {
  DownlinkTable table({}, 2, 3);
  EXPECT_FALSE(table.on_told(2, 0, 1, 0));
  EXPECT_FALSE(table.on_told(0, 3, 1, 0));
  EXPECT_FALSE(table.on_told(0xffff, 0xffff, 1, 0));
  EXPECT_EQ(table.bytes(2, 0, 0), 0u);
  EXPECT_FALSE(DownlinkTable({}, 0, 0).on_told(0, 0, 1, 0));
}

TEST(DownlinkTable, ATableOfTheSameSizeTakesOver) {
  DownlinkTable old({}, 1, 2), same({}, 1, 2), other({}, 2, 1);
  old.on_told(0, 1, 256, 0);
  same.adopt(old);
  other.adopt(old);
  EXPECT_EQ(same.bytes(0, 1, 5'000), 256u);
  EXPECT_EQ(other.bytes(1, 0, 5'000), 0u);
}

}  // namespace
}  // namespace weft::stages
