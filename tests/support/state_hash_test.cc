// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "tests/support/state_hash.h"

#include <gtest/gtest.h>

#include <array>
#include <initializer_list>
#include <set>
#include <unordered_set>
#include <vector>

namespace weft::testing {
namespace {

std::uint64_t hash(std::initializer_list<std::uint64_t> words) {
  StateHash h;
  for (const std::uint64_t w : words) h(w);
  return h.value();
}
template <class Visitor = StateHash>
auto of_unordered(std::vector<std::uint64_t> things) {
  Visitor h;
  h.unordered(things);
  return h.value();
}

TEST(StateHash, OrderAndLengthCount) {
  EXPECT_EQ(hash({1, 2, 3}), hash({1, 2, 3}));
  EXPECT_NE(hash({1, 2, 3}), hash({1, 3, 2}));
  EXPECT_NE(hash({1, 2}), hash({1, 2, 0}));
  EXPECT_NE(hash({}), hash({0}));
}

TEST(StateHash, SmallNumbersDoNotCollide) {
  std::unordered_set<std::uint64_t> seen;
  std::size_t count = 0;
  for (std::uint64_t a = 0; a < 100; ++a) {
    for (std::uint64_t b = 0; b < 100; ++b) {
      for (std::uint64_t c = 0; c < 100; ++c, ++count) seen.insert(hash({a, b << 8, c << 32 | a}));
    }
  }
  EXPECT_EQ(seen.size(), count);
}

TEST(StateHash, SetsOfEqualSumAndOfEqualExclusiveOrDiffer) {
  EXPECT_EQ(of_unordered({1, 4}), of_unordered({4, 1}));
  EXPECT_NE(of_unordered({1, 4}), of_unordered({2, 3}));
  EXPECT_NE(of_unordered({1, 1}), of_unordered({2, 2}));
  EXPECT_NE(of_unordered({1, 1, 2}), of_unordered({1, 2, 2}));
  EXPECT_NE(of_unordered({}), of_unordered({0}));
}

TEST(StateHash, EverySmallMultisetHasItsOwnHash) {
  std::unordered_set<std::uint64_t> hashes;
  std::set<std::vector<std::uint64_t>> exact;
  for (std::uint64_t a = 0; a < 24; ++a) {
    for (std::uint64_t b = 0; b < 24; ++b) {
      for (std::uint64_t c = 0; c < 24; ++c) {
        hashes.insert(of_unordered({a, b, c}));
        exact.insert(of_unordered<StateWords>({a, b, c}));
      }
    }
  }
  EXPECT_EQ(exact.size(), 2600u) << "24 + 2, over 3";
  EXPECT_EQ(hashes.size(), exact.size());
}

TEST(StateHash, EveryByteOfMemoryCounts) {
  std::array<std::uint8_t, 256> memory{};
  std::unordered_set<std::uint64_t> seen;
  const auto insert = [&] {
    StateHash h;
    h.bytes(memory);
    return seen.insert(h.value()).second;
  };
  EXPECT_TRUE(insert());
  for (std::uint8_t& byte : memory) {
    for (unsigned bit = 0; bit < 8; ++bit) {
      byte = static_cast<std::uint8_t>(1u << bit);
      EXPECT_TRUE(insert());
    }
    byte = 0;
  }
  StateWords words;
  words.bytes(memory);
  EXPECT_EQ(words.value().size(), memory.size() / 8);
}

}  // namespace
}  // namespace weft::testing
