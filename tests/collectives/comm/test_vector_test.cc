// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "collectives/comm/test_vector.h"

#include <gmock/gmock.h>

#include <cstring>

namespace weft::inc {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

constexpr std::uint32_t kRanks = 3;

TEST(TestVector, AProgramHasThePrimitivesInTurnAndMovesTheRootOn) {
  const auto all = test_program("all", 2, 64, std::nullopt, kRanks, 7);
  ASSERT_EQ(all.size(), 8u);
  EXPECT_EQ(all[3].primitive, Primitive::barrier);
  EXPECT_EQ(all[3].bytes, 0u);
  EXPECT_EQ(all[5].root, 1u);
  EXPECT_EQ(all[7].sequence, 7u);
  EXPECT_EQ(test_program("reduce", 2, 64, 2, kRanks, 7)[1].root, 2u);
  EXPECT_THAT(test_program("reduction", 2, 64, 2, kRanks, 7), IsEmpty());
}

/// Data of a collective as a switch that adds up would send it.
std::vector<std::uint8_t> sum(const ControlMessage& m, std::uint64_t offset, std::size_t bytes) {
  std::vector<std::uint32_t> out(bytes / 4), one(bytes / 4);
  for (std::uint32_t r = 0; r < kRanks; ++r) {
    if (!rank_sends(m, r)) continue;
    fill_test_vector(r, m, offset, {reinterpret_cast<std::uint8_t*>(one.data()), bytes});
    for (std::size_t i = 0; i < out.size(); ++i) out[i] += one[i];
  }
  std::vector<std::uint8_t> raw(bytes);
  std::memcpy(raw.data(), out.data(), bytes);
  return raw;
}

TEST(TestVector, TheSumIsFoundRightAndEveryElementCounts) {
  const auto program = test_program("all", 1, 64, 1, kRanks, 7);
  for (std::size_t c = 0; c < 3; ++c) {
    const RankMessage message{c, 2, 16, 32};
    auto data = sum(program[c], 16, 32);
    EXPECT_EQ(test_difference(program, kRanks, message, std::nullopt, data), "");
    for (std::size_t at = 0; at < data.size(); ++at) {
      data[at] ^= 0x80;
      EXPECT_THAT(test_difference(program, kRanks, message, std::nullopt, data),
                  HasSubstr("element " + std::to_string(4 + at / 4) + " is "));
      data[at] ^= 0x80;
    }
    data.pop_back();
    EXPECT_THAT(test_difference(program, kRanks, message, std::nullopt, data), HasSubstr("31 bytes, not 32"));
  }
}

TEST(TestVector, AControlMessageIsComparedWithItsImmediate) {
  const auto program = test_program("all", 1, 64, 1, kRanks, 7);
  const auto payload = control_payload(program[1]);
  const auto immediate = control_immediate(program[1]);
  const RankMessage message{1, 0, 0, 0};
  EXPECT_EQ(test_difference(program, kRanks, message, immediate, payload), "");
  EXPECT_NE(test_difference(program, kRanks, message, immediate + 1, payload), "");
  EXPECT_NE(test_difference(program, kRanks, message, std::nullopt, payload), "");
  EXPECT_NE(test_difference(program, kRanks, message, immediate, std::span(payload).first(15)), "");
  EXPECT_NE(test_difference(program, kRanks, {1, 1, 0, 16}, immediate, payload), "");
}

}  // namespace
}  // namespace weft::inc
