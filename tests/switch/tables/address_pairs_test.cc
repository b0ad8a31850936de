// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/tables/address_pairs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <iostream>
#include <map>
#include <random>
#include <utility>

namespace weft::tables {
namespace {

std::array<std::uint8_t, 32> v6_addresses(std::uint8_t source, std::uint8_t destination) {
  std::array<std::uint8_t, 32> a{};
  a[0] = a[16] = 0xfd;
  a[15] = source;
  a[31] = destination;
  return a;
}

TEST(AddressPairs, BothDirectionsOfAPairShareItsNumber) {
  AddressPairs pairs(10);
  const std::uint32_t there = pairs.acquire(v6_addresses(1, 2).data());
  ASSERT_NE(there, AddressPairs::kNone);
  const std::uint32_t back = pairs.find(v6_addresses(2, 1).data());
  EXPECT_EQ(pairs.reverse(there), back);
  EXPECT_NE(there, back);
  EXPECT_EQ(pairs.addresses(there).first.to_string(), "fd00::1");
  EXPECT_EQ(pairs.addresses(back).first.to_string(), "fd00::2");
}

TEST(AddressPairs, AnAddressToItselfHasOneDirection) {
  AddressPairs pairs(10);
  const std::uint32_t self = pairs.acquire(v6_addresses(1, 1).data());
  EXPECT_EQ(pairs.reverse(self), self);
}

TEST(AddressPairs, AnUnknownPairHasNoOppositeDirection) {
  const AddressPairs pairs(10);
  EXPECT_EQ(pairs.reverse(pairs.find(v6_addresses(1, 2).data())), AddressPairs::kNone);
}

TEST(AddressPairs, APairGoesWithItsLastReference) {
  AddressPairs pairs(1);
  const auto wanted = v6_addresses(1, 2), other = v6_addresses(3, 4);
  const std::uint32_t id = pairs.acquire(wanted.data());
  EXPECT_EQ(pairs.acquire(wanted.data()), id);
  EXPECT_EQ(pairs.acquire(other.data()), AddressPairs::kNone) << "full";
  pairs.release(id);
  EXPECT_EQ(pairs.find(wanted.data()), id);
  pairs.release(id);
  EXPECT_EQ(pairs.find(wanted.data()), AddressPairs::kNone);
  EXPECT_NE(pairs.acquire(other.data()), AddressPairs::kNone);
}

// With eight chains every chain holds several pairs: equal hashes must not make them one.
TEST(AddressPairs, PairsInOneHashChainStayApart) {
  AddressPairs small(8);
  std::map<std::uint32_t, std::pair<std::uint8_t, std::uint8_t>> ids;
  for (std::uint8_t i = 1; i <= 8; ++i) {
    const std::uint32_t id = small.acquire(v6_addresses(i, static_cast<std::uint8_t>(i + 100)).data());
    ASSERT_NE(id, AddressPairs::kNone);
    EXPECT_TRUE(ids.emplace(id, std::pair{i, static_cast<std::uint8_t>(i + 100)}).second);
  }
  for (const auto& [id, addresses] : ids) {
    EXPECT_EQ(small.find(v6_addresses(addresses.first, addresses.second).data()), id);
    EXPECT_EQ(small.addresses(id).second.bytes()[15], addresses.second);
  }
}

TEST(AddressPairs, BehavesLikeAMapUnderRandomOperations) {
  std::random_device device;
  const unsigned seed = device();
  std::cout << "seed " << seed << "\n";
  std::mt19937 random(seed);
  constexpr std::uint32_t kCapacity = 40;
  AddressPairs pairs(kCapacity);
  std::map<std::pair<int, int>, std::pair<std::uint32_t, int>>
      model;  // unordered pair -> id of low to high, references
  for (int step = 0; step < 50'000; ++step) {
    const int a = static_cast<int>(random() % 12), b = static_cast<int>(random() % 12);
    const auto bytes = v6_addresses(static_cast<std::uint8_t>(a), static_cast<std::uint8_t>(b));
    const std::pair key{std::min(a, b), std::max(a, b)};
    const auto known = model.find(key);
    const std::uint32_t id = pairs.find(bytes.data());
    ASSERT_EQ(id != AddressPairs::kNone, known != model.end()) << "step " << step;
    if (known != model.end()) {
      ASSERT_EQ(a <= b ? id : pairs.reverse(id), known->second.first);
    }
    if (random() % 2 == 0) {
      const std::uint32_t got = pairs.acquire(bytes.data());
      if (known != model.end()) {
        ++known->second.second;
      } else if (got != AddressPairs::kNone) {
        model[key] = {a <= b ? got : pairs.reverse(got), 1};
      } else {
        ASSERT_EQ(model.size(), kCapacity);
      }
    } else if (known != model.end()) {
      pairs.release(id);
      if (--known->second.second == 0) model.erase(known);
    }
    ASSERT_EQ(pairs.size(), model.size());
  }
}

}  // namespace
}  // namespace weft::tables
