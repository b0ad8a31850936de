// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/kernel/messages.h"

#include <gtest/gtest.h>
#include <linux/if.h>
#include <linux/neighbour.h>

#include <cstring>
#include <vector>

#include "tests/switch/kernel/netlink_messages.h"

namespace weft::kernel {
namespace {

wire::IpAddress ip(const char* text) {
  return *wire::IpAddress::parse(text);
}
wire::IpPrefix prefix(const char* text) {
  return *wire::IpPrefix::parse(text);
}

// RTA_MULTIPATH with one gateway per interface 11, 12, ..., of the weights 1, 2, ...; of another family than the
// route's with `via`.
std::vector<std::uint8_t> multipath(const std::vector<const char*>& gateways, bool via = false) {
  std::vector<std::uint8_t> bytes;
  int index = 11;
  for (const char* text : gateways) {
    const auto a = ip(text);
    const std::size_t size = a.is_v6() ? 16 : 4;
    const std::size_t family = via ? 2 : 0;
    std::vector<std::uint8_t> hop(sizeof(rtnexthop) + 4 + family + size);
    rtnexthop header{};
    header.rtnh_len = static_cast<unsigned short>(hop.size());
    header.rtnh_hops = static_cast<unsigned char>(index - 11);
    header.rtnh_ifindex = index++;
    std::memcpy(hop.data(), &header, sizeof header);
    const rtattr attribute{static_cast<unsigned short>(4 + family + size),
                           static_cast<unsigned short>(via ? RTA_VIA : RTA_GATEWAY)};
    std::memcpy(hop.data() + sizeof header, &attribute, sizeof attribute);
    if (via) hop[sizeof header + 4] = a.is_v6() ? AF_INET6 : AF_INET;
    std::memcpy(hop.data() + sizeof header + 4 + family, a.bytes().data() + 16 - size, size);
    hop.resize(RTNH_ALIGN(hop.size()));
    bytes.insert(bytes.end(), hop.begin(), hop.end());
  }
  return bytes;
}

TEST(Messages, ARouteHasItsPrefixPriorityAndNextHop) {
  const Message m = Message(RTM_NEWROUTE, NLM_F_REPLACE, route_header(AF_INET, 16))
                        .address(RTA_DST, "10.9.0.0")
                        .address(RTA_GATEWAY, "10.0.0.2")
                        .number(RTA_OIF, 7)
                        .number(RTA_PRIORITY, 20);
  const auto route = parse_route(m.get());
  ASSERT_TRUE(route);
  EXPECT_FALSE(route->removed);
  EXPECT_TRUE(route->replace);
  EXPECT_FALSE(route->append);
  EXPECT_EQ(route->prefix, prefix("10.9.0.0/16"));
  EXPECT_EQ(route->priority, 20u);
  EXPECT_EQ(route->hops, (std::vector<RouteMessage::Hop>{{7, ip("10.0.0.2"), false}}));
}

TEST(Messages, ADefaultRouteHasNoDestination) {
  const Message m = Message(RTM_DELROUTE, 0, route_header(AF_INET6, 0)).number(RTA_OIF, 7);
  const auto route = parse_route(m.get());
  ASSERT_TRUE(route);
  EXPECT_TRUE(route->removed);
  EXPECT_EQ(route->prefix, prefix("::/0"));
  EXPECT_EQ(route->hops, (std::vector<RouteMessage::Hop>{{7, std::nullopt, false}}));
}

TEST(Messages, AMultipathRouteHasAllItsNextHopsOfEitherFamily) {
  for (const bool via : {false, true}) {
    const std::vector<const char*> gateways =
        via ? std::vector{"fe80::1", "fe80::2"} : std::vector{"10.0.0.2", "10.0.1.2"};
    const auto bytes = multipath(gateways, via);
    const Message m = Message(RTM_NEWROUTE, 0, route_header(AF_INET, 8))
                          .address(RTA_DST, "20.0.0.0")
                          .bytes(RTA_MULTIPATH, bytes.data(), bytes.size());
    const auto route = parse_route(m.get());
    ASSERT_TRUE(route);
    EXPECT_EQ(route->hops,
              (std::vector<RouteMessage::Hop>{{11, ip(gateways[0]), false, 1}, {12, ip(gateways[1]), false, 2}}));
  }
}

TEST(Messages, RoutesOfOtherTablesAndCachedOnesAreLeftOut) {
  EXPECT_FALSE(parse_route(Message(RTM_NEWROUTE, 0, route_header(AF_INET, 0, RTN_UNICAST, 100)).get()));
  rtmsg cached = route_header(AF_INET6, 0);
  cached.rtm_flags = RTM_F_CLONED;
  EXPECT_FALSE(parse_route(Message(RTM_NEWROUTE, 0, cached).get()));
  const Message large_table = Message(RTM_NEWROUTE, 0, route_header(AF_INET, 0)).number(RTA_TABLE, 1000);
  EXPECT_FALSE(parse_route(large_table.get()));
}

TEST(Messages, ANeighbourHasItsAddressMacAndState) {
  ndmsg header{};
  header.ndm_family = AF_INET6;
  header.ndm_ifindex = 5;
  header.ndm_state = NUD_STALE;
  const wire::MacAddress mac = wire::MacAddress::from_u64(0x02aa00000001);
  const Message m = Message(RTM_NEWNEIGH, 0, header).address(NDA_DST, "2001:db8::2").bytes(NDA_LLADDR, &mac, 6);
  const auto neighbour = parse_neighbour(m.get());
  ASSERT_TRUE(neighbour);
  EXPECT_EQ(neighbour->index, 5);
  EXPECT_EQ(neighbour->address, ip("2001:db8::2"));
  EXPECT_EQ(neighbour->mac, mac);
  EXPECT_EQ(neighbour->state, NUD_STALE);
  EXPECT_FALSE(parse_neighbour(Message(RTM_NEWNEIGH, 0, header).address(NDA_DST, "ff02::1").get()));
}

TEST(Messages, AnAddressIsTheLocalOneOfALinkBetweenTwo) {
  ifaddrmsg header{};
  header.ifa_family = AF_INET;
  header.ifa_prefixlen = 31;
  header.ifa_index = 4;
  const Message m = Message(RTM_DELADDR, 0, header).address(IFA_ADDRESS, "10.0.0.0").address(IFA_LOCAL, "10.0.0.1");
  const auto address = parse_address(m.get());
  ASSERT_TRUE(address);
  EXPECT_TRUE(address->removed);
  EXPECT_EQ(address->index, 4);
  EXPECT_EQ(address->prefix, prefix("10.0.0.1/31"));
}

TEST(Messages, ALinkIsUpOrDown) {
  ifinfomsg header{};
  header.ifi_index = 3;
  EXPECT_FALSE(parse_link(Message(RTM_NEWLINK, 0, header).get())->up);
  header.ifi_flags = IFF_UP;
  EXPECT_TRUE(parse_link(Message(RTM_NEWLINK, 0, header).get())->up);
  EXPECT_FALSE(parse_link(Message(RTM_NEWLINK, 0, header).get())->carrier);
  for (const unsigned flag : {unsigned{IFF_RUNNING}, unsigned{IFF_LOWER_UP}}) {
    header.ifi_flags = IFF_UP | flag;
    EXPECT_TRUE(parse_link(Message(RTM_NEWLINK, 0, header).get())->carrier);
  }
}

TEST(Messages, WhatIsCutShortOrOfAnotherKindGivesNothing) {
  const auto bytes = multipath({"10.0.0.2", "10.0.1.2"});
  const Message m = Message(RTM_NEWROUTE, 0, route_header(AF_INET, 8))
                        .address(RTA_DST, "20.0.0.0")
                        .bytes(RTA_MULTIPATH, bytes.data(), bytes.size() - 3);
  const auto route = parse_route(m.get());
  ASSERT_TRUE(route);
  EXPECT_EQ(route->hops.size(), 1u);
  EXPECT_FALSE(parse_link(m.get()));
  EXPECT_FALSE(parse_neighbour(m.get()));
  EXPECT_FALSE(parse_address(m.get()));
  const std::uint32_t whole = m.get()->nlmsg_len;
  for (std::uint32_t length = sizeof(nlmsghdr); length < sizeof(nlmsghdr) + sizeof(rtmsg); ++length) {
    m.get()->nlmsg_len = length;
    EXPECT_FALSE(parse_route(m.get())) << length;
  }
  m.get()->nlmsg_len = whole;
  const Message long_prefix = Message(RTM_NEWROUTE, 0, route_header(AF_INET, 33)).address(RTA_DST, "20.0.0.0");
  EXPECT_FALSE(parse_route(long_prefix.get()));
}

}  // namespace
}  // namespace weft::kernel
