// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/tables/route_table.h"

#include <gtest/gtest.h>

namespace weft::tables {
namespace {

using pipeline::RouteInfo;
using wire::IpAddress;
using wire::IpPrefix;

IpAddress ip(const char* text) {
  return *IpAddress::parse(text);
}

pipeline::SwitchInfo make_info() {
  pipeline::SwitchInfo info;
  for (pipeline::PortIndex port = 0; port < 3; ++port) {
    info.ports.emplace_back();
    info.ports.back().index = port;
  }
  for (const auto& [port, prefix] : {std::pair<pipeline::PortIndex, const char*>{0, "10.0.0.1/24"},
                                     {1, "10.0.1.0/31"},
                                     {1, "10.0.2.1/32"},
                                     {0, "2001:db8::1/64"},
                                     {1, "2001:db8:1::/127"}}) {
    info.addresses.push_back({port, *IpPrefix::parse(prefix), {}});
  }
  return info;
}

RouteInfo route(const char* prefix, std::vector<RouteInfo::Hop> via, bool blackhole = false) {
  return {*IpPrefix::parse(prefix), std::move(via), blackhole, {}};
}

class RouteTableTest : public testing::Test {
 protected:
  RouteTable table(const std::vector<RouteInfo>& routes) { return {interfaces_, routes, neighbours_, 1024}; }
  static NextHopId look_up(const RouteTable& table, const char* address) {
    const IpAddress a = ip(address);
    NextHopId id;
    if (a.is_v6()) {
      table.fib().lookup(std::span(&a.bytes(), 1), {&id, 1});
    } else {
      const std::uint32_t v4 = a.v4_value();
      table.fib().lookup(std::span(&v4, 1), {&id, 1});
    }
    return id;
  }
  static const Route* find(const RouteTable& table, const char* prefix) {
    for (const Route& r : table.routes()) {
      if (r.prefix == *IpPrefix::parse(prefix)) return &r;
    }
    return nullptr;
  }

