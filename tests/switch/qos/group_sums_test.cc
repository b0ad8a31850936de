// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/qos/group_sums.h"

#include <gtest/gtest.h>

#include <map>

#include "switch/base/rng.h"

namespace weft::qos {
namespace {

std::map<std::uint16_t, std::uint64_t> all_of(const GroupSums& sums) {
  std::map<std::uint16_t, std::uint64_t> found;
  sums.for_each([&](std::uint16_t group, std::uint64_t bytes) {
    EXPECT_TRUE(found.emplace(group, bytes).second) << "group " << group << " twice";
  });
  return found;
}

TEST(GroupSums, EveryGroupIsNamedOnceWhateverTheOrderOfItsPackets) {
  GroupSums sums(24);
  sums.add(3, 100);
  sums.add(11, 60);
  sums.add(3, 1500);
  sums.add(23, 64);
  sums.add(11, 60);
  EXPECT_EQ(all_of(sums), (std::map<std::uint16_t, std::uint64_t>{{3, 1600}, {11, 120}, {23, 64}}));
  EXPECT_EQ(sums.bytes(), 1784u);
}

TEST(GroupSums, AClearedOneStartsAnew) {
  Rng rng(1);
  GroupSums sums(80);
  for (int burst = 0; burst < 1000; ++burst) {
    std::map<std::uint16_t, std::uint64_t> want;
    std::uint64_t bytes = 0;
    for (std::uint64_t left = rng.below(GroupSums::kMostPackets + 1); left != 0; --left) {
      const auto group = static_cast<std::uint16_t>(rng.below(80));
      const std::uint64_t length = 60 + rng.below(9000);
      sums.add(group, length);
      want[group] += length;
      bytes += length;
    }
    ASSERT_EQ(all_of(sums), want);
    ASSERT_EQ(sums.bytes(), bytes);
    sums.clear();
    ASSERT_TRUE(all_of(sums).empty());
  }
}

TEST(GroupSums, ABurstMayBeOfAsManyGroupsAsItHasPackets) {
  GroupSums sums(GroupSums::kMostPackets);
  for (std::uint16_t i = 0; i < GroupSums::kMostPackets; ++i) sums.add(i, 1u + i);
  const auto found = all_of(sums);
  ASSERT_EQ(found.size(), GroupSums::kMostPackets);
  EXPECT_EQ(found.at(GroupSums::kMostPackets - 1), GroupSums::kMostPackets);
}

}  // namespace
}  // namespace weft::qos
