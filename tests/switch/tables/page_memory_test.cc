// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/tables/page_memory.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <utility>

namespace weft::tables {
namespace {

constexpr std::size_t kHuge = std::size_t{2} << 20;

TEST(PageMemory, IsZeroedAndAligned) {
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{5000}, kHuge, kHuge + 12345}) {
    const PageMemory memory(bytes);
    const auto* at = static_cast<const std::uint8_t*>(memory.data());
    const std::size_t alignment = bytes >= kHuge ? kHuge : 4096;
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(at) % alignment, 0u) << bytes;
    EXPECT_EQ(memory.bytes(), bytes);
    std::size_t set = 0;
    for (std::size_t i = 0; i < bytes; ++i) set += at[i] != 0 ? 1 : 0;
    EXPECT_EQ(set, 0u);
  }
}

TEST(PageMemory, NothingNeedsNothing) {
  const PageMemory empty, none(0);
  EXPECT_EQ(empty.data(), nullptr);
  EXPECT_EQ(none.bytes(), 0u);
}

TEST(PageMemory, MovesWithItsContent) {
  PageMemory first(100);
  static_cast<char*>(first.data())[7] = 'x';
  PageMemory second(std::move(first));
  EXPECT_EQ(static_cast<const char*>(second.data())[7], 'x');
  PageMemory third;
  third = std::move(second);
  EXPECT_EQ(static_cast<const char*>(third.data())[7], 'x');
  EXPECT_EQ(third.bytes(), 100u);
}

TEST(PageArray, CountsItsBytes) {
  PageArray<std::uint32_t> numbers(1000);
  numbers[999] = 5;
  EXPECT_EQ(numbers[999], 5u);
  EXPECT_EQ(numbers[0], 0u);
  EXPECT_EQ(numbers.bytes(), 4000u);
}

}  // namespace
}  // namespace weft::tables
