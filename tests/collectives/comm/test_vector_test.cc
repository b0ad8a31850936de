// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "collectives/comm/test_vector.h"

#include <gmock/gmock.h>

#include <utility>

namespace weft::inc {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

constexpr std::uint32_t kRanks = 3;

TEST(TestVector, AProgramHasThePrimitivesInTurnAndMovesTheRootOn) {
  const auto all = test_program({"all", 64}, 2, kRanks, 7);
  ASSERT_EQ(all.size(), 8u);
  EXPECT_EQ(all[3].primitive, Primitive::barrier);
  EXPECT_EQ(all[3].bytes, 0u);
  EXPECT_EQ(all[5].root, 1u);
  EXPECT_EQ(all[7].sequence, 7u);
  EXPECT_EQ(test_program({"reduce", 64, DataType::uint32, 2}, 2, kRanks, 7)[1].root, 2u);
  EXPECT_THAT(test_program({"reduction", 64}, 2, kRanks, 7), IsEmpty());
}

TEST(TestVector, ReduceScatterAndAllGatherHaveARootForEachFragment) {
  for (const auto& [name, primitive] :
       {std::pair("reducescatter", Primitive::reduce), std::pair("allgather", Primitive::broadcast)}) {
    const TestCollective collective{name, 60, DataType::int16};
    EXPECT_EQ(test_granule(collective, kRanks), 6u);
    const auto all = test_program(collective, 2, kRanks, 7);
    ASSERT_EQ(all.size(), 6u);
    for (std::size_t i = 0; i < all.size(); ++i) {
      EXPECT_EQ(all[i].primitive, primitive);
      EXPECT_EQ(all[i].root, i % kRanks);
      EXPECT_EQ(all[i].bytes, 20u);
      EXPECT_EQ(all[i].sequence, i);
    }
  }
  EXPECT_EQ(test_granule({"all", 64, DataType::fp64}, kRanks), 8u);
}

/// Data of a collective as a switch that adds up would send it.
std::vector<std::uint8_t> sum(const ControlMessage& m, std::uint64_t offset, std::size_t bytes,
                              std::uint32_t ranks = kRanks) {
  const Arithmetic& loops = *arithmetic(m.type, Op::sum);
  const std::size_t elements = bytes / loops.element_bytes;
  std::vector<std::byte> slot(elements * loops.accumulator_bytes);
  std::vector<std::uint8_t> raw(bytes);
  bool first = true;
  for (std::uint32_t r = 0; r < ranks; ++r) {
    if (!rank_sends(m, r)) continue;
    fill_test_vector(r, m, offset, raw);
    const auto* packet = reinterpret_cast<const std::byte*>(raw.data());
    (std::exchange(first, false) ? loops.load : loops.combine)(slot.data(), packet, elements);
  }
  loops.store(reinterpret_cast<std::byte*>(raw.data()), slot.data(), elements);
  return raw;
}

TEST(TestVector, TheSumIsFoundRightAndEveryElementCounts) {
  for (std::size_t type = 0; type < kDataTypes; ++type) {
    const auto program = test_program({"all", 64, static_cast<DataType>(type), 1}, 1, kRanks, 7);
    SCOPED_TRACE(to_string(program[0].type));
    const std::size_t element = element_bytes(program[0].type);
    for (std::size_t c = 0; c < 3; ++c) {
      const RankMessage message{c, 2, 16, 32};
      auto data = sum(program[c], 16, 32);
      EXPECT_EQ(test_difference(program, kRanks, message, std::nullopt, data), "");
      for (std::size_t at = 0; at < data.size(); ++at) {
        data[at] ^= 0x80;
        EXPECT_THAT(test_difference(program, kRanks, message, std::nullopt, data),
                    HasSubstr("element " + std::to_string((16 + at) / element) + " has the bits "));
        data[at] ^= 0x80;
      }
      data.pop_back();
      EXPECT_THAT(test_difference(program, kRanks, message, std::nullopt, data), HasSubstr("31 bytes, not 32"));
    }
  }
}

TEST(TestVector, SumsAreExactWithTheMostRanks) {
  for (const DataType type : {DataType::bf16, DataType::fp16, DataType::fp32, DataType::fp64}) {
    const auto program = test_program({"allreduce", 4096, type}, 1, kMostRanksOfExactSums, 7);
    const auto data = sum(program[0], 0, 4096, kMostRanksOfExactSums);
    EXPECT_EQ(test_difference(program, kMostRanksOfExactSums, {0, 1, 0, 4096}, std::nullopt, data), "");
  }
}

TEST(TestVector, APacketInThePlaceOfAnotherIsNoticedInEveryType) {
  for (std::size_t type = 0; type < kDataTypes; ++type) {
    const auto program = test_program({"allreduce", 1 << 20, static_cast<DataType>(type)}, 1, kRanks, 7);
    const auto data = sum(program[0], 0, 1024);
    for (std::uint64_t offset = 1024; offset < 1 << 20; offset += 1024)
      EXPECT_NE(test_difference(program, kRanks, {0, 1, offset, 1024}, std::nullopt, data), "") << offset;
  }
}

TEST(TestVector, AControlMessageIsComparedWithItsImmediate) {
  const auto program = test_program({"all", 64, DataType::uint32, 1}, 1, kRanks, 7);
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
