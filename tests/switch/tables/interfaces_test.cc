// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/tables/interfaces.h"

#include <gtest/gtest.h>

namespace weft::tables {
namespace {

using pipeline::SwitchInfo;
using wire::IpAddress;
using wire::IpPrefix;
using wire::MacAddress;

IpAddress ip(const char* text) {
  return *IpAddress::parse(text);
}

SwitchInfo make_info(const std::vector<std::pair<pipeline::PortIndex, const char*>>& addresses) {
  SwitchInfo info;
  for (pipeline::PortIndex port = 0; port < 3; ++port) {
    info.ports.emplace_back();
    info.ports.back().index = port;
    info.ports.back().mac = MacAddress::from_u64(0x020000000100u + port);
    info.ports.back().mtu_bytes = 1500u + port;
  }
  for (const auto& [port, prefix] : addresses) info.addresses.push_back({port, *IpPrefix::parse(prefix), {}});
  return info;
}

// Port 0 has two subnets of each family, port 1 one, port 2 none.
const SwitchInfo kInfo = make_info({{0, "10.0.0.1/24"},
                                    {0, "10.9.0.1/16"},
                                    {0, "2001:db8::1/64"},
                                    {0, "2001:db8:9::1/48"},
                                    {1, "10.1.0.1/31"},
                                    {1, "2001:db8:1::1/127"},
                                    {1, "fe80::1/64"}});

TEST(Interfaces, APortOwnsItsAddressesOnly) {
  const Interfaces interfaces(kInfo);
  for (const char* own : {"10.0.0.1", "10.9.0.1", "2001:db8::1", "2001:db8:9::1", "fe80::ff:fe00:100"}) {
    EXPECT_TRUE(interfaces.owns(0, ip(own))) << own;
    EXPECT_FALSE(interfaces.owns(1, ip(own))) << own;
  }
  EXPECT_FALSE(interfaces.owns(0, ip("10.0.0.2")));
  EXPECT_FALSE(interfaces.owns(0, ip("2001:db8::2")));
}

TEST(Interfaces, AnAddressOfAnyPortIsLocalButLinkLocalOnesOnTheirPortOnly) {
  const Interfaces interfaces(kInfo);
  EXPECT_TRUE(interfaces.is_local(2, ip("10.0.0.1")));
  EXPECT_TRUE(interfaces.is_local(2, ip("2001:db8:1::1")));
  EXPECT_TRUE(interfaces.is_local(1, ip("fe80::1")));
  EXPECT_FALSE(interfaces.is_local(0, ip("fe80::1")));
}

TEST(Interfaces, ReplacedAddressesHoldAtOnceAndTheOldOnesGoWhenReadersHaveLetGo) {
  RcuDomain domain{1};
  Interfaces interfaces(kInfo);
  const auto& before = interfaces[0];
  const std::vector<pipeline::InterfaceAddress> next{{1, *IpPrefix::parse("10.5.0.1/24"), {}}};
  interfaces.replace(next, domain);
  EXPECT_EQ(before.v4.size(), 2u);
  EXPECT_TRUE(interfaces[0].v4.empty());
  EXPECT_TRUE(interfaces.owns(1, ip("10.5.0.1")));
  EXPECT_FALSE(interfaces.owns(1, ip("fe80::1")));
  EXPECT_EQ(interfaces[1].mac, kInfo.ports[1].mac);
  EXPECT_EQ(interfaces[1].mtu_bytes, 1501u);
  EXPECT_EQ(domain.pending(), 1u);
  domain.quiescent(0);
  EXPECT_EQ(domain.reclaim(), 1u);
}

TEST(Interfaces, APortGetsAnotherMtuAndKeepsItsAddresses) {
  RcuDomain domain{1};
  Interfaces interfaces(kInfo);
  const auto& before = interfaces[1];
  interfaces.set_mtu(1, 9000, domain);
  EXPECT_EQ(before.mtu_bytes, 1501u);
  EXPECT_EQ(interfaces[1].mtu_bytes, 9000u);
  EXPECT_EQ(interfaces[0].v4.size(), 2u);
  domain.quiescent(0);
  EXPECT_EQ(domain.reclaim(), 1u);
}

TEST(Interfaces, WithTheKernelNoPortHasAnAddressBeforeTheKernelSaysSo) {
  SwitchInfo info = kInfo;
  info.kernel.emplace();
  const Interfaces interfaces(info);
  EXPECT_FALSE(interfaces.owns(0, ip("10.0.0.1")));
  EXPECT_FALSE(interfaces[0].has_v6());
}

TEST(Interfaces, AConfiguredLinkLocalAddressReplacesTheDerivedOne) {
  const Interfaces interfaces(kInfo);
  EXPECT_FALSE(interfaces.owns(1, link_local_address(interfaces[1].mac)));
  EXPECT_TRUE(interfaces.owns(2, ip("fe80::ff:fe00:102")));
}

TEST(Interfaces, ASwitchWithoutIpv6HasNoLinkLocalAddresses) {
  SwitchInfo info = make_info({{0, "10.0.0.1/24"}});
  EXPECT_FALSE(Interfaces(info)[0].has_v6());
  info.routes.push_back({});
  info.routes.back().prefix = *IpPrefix::parse("2001:db8::/32");
  EXPECT_TRUE(Interfaces(info)[0].has_v6());
}

TEST(Interfaces, OnLinkFollowsTheSubnetsOfThePort) {
  const Interfaces interfaces(kInfo);
  for (const char* there : {"10.0.0.255", "10.9.255.1", "2001:db8::ffff", "2001:db8:9:9::1", "fe80::77"}) {
    EXPECT_TRUE(interfaces.on_link(0, ip(there))) << there;
  }
  for (const char* elsewhere : {"10.0.1.1", "10.1.0.1", "2001:db8:1::1", "2001:db8:0:1::1"}) {
    EXPECT_FALSE(interfaces.on_link(0, ip(elsewhere))) << elsewhere;
  }
}

TEST(Interfaces, BroadcastIsTheFirstAndTheLastAddressButNotInTheSmallestSubnets) {
  const Interfaces interfaces(kInfo);
  for (const char* all : {"10.0.0.0", "10.0.0.255", "10.9.0.0", "10.9.255.255"}) {
    EXPECT_TRUE(interfaces.is_broadcast(0, ip(all))) << all;
  }
  EXPECT_FALSE(interfaces.is_broadcast(0, ip("10.9.0.255")));
  EXPECT_FALSE(interfaces.is_broadcast(1, ip("10.1.0.0")));
  EXPECT_FALSE(interfaces.is_broadcast(1, ip("10.1.0.1")));
}

TEST(Interfaces, APortListensToItsGroups) {
  const Interfaces interfaces(kInfo);
  for (const char* group : {"ff02::1", "ff02::2", "ff02::1:ff00:1", "ff02::1:ff00:100"}) {
    EXPECT_TRUE(interfaces.listens(0, ip(group))) << group;
  }
  for (const char* group : {"ff02::1:ff00:2", "ff02::5", "ff05::2"}) {
    EXPECT_FALSE(interfaces.listens(0, ip(group))) << group;
  }
  EXPECT_FALSE(Interfaces(make_info({{0, "10.0.0.1/24"}})).listens(0, ip("ff02::1")));
}

TEST(Interfaces, QuestionsComeFromTheSubnetOfTheTarget) {
  const Interfaces interfaces(kInfo);
  EXPECT_EQ(interfaces.ask_from(0, ip("10.9.3.3")), ip("10.9.0.1"));
  EXPECT_EQ(interfaces.ask_from(0, ip("10.0.0.9")), ip("10.0.0.1"));
  EXPECT_EQ(interfaces.ask_from(0, ip("192.0.2.1")), ip("10.0.0.1"));
  EXPECT_EQ(interfaces.ask_from(0, ip("2001:db8:9::9")), ip("2001:db8:9::1"));
  EXPECT_EQ(interfaces.ask_from(1, ip("fe80::9")), ip("fe80::1"));
  EXPECT_EQ(interfaces.ask_from(2, ip("2001:db8:1::9")), ip("fe80::ff:fe00:102"));
  EXPECT_EQ(interfaces.ask_from(2, ip("10.0.0.9")), std::nullopt);
}

TEST(Interfaces, AnswersComeFromThePortIfItHasAnAddressElseFromAnother) {
  const Interfaces interfaces(kInfo);
  EXPECT_EQ(interfaces.answer_from(0, ip("10.9.3.3")), ip("10.9.0.1"));
  EXPECT_EQ(interfaces.answer_from(1, ip("192.0.2.1")), ip("10.1.0.1"));
  EXPECT_EQ(interfaces.answer_from(2, ip("192.0.2.1")), ip("10.0.0.1"));
  EXPECT_EQ(interfaces.answer_from(2, ip("2001:db8:77::1")), ip("2001:db8::1"));
  EXPECT_EQ(interfaces.answer_from(2, ip("fe80::9")), ip("fe80::ff:fe00:102"));
  EXPECT_EQ(Interfaces(make_info({{0, "10.0.0.1/24"}})).answer_from(0, ip("2001:db8::1")), std::nullopt);
}

TEST(Interfaces, DerivedAddressesAreThoseOfTheRfcs) {
  // RFC 4291 appendix A and 2.7.1, RFC 2464 7.
  EXPECT_EQ(link_local_address(*MacAddress::parse("34:56:78:9a:bc:de")), ip("fe80::3656:78ff:fe9a:bcde"));
  EXPECT_EQ(solicited_node(ip("4037::1:800:200e:8c6c")), ip("ff02::1:ff0e:8c6c"));
  EXPECT_EQ(multicast_mac(ip("ff02::1:ff0e:8c6c")), *MacAddress::parse("33:33:ff:0e:8c:6c"));
  EXPECT_EQ(broadcast_address(*IpPrefix::parse("10.1.2.3/20")), ip("10.1.15.255"));
  EXPECT_EQ(broadcast_address(*IpPrefix::parse("10.1.2.3/32")), ip("10.1.2.3"));
}

}  // namespace
}  // namespace weft::tables
