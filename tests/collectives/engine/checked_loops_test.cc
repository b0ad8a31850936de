// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "collectives/engine/checked_loops.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "switch/base/rng.h"
#include "switch/wire/payload_crc.h"

namespace weft::inc {
namespace {

using Bytes = std::vector<std::byte>;

constexpr DataType kSummed[]{DataType::fp32, DataType::int32, DataType::uint32};
constexpr std::size_t kMost = 4096 + kCheckedStep, kAlignments = 64;

Bytes random_bytes(Rng& rng, std::size_t size) {
  Bytes out(size);
  for (std::byte& b : out) b = static_cast<std::byte>(rng.below(256));
  return out;
}
std::uint32_t crc_of(const std::byte* at, std::size_t bytes) {
  return wire::payload_crc({reinterpret_cast<const std::uint8_t*>(at), bytes});
}

/// Of two numbers that are none, each compiler and CPU keeps the one that it likes.
bool same(DataType type, const Bytes& a, const Bytes& b) {
  if (type != DataType::fp32) return a == b;
  for (std::size_t i = 0; i < a.size(); i += sizeof(float)) {
    float x = 0, y = 0;
    std::memcpy(&x, &a[i], sizeof x);
    std::memcpy(&y, &b[i], sizeof y);
    if (std::memcmp(&x, &y, sizeof x) != 0 && !(std::isnan(x) && std::isnan(y))) return false;
  }
  return true;
}

class CheckedLoopsTest : public ::testing::TestWithParam<DataType> {
 protected:
  void SetUp() override {
    how_ = checked_loops(GetParam(), Op::sum, Overflow::wrap);
    if (how_ == nullptr) GTEST_SKIP() << "this CPU has no such instructions";
  }
  const CheckedLoops* how_ = nullptr;
};
INSTANTIATE_TEST_SUITE_P(Types, CheckedLoopsTest, ::testing::ValuesIn(kSummed),
                         [](const auto& type) { return std::string(to_string(type.param)); });

// Random bytes are numbers of all kinds: infinite, denormal, none at all.
TEST_P(CheckedLoopsTest, GiveTheSumOfTheOtherLoopsAndTheCrcAtEveryLengthAndAlignment) {
  Rng rng;
  const Arithmetic* const plain = baseline_arithmetic(GetParam(), Op::sum);
  const Bytes slots = random_bytes(rng, kMost + kAlignments), packets = random_bytes(rng, kMost + kAlignments);
  for (std::size_t bytes = kCheckedStep; bytes <= kMost; bytes += kCheckedStep) {
    for (std::size_t offset = 0; offset < kAlignments; ++offset) {
      const std::byte* const slot = slots.data() + rng.below(kAlignments);
      const std::byte* const packet = packets.data() + offset;
      Bytes expected(slot, slot + bytes);
      plain->combine(expected.data(), packet, bytes / plain->element_bytes);
      Bytes sum(bytes), copy(bytes);  // of exactly the size: AddressSanitizer looks at their ends
      ASSERT_EQ(how_->combine(sum.data(), slot, packet, bytes), crc_of(packet, bytes)) << bytes << " at " << offset;
      ASSERT_TRUE(same(GetParam(), sum, expected)) << bytes << " at " << offset;
      ASSERT_EQ(how_->load(copy.data(), packet, bytes), crc_of(packet, bytes)) << bytes << " at " << offset;
      ASSERT_EQ(std::memcmp(copy.data(), packet, bytes), 0) << bytes << " at " << offset;
    }
  }
}

TEST_P(CheckedLoopsTest, EveryBitOfThePacketChangesTheCrc) {
  Rng rng;
  Bytes packet = random_bytes(rng, 2 * kCheckedStep), sum(packet.size());
  const Bytes slot = random_bytes(rng, packet.size());
  const std::uint32_t right = how_->combine(sum.data(), slot.data(), packet.data(), packet.size());
  for (std::size_t bit = 0; bit < 8 * packet.size(); ++bit) {
    packet[bit / 8] ^= static_cast<std::byte>(1u << bit % 8);
    ASSERT_NE(how_->combine(sum.data(), slot.data(), packet.data(), packet.size()), right) << bit;
    packet[bit / 8] ^= static_cast<std::byte>(1u << bit % 8);
  }
}

TEST(CheckedLoops, AreThereForSumsOfWordsThatDoNotSaturateAlone) {
  for (std::size_t type = 0; type < kDataTypes; ++type) {
    for (std::size_t op = 0; op < kOps; ++op) {
      const auto t = static_cast<DataType>(type);
      const bool summed = static_cast<Op>(op) == Op::sum && std::ranges::find(kSummed, t) != std::end(kSummed);
      const bool any = checked_loops(DataType::fp32, Op::sum, Overflow::wrap) != nullptr;
      EXPECT_EQ(checked_loops(t, static_cast<Op>(op), Overflow::wrap) != nullptr, summed && any) << to_string(t);
      const bool saturates = t != DataType::fp32;
      EXPECT_EQ(checked_loops(t, static_cast<Op>(op), Overflow::saturate) != nullptr, summed && any && !saturates);
    }
  }
}

}  // namespace
}  // namespace weft::inc
