// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/wire/types.h"

#include <gtest/gtest.h>

#include "tests/support/effort.h"

namespace weft::wire {
namespace {

constexpr std::uint32_t kSpace = 1u << 24;

/// The offset to look at after another: all, and under a sanitizer those near both ends and the middle of the space,
/// and each fifteenth of the others.
constexpr std::uint32_t after(std::uint32_t offset) {
  constexpr std::uint32_t kNear = 1024;
  const bool near = (offset + kNear) % (kSpace / 2) < 2 * kNear;
  return offset + (weft::testing::kSanitized && !near ? 15 : 1);
}

TEST(BigEndian, StoresTheMostSignificantByteFirst) {
  const be16 a(0x0102);
  const be24 b(0x010203);
  const be32 c(0x01020304);
  const be64 d(0x0102030405060708);
  EXPECT_EQ(std::memcmp(&a, "\1\2", 2), 0);
  EXPECT_EQ(std::memcmp(&b, "\1\2\3", 3), 0);
  EXPECT_EQ(std::memcmp(&c, "\1\2\3\4", 4), 0);
  EXPECT_EQ(std::memcmp(&d, "\1\2\3\4\5\6\7\10", 8), 0);
}

TEST(BigEndian, ReturnsWhatWasSet) {
  be16 a;
  be24 b;
  be32 c;
  be64 d;
  for (unsigned bit = 0; bit < 64; ++bit) {
    const std::uint64_t v = std::uint64_t{1} << bit;
    a.set(static_cast<std::uint16_t>(v));
    b.set(static_cast<std::uint32_t>(v));
    c.set(static_cast<std::uint32_t>(v));
    d.set(v);
    ASSERT_EQ(a.value(), v & 0xffff);
    ASSERT_EQ(b.value(), v & 0xffffff);
    ASSERT_EQ(c.value(), v & 0xffffffff);
    ASSERT_EQ(d.value(), v);
  }
}

TEST(Psn, IncrementsThroughTheWholeSpaceAndWraps) {
  Psn p(0);
  for (std::uint32_t i = 0; i < kSpace; ++i) {
    ASSERT_EQ(p.value(), i);
    ++p;
  }
  EXPECT_EQ(p, Psn(0));
}

TEST(Psn, DistanceUndoesAdditionForEveryOffsetFromPlacesAroundTheSpace) {
  for (const std::uint32_t start : {0u, 1u, 0x7fffffu, 0x800000u, 0xfffffeu, 0xffffffu}) {
    for (std::uint32_t offset = 0; offset < kSpace; offset = after(offset)) {
      const std::int32_t expected = offset < kSpace / 2 ? static_cast<std::int32_t>(offset)
                                                        : static_cast<std::int32_t>(offset) - std::int32_t{1 << 24};
      const Psn later = Psn(start) + offset;
      if (later.distance_from(Psn(start)) != expected || later - offset != Psn(start)) {
        FAIL() << "start " << start << " offset " << offset << " distance " << later.distance_from(Psn(start));
      }
    }
  }
}

TEST(Psn, DistanceIsAntisymmetricExceptAtHalfTheSpace) {
  for (std::uint32_t offset = 0; offset < kSpace; offset = after(offset)) {
    const Psn a(0xabcdef), b = a + offset;
    const bool half = offset == Psn::kHalf;
    if ((b.distance_from(a) == -a.distance_from(b)) == half) FAIL() << "offset " << offset;
  }
}

TEST(Psn, WindowHoldsExactlyItsCountForEveryOffset) {
  for (const std::uint32_t count : {0u, 1u, 2u, 255u, 0x7fffffu, 0x800000u, 0xffffffu, 0x1000000u}) {
    for (std::uint32_t offset = 0; offset < kSpace; offset = after(offset)) {
      const bool in = (Psn(0xfffff0) + offset).in_window(Psn(0xfffff0), count);
      if (in != (offset < count)) FAIL() << "count " << count << " offset " << offset;
    }
  }
}

TEST(Psn, DiscardsBitsAboveThe24th) {
  EXPECT_EQ(Psn(0xff000001), Psn(1));
  EXPECT_EQ(Psn(0xffffff) + 2, Psn(1));
  EXPECT_EQ(Psn(0) - 1, Psn(0xffffff));
}

TEST(Qpn, DiscardsBitsAboveThe24thAndOrders) {
  EXPECT_EQ(Qpn(0xff000001), Qpn(1));
  EXPECT_LT(Qpn(1), Qpn(2));
}

}  // namespace
}  // namespace weft::wire
