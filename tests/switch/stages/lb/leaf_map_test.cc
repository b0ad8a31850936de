// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/stages/lb/leaf_map.h"

#include <gtest/gtest.h>

#include <array>

namespace weft::stages {
namespace {

LeafMap::Entry entry(const char* prefix, std::uint16_t leaf) {
  return {*wire::IpPrefix::parse(prefix), leaf};
}
std::uint16_t find(const LeafMap& map, const char* address) {
  return map.find(*wire::IpAddress::parse(address));
}

TEST(LeafMap, FindsTheLeafOfEveryAddressOfItsPrefixesAndOfNoOther) {
  const std::array entries{entry("10.0.3.0/24", 2), entry("10.0.1.0/24", 0), entry("192.168.7.5/32", 2),
                           entry("fd00:0:1::/48", 0), entry("fd00:0:3::/48", 2)};
  const LeafMap map(entries);
  EXPECT_EQ(find(map, "10.0.1.0"), 0);
  EXPECT_EQ(find(map, "10.0.1.255"), 0);
  EXPECT_EQ(find(map, "10.0.3.77"), 2);
  EXPECT_EQ(find(map, "192.168.7.5"), 2);
  EXPECT_EQ(find(map, "fd00:0:1::9"), 0);
  EXPECT_EQ(find(map, "fd00:0:3:ffff::1"), 2);
  for (const char* other : {"10.0.0.255", "10.0.2.0", "10.0.4.0", "192.168.7.4", "192.168.7.6", "0.0.0.0",
                            "255.255.255.255", "fd00:0:2::1", "::", "ffff::", "::ffff:10.0.1.1"}) {
    EXPECT_EQ(find(map, other), LeafMap::kNone) << other;
  }
}

TEST(LeafMap, WithoutPrefixesThereIsNoLeaf) {
  EXPECT_EQ(find(LeafMap(), "10.0.1.1"), LeafMap::kNone);
}

TEST(LeafMap, HostBitsOfPrefixesDoNotCount) {
  const std::array entries{entry("10.0.1.200/24", 4)};
  EXPECT_EQ(find(LeafMap(entries), "10.0.1.1"), 4);
}

}  // namespace
}  // namespace weft::stages
