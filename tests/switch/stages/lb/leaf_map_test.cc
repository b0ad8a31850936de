// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/stages/lb/leaf_map.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "switch/base/rng.h"
#include "switch/wire/builder.h"
#include "switch/wire/parse.h"

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

// Whatever the number of prefixes: a binary search is easily wrong at its ends, and blocks of addresses may have
// several leaves.
TEST(LeafMapProperty, FindsWhatLookingAtAllPrefixesFinds) {
  Rng random(18);
  for (std::uint32_t prefixes = 0; prefixes < 40; ++prefixes) {
    std::vector<LeafMap::Entry> entries;
    std::uint32_t next = prefixes % 3 == 0 ? 0 : 0x0a000000;
    for (std::uint32_t i = 0; i < prefixes; ++i) {
      const auto length = static_cast<std::uint8_t>(20 + random.below(13));
      const std::uint32_t size = 1u << (32 - length);
      next = (next + size - 1) / size * size;
      entries.push_back({{wire::IpAddress::v4(next), length}, static_cast<std::uint16_t>(i)});
      next += size * static_cast<std::uint32_t>(1 + random.below(3));
    }
    const LeafMap map(entries);
    std::vector<std::uint32_t> numbers{0, ~0u};
    for (int round = 0; round < 300; ++round) {
      numbers.push_back(static_cast<std::uint32_t>(random.below(std::uint64_t{next} + 5000)));
    }
    // Around both ends of each prefix.
    for (const LeafMap::Entry& one : entries) {
      const std::uint32_t first = one.prefix.address.v4_value();
      for (const std::uint32_t end : {first, first + (1u << (32 - one.prefix.length))}) {
        numbers.insert(numbers.end(), {end - 1, end});
      }
    }
    for (const std::uint32_t number : numbers) {
      const wire::IpAddress address = wire::IpAddress::v4(number);
      std::uint16_t expected = LeafMap::kNone;
      for (const LeafMap::Entry& one : entries) {
        if (one.prefix.contains(address)) expected = one.leaf;
      }
      ASSERT_EQ(map.find_v4(number), expected) << prefixes << " " << address.to_string();
      ASSERT_EQ(map.find(address), expected);
    }
  }
}

TEST(LeafMap, TheWholeInternetIsAPrefix) {
  const std::array entries{entry("0.0.0.0/0", 3)};
  for (const char* address : {"0.0.0.0", "10.0.1.1", "255.255.255.255"}) EXPECT_EQ(find(LeafMap(entries), address), 3);
}

TEST(LeafMap, WithoutPrefixesThereIsNoLeaf) {
  EXPECT_EQ(find(LeafMap(), "10.0.1.1"), LeafMap::kNone);
}

TEST(LeafView, KnowsWhereAPacketComesFromAndGoesTo) {
  const std::array entries{entry("10.0.1.0/24", 0), entry("10.0.2.0/24", 1), entry("fd00:0:1::/48", 0),
                           entry("fd00:0:2::/48", 1)};
  const LeafView view(LeafMap(entries), 0);
  EXPECT_EQ(view.self(), 0);
  const auto leaves = [&view](const char* from, const char* to) {
    const std::vector<std::uint8_t> frame = wire::FrameBuilder()
                                                .vlan(7)
                                                .ip(*wire::IpAddress::parse(from), *wire::IpAddress::parse(to))
                                                .udp(50000)
                                                .bth(wire::Opcode::RC_SEND_ONLY, wire::Qpn(3), wire::Psn(0))
                                                .build();
    wire::Parsed parsed;
    wire::parse_frame(frame.data(), static_cast<std::uint32_t>(frame.size()), static_cast<std::uint32_t>(frame.size()),
                      parsed);
    return std::array{view.of_source(frame.data(), parsed), view.of_destination(frame.data(), parsed),
                      view.far(frame.data(), parsed)};
  };
  using Leaves = std::array<std::uint16_t, 3>;
  EXPECT_EQ(leaves("10.0.1.5", "10.0.2.6"), (Leaves{0, 1, 1}));
  EXPECT_EQ(leaves("10.0.2.6", "10.0.1.5"), (Leaves{1, 0, LeafMap::kNone})) << "to this one's own hosts";
  EXPECT_EQ(leaves("10.0.9.1", "10.0.9.2"), (Leaves{LeafMap::kNone, LeafMap::kNone, LeafMap::kNone}));
  EXPECT_EQ(leaves("fd00:0:1::5", "fd00:0:2::6"), (Leaves{0, 1, 1}));
  EXPECT_EQ(leaves("fd00:0:2::6", "fd00:0:1::5"), (Leaves{1, 0, LeafMap::kNone}));
}

TEST(LeafView, ASwitchThatIsNoLeafHasNoHosts) {
  EXPECT_EQ(LeafView().self(), LeafMap::kNone);
}

TEST(LeafMap, HostBitsOfPrefixesDoNotCount) {
  const std::array entries{entry("10.0.1.200/24", 4)};
  EXPECT_EQ(find(LeafMap(entries), "10.0.1.1"), 4);
}

}  // namespace
}  // namespace weft::stages
