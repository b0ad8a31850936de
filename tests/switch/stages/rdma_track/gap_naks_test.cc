// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/stages/rdma_track/gap_naks.h"

#include <gtest/gtest.h>

#include "switch/tables/qp_table.h"

namespace weft::stages {
namespace {

using wire::Psn;

// Directions of a small table that share a place: more than there is room for.
constexpr std::uint32_t kDirections = 4096, kApart = 16;

TEST(GapNaks, EachIsExpectedOnce) {
  GapNaks naks(kDirections);
  EXPECT_FALSE(naks.take(7, Psn(5)));
  naks.expect(7, Psn(5));
  naks.expect(7, Psn(9));
  EXPECT_FALSE(naks.take(7, Psn(6)));
  EXPECT_FALSE(naks.take(8, Psn(5))) << "another direction's";
  EXPECT_TRUE(naks.take(7, Psn(9))) << "answers may overtake each other, too";
  EXPECT_FALSE(naks.take(7, Psn(9)));
  EXPECT_TRUE(naks.take(7, Psn(5)));
  EXPECT_FALSE(naks.take(7, Psn(5)));
}

TEST(GapNaks, AnyPsnIsAsGoodAsAnother) {
  GapNaks naks(kDirections);
  for (const std::uint32_t psn : {0xffffffu, 0u, 0x800000u}) naks.expect(0, Psn(psn));
  for (const std::uint32_t psn : {0xffffffu, 0u, 0x800000u}) EXPECT_TRUE(naks.take(0, Psn(psn)));
}

TEST(GapNaks, TheOldestOfOneDirectionMakeRoom) {
  GapNaks naks(kDirections);
  for (std::uint32_t psn = 0; psn <= GapNaks::kMost; ++psn) naks.expect(3, Psn(psn));
  EXPECT_FALSE(naks.take(3, Psn(0)));
  for (std::uint32_t psn = 1; psn <= GapNaks::kMost; ++psn) EXPECT_TRUE(naks.take(3, Psn(psn)));
}

TEST(GapNaks, TheDirectionThatExpectedNothingForLongestMakesRoom) {
  GapNaks naks(kDirections);
  for (std::uint32_t i = 0; i < 4; ++i) naks.expect(i * kApart, Psn(1));
  naks.expect(0, Psn(2));
  naks.expect(4 * kApart, Psn(1));
  EXPECT_FALSE(naks.take(kApart, Psn(1)));
  for (const std::uint32_t i : {0u, 2u, 3u, 4u}) EXPECT_TRUE(naks.take(i * kApart, Psn(1))) << i;
  EXPECT_TRUE(naks.take(0, Psn(2)));
}

TEST(GapNaks, WhatIsForgottenIsNotExpected) {
  GapNaks naks(kDirections);
  naks.expect(3, Psn(1));
  naks.expect(4, Psn(1));
  naks.forget(3);
  naks.forget(5);
  EXPECT_FALSE(naks.take(3, Psn(1)));
  EXPECT_TRUE(naks.take(4, Psn(1)));
}

TEST(GapNaks, MoveWithTheirDirection) {
  GapNaks naks(kDirections);
  naks.expect(3, Psn(1));
  naks.expect(3, Psn(2));
  naks.moved(3, 3 + kApart);
  naks.moved(1000, 3);
  EXPECT_FALSE(naks.take(3, Psn(1)));
  EXPECT_TRUE(naks.take(3 + kApart, Psn(1)));
  EXPECT_TRUE(naks.take(3 + kApart, Psn(2)));
}

TEST(GapNaks, ATableOfAMillionStaysBelow128BytesForEachDirectionWithThem) {
  for (const std::uint32_t capacity : {1'000'000u, 1u << 20}) {
    const double bytes =
        static_cast<double>(tables::QpTable(capacity).memory_bytes() + GapNaks(capacity).memory_bytes());
    EXPECT_LE(bytes / capacity, 128.0);
  }
}

}  // namespace
}  // namespace weft::stages