  Interfaces interfaces_{make_info()};
  RcuDomain domain_{1};
  NeighbourTable neighbours_{64, domain_};
};

TEST_F(RouteTableTest, OwnAddressesAreLocalAndTheirSubnetsConnected) {
  const auto t = table({});
  EXPECT_EQ(look_up(t, "10.0.0.1"), kLocal);
  EXPECT_EQ(look_up(t, "2001:db8::1"), kLocal);
  const NextHopId hop = look_up(t, "10.0.0.2");
  ASSERT_TRUE(NextHops::is_hop(hop));
  EXPECT_TRUE(t.next_hops().hop(hop).attached);
  EXPECT_EQ(t.next_hops().hop(hop).port, 0);
  EXPECT_EQ(look_up(t, "2001:db8::2"), hop);
  EXPECT_EQ(look_up(t, "10.9.9.9"), kUnreachable);
}

TEST_F(RouteTableTest, FirstAndLastAddressOfASubnetAreNotForwarded) {
  const auto t = table({});
  EXPECT_EQ(look_up(t, "10.0.0.0"), kBroadcast);
  EXPECT_EQ(look_up(t, "10.0.0.255"), kBroadcast);
  EXPECT_EQ(look_up(t, "2001:db8::"), kLocal);
}

TEST_F(RouteTableTest, InTheSmallestSubnetsEveryAddressIsAHost) {
  const auto t = table({});
  EXPECT_EQ(look_up(t, "10.0.1.0"), kLocal);
  EXPECT_TRUE(NextHops::is_hop(look_up(t, "10.0.1.1")));
  EXPECT_EQ(look_up(t, "10.0.2.1"), kLocal);
  EXPECT_EQ(look_up(t, "2001:db8:1::"), kLocal);
  EXPECT_TRUE(NextHops::is_hop(look_up(t, "2001:db8:1::1")));
}

TEST_F(RouteTableTest, ANextHopsPortIsThatOfItsSubnetUnlessItIsNamed) {
  const auto t = table({route("20.0.0.0/8", {{ip("10.0.0.2"), {}}}), route("21.0.0.0/8", {{ip("10.0.0.2"), 2}}),
                        route("2001:db8:20::/48", {{ip("fe80::1"), 1}})});
  EXPECT_EQ(t.next_hops().hop(look_up(t, "20.0.0.1")).port, 0);
  EXPECT_EQ(t.next_hops().hop(look_up(t, "21.0.0.1")).port, 2);
  EXPECT_EQ(t.next_hops().hop(look_up(t, "2001:db8:20::1")).port, 1);
  EXPECT_NE(neighbours_.find(2, ip("10.0.0.2")), neighbours_.nobody());
}

TEST_F(RouteTableTest, SeveralNextHopsAreAGroup) {
  const auto t = table({route("20.0.0.0/8", {{ip("10.0.0.2"), {}}, {ip("10.0.0.3"), {}}})});
  const NextHopId group = look_up(t, "20.0.0.1");
  ASSERT_TRUE(NextHops::is_group(group));
  ASSERT_EQ(t.next_hops().members(group).size(), 2u);
  EXPECT_EQ(t.next_hops().address(t.next_hops().members(group)[1]), ip("10.0.0.3"));
}

TEST_F(RouteTableTest, ABlackholeAndARouteWithoutUsableNextHopAreToldApart) {
  const auto t = table({route("20.0.0.0/8", {}, true), route("21.0.0.0/8", {{ip("203.0.113.1"), {}}})});
  EXPECT_EQ(look_up(t, "20.0.0.1"), kBlackhole);
  EXPECT_EQ(look_up(t, "21.0.0.1"), kUnreachable);
}

TEST_F(RouteTableTest, ConnectedSubnetsAndOwnAddressesWinOverStaticRoutesOfTheSamePrefix) {
  const auto t = table({route("10.0.0.0/24", {}, true), route("10.0.0.1/32", {}, true),
                        route("10.0.0.255/32", {}, true), route("10.0.0.128/25", {}, true)});
  EXPECT_TRUE(NextHops::is_hop(look_up(t, "10.0.0.2")));
  EXPECT_EQ(look_up(t, "10.0.0.1"), kLocal);
  EXPECT_EQ(look_up(t, "10.0.0.255"), kBroadcast);
  EXPECT_EQ(look_up(t, "10.0.0.129"), kBlackhole);
  EXPECT_EQ(find(t, "10.0.0.0/24")->source, RouteSource::connected);
}

TEST_F(RouteTableTest, RoutesAreListedOnceWithTheirSource) {
  const auto t = table({route("20.0.0.0/8", {}, true)});
  EXPECT_EQ(to_string(find(t, "20.0.0.0/8")->source), "static");
  EXPECT_EQ(to_string(find(t, "10.0.0.1/32")->source), "local");
  EXPECT_EQ(to_string(find(t, "10.0.0.255/32")->source), "broadcast");
  EXPECT_EQ(to_string(find(t, "10.0.0.0/24")->source), "connected");
  for (std::size_t i = 1; i < t.routes().size(); ++i) EXPECT_LT(t.routes()[i - 1].prefix, t.routes()[i].prefix);
}

TEST_F(RouteTableTest, ASpecLeadsWhereItSaysAndNothingElseIsInTheTable) {
  const IpPrefix group = *IpPrefix::parse("10.7.0.0/16");
  const std::vector<RouteSpec> specs{
      {*IpPrefix::parse("10.7.1.0/24"), RouteSource::connected, kUnreachable, {{2, {}, true}}},
      {group, RouteSource::kernel, kUnreachable, {{0, ip("10.0.0.9"), false}, {1, ip("fe80::9"), false}}},
      {group, RouteSource::kernel, kBlackhole, {}},
      {*IpPrefix::parse("10.7.1.1/32"), RouteSource::local, kLocal, {}},
      {*IpPrefix::parse("10.8.0.0/16"), RouteSource::kernel, kProhibited, {}, 186}};
  const RouteTable t(interfaces_, specs, neighbours_, 1024);
  ASSERT_EQ(t.routes().size(), 4u);
  EXPECT_EQ(look_up(t, "10.8.0.1"), kProhibited);
  EXPECT_EQ(find(t, "10.8.0.0/16")->protocol, 186);
  EXPECT_EQ(look_up(t, "10.7.1.1"), kLocal);
  EXPECT_TRUE(t.next_hops().hop(look_up(t, "10.7.1.2")).attached);
  const NextHopId id = look_up(t, "10.7.9.9");
  ASSERT_TRUE(NextHops::is_group(id));
  EXPECT_EQ(t.next_hops().address(t.next_hops().members(id)[1]), ip("fe80::9"));
  EXPECT_EQ(look_up(t, "10.0.0.1"), kUnreachable);
}

}  // namespace
}  // namespace weft::tables
