// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/stages/pnp/flows.h"

#include <gtest/gtest.h>

#include "switch/wire/builder.h"
#include "tests/support/parsed.h"

namespace weft::stages {
namespace {

using wire::FrameBuilder;

TEST(InterDcPairs, APairIsThereUntilFourOthersOfItsSetAreUsedMore) {
  InterDcPairs pairs(4);
  EXPECT_FALSE(pairs.contains(0, 1));
  for (std::uint64_t pair = 1; pair <= 4; ++pair) EXPECT_FALSE(pairs.add(pair, pair));
  EXPECT_FALSE(pairs.add(5, 1)) << "it is there";
  EXPECT_EQ(pairs.size(), 4u);
  EXPECT_TRUE(pairs.add(6, 5));
  EXPECT_FALSE(pairs.contains(7, 2)) << "it was used longest ago";
  for (const std::uint64_t pair : {1u, 3u, 4u, 5u}) EXPECT_TRUE(pairs.contains(7, pair));
  EXPECT_EQ(pairs.size(), 4u);
}

TEST(UnorderedPair, IsTheSameBothWays) {
  const auto pair_of = [](const FrameBuilder& frame, bool& from_lower) {
    const auto bytes = frame.build();
    const wire::Parsed parsed = testing::parsed_of(bytes);
    return unordered_pair(parsed, bytes.data() + parsed.l3_offset, from_lower);
  };
  for (const bool ipv6 : {false, true}) {
    FrameBuilder there, back, other;
    if (ipv6) {
      there.ipv6("fd00::1", "fd00::2").tcp(1, 2);
      back.ipv6("fd00::2", "fd00::1").tcp(2, 1);
      other.ipv6("fd00::1", "fd00::3").tcp(1, 2);
    } else {
      there.ipv4("10.0.0.1", "10.0.0.2").tcp(1, 2);
      back.ipv4("10.0.0.2", "10.0.0.1").tcp(2, 1);
      other.ipv4("10.0.0.1", "10.0.0.3").tcp(1, 2);
    }
    bool lower = false, higher = true, ignored = false;
    EXPECT_EQ(pair_of(there, lower), pair_of(back, higher));
    EXPECT_TRUE(lower);
    EXPECT_FALSE(higher);
    EXPECT_NE(pair_of(there, lower), pair_of(other, ignored));
  }
}

}  // namespace
}  // namespace weft::stages
