// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/wire/icrc_update.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/switch/wire/reference_icrc.h"
#include "tests/switch/wire/samples.h"

namespace weft::wire {
namespace {

using Update = std::uint32_t (*)(std::uint32_t, std::span<const FieldEdit>) noexcept;

class IcrcUpdate : public testing::TestWithParam<Update> {};

std::vector<std::uint8_t> random_bytes(TestRandom& random, std::size_t n) {
  std::vector<std::uint8_t> bytes(n);
  for (auto& b : bytes) b = static_cast<std::uint8_t>(random(256));
  return bytes;
}

TEST_P(IcrcUpdate, EqualsTheCrcOfTheChangedMessageForOneWordAtEveryPositionOfShortMessages) {
  TestRandom random;
  for (std::uint32_t n = 4; n < 80; ++n) {
    auto message = random_bytes(random, n);
    const std::uint32_t old_crc = reference_crc32(message);
    for (std::uint32_t at = 0; at + 4 <= n; ++at) {
      auto changed = message;
      for (std::uint32_t i = 0; i < 4; ++i) changed[at + i] = static_cast<std::uint8_t>(random(256));
      const FieldEdit edit = make_edit(&message[at], &changed[at], 4, n - at - 4);
      ASSERT_EQ(GetParam()(old_crc, {&edit, 1}), reference_crc32(changed)) << n << " " << at;
    }
  }
}

TEST_P(IcrcUpdate, EqualsTheCrcOfTheChangedMessageForRandomEditsAnywhereInLongMessages) {
  TestRandom random;
  for (int round = 0; round < 400; ++round) {
    const std::uint32_t n = 8 + random(random(4) == 0 ? 70'000 : 9216);
    const auto message = random_bytes(random, n);
    auto changed = message;
    std::vector<FieldEdit> edits;
    for (std::uint32_t count = random(12); count > 0; --count) {
      const std::uint32_t bytes = 1 + random(4);
      const std::uint32_t at = random(n - bytes + 1);
      auto next = changed;
      for (std::uint32_t i = 0; i < bytes; ++i) next[at + i] = static_cast<std::uint8_t>(random(256));
      edits.push_back(make_edit(&changed[at], &next[at], bytes, n - at - bytes));
      changed = next;
    }
    ASSERT_EQ(GetParam()(reference_crc32(message), edits), reference_crc32(changed)) << "seed " << random.seed();
  }
}

TEST_P(IcrcUpdate, WithoutEditsChangesNothing) {
  EXPECT_EQ(GetParam()(0x12345678, {}), 0x12345678u);
}

TEST_P(IcrcUpdate, AnEditAndItsReverseCancel) {
  const std::vector<FieldEdit> edits{{0xdeadbeef, 401}, {0xdeadbeef, 401}};
  EXPECT_EQ(GetParam()(0x12345678, edits), 0x12345678u);
}

TEST_P(IcrcUpdate, AWrongCrcStaysWrongByTheSameDifference) {
  TestRandom random;
  for (int round = 0; round < 1000; ++round) {
    const FieldEdit edit{random.word(), random(10'000)};
    const std::uint32_t right = random.word(), error = random.word();
    ASSERT_EQ(GetParam()(right ^ error, {&edit, 1}) ^ GetParam()(right, {&edit, 1}), error);
  }
}

INSTANTIATE_TEST_SUITE_P(Both, IcrcUpdate, testing::Values(&icrc_update, &icrc_update_portable),
                         [](const auto& param) { return param.index == 0 ? "Dispatched" : "Portable"; });

}  // namespace
}  // namespace weft::wire
