// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/qos/class_map.h"

#include <gtest/gtest.h>

namespace weft::qos {
namespace {

wire::Parsed ip(unsigned dscp) {
  wire::Parsed p{};
  p.kind = wire::FrameKind::roce;
  p.tos = static_cast<std::uint8_t>(dscp << 2 | 2);
  return p;
}

TEST(ClassMap, DefaultsPutLosslessTrafficInThreeAndFourAndCnpInSix) {
  const Classifier c;
  for (const unsigned dscp : {3u, 24u, 26u, 31u}) EXPECT_EQ(c.classify(ip(dscp)).queue(), 3) << dscp;
  for (const unsigned dscp : {4u, 32u, 34u, 39u}) EXPECT_EQ(c.classify(ip(dscp)).queue(), 4) << dscp;
  EXPECT_EQ(c.classify(ip(48)).queue(), 6);
  EXPECT_EQ(c.classify(ip(0)).queue(), 0);
  EXPECT_EQ(c.classify(ip(26)).group(), 3);
  EXPECT_EQ(c.classify(ip(34)).group(), 4);
  EXPECT_EQ(c.classify(ip(48)).group(), 0);
}

TEST(ClassMap, EcnDoesNotChangeTheClass) {
  const Classifier c;
  for (unsigned dscp = 0; dscp < 64; ++dscp) {
    wire::Parsed p = ip(dscp);
    const auto want = c.classify(p).value;
    for (unsigned ecn = 0; ecn < 4; ++ecn) {
      p.tos = static_cast<std::uint8_t>(dscp << 2 | ecn);
      EXPECT_EQ(c.classify(p).value, want);
    }
  }
}

TEST(ClassMap, FramesThatAreNotIpGoByTheirTag) {
  const Classifier c;
  wire::Parsed p{};
  p.kind = wire::FrameKind::arp;
  p.tos = 0xff;
  EXPECT_EQ(c.classify(p).queue(), 0);
  p.flags = wire::ParsedFlag::vlan_tagged;
  for (unsigned pcp = 0; pcp < 8; ++pcp) {
    p.vlan_tci = static_cast<std::uint16_t>(pcp << 13 | 5);
    EXPECT_EQ(c.classify(p).queue(), pcp);
  }
}

TEST(ClassMap, WithoutTrustInDscpIpPacketsGoByTheirTag) {
  ClassMap map = ClassMap::defaults();
  map.trust_dscp = false;
  const Classifier c(map);
  EXPECT_EQ(c.classify(ip(26)).queue(), 0);
  wire::Parsed p = ip(26);
  p.flags = wire::ParsedFlag::vlan_tagged;
  p.vlan_tci = 4u << 13;
  EXPECT_EQ(c.classify(p).queue(), 4);
}

TEST(ClassMap, EveryMapIsApplied) {
  ClassMap map = ClassMap::defaults();
  map.dscp_to_tc[10] = 5;
  map.tc_to_queue[5] = 2;
  map.tc_to_group[5] = 1;
  const PacketClass place = Classifier(map).classify(ip(10));
  EXPECT_EQ(place.queue(), 2);
  EXPECT_EQ(place.group(), 1);
}

}  // namespace
}  // namespace weft::qos
