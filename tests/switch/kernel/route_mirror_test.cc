// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/kernel/route_mirror.h"

#include <gtest/gtest.h>
#include <linux/rtnetlink.h>

namespace weft::kernel {
namespace {

using Effect = RouteMirror::Effect;
using Hop = RouteMessage::Hop;
using tables::RouteSource;
using tables::RouteSpec;

wire::IpAddress ip(const char* text) {
  return *wire::IpAddress::parse(text);
}

// Interfaces 11 and 12 are the ports 0 and 1.
const PortByIndex kPorts{{11, 0}, {12, 1}};

RouteMessage route(const char* prefix, std::vector<Hop> hops, std::uint32_t priority = 0) {
  RouteMessage message;
  message.prefix = *wire::IpPrefix::parse(prefix);
  message.type = RTN_UNICAST;
  message.protocol = RTPROT_STATIC;
  message.priority = priority;
  message.hops = std::move(hops);
  return message;
}
RouteMessage gone(RouteMessage message) {
  message.removed = true;
  return message;
}
RouteMessage of_type(const char* prefix, std::uint8_t type) {
  RouteMessage message = route(prefix, {});
  message.type = type;
  return message;
}
const Hop kFirst{11, ip("10.0.0.2"), false};
const Hop kSecond{12, ip("10.0.1.2"), false};

RouteSpec only(const RouteMirror& mirror) {
  const auto specs = mirror.specs(kPorts);
  EXPECT_EQ(specs.size(), 1u);
  return specs.empty() ? RouteSpec{} : specs[0];
}

TEST(RouteMirror, SeveralNextHopsAreAGroupInTheOrderOfTheKernel) {
  RouteMirror mirror;
  EXPECT_EQ(mirror.apply(route("10.9.0.0/16", {kSecond, kFirst})), Effect::changed);
  const RouteSpec expected{*wire::IpPrefix::parse("10.9.0.0/16"),
                           RouteSource::kernel,
                           tables::kUnreachable,
                           {{1, ip("10.0.1.2"), false}, {0, ip("10.0.0.2"), false}},
                           RTPROT_STATIC};
  EXPECT_EQ(only(mirror), expected);
}

TEST(RouteMirror, ARouteWithoutAGatewayIsAttachedAndTheKernelsOwnIsConnected) {
  RouteMirror mirror;
  RouteMessage message = route("10.0.0.0/24", {{11, std::nullopt, false}});
  message.protocol = RTPROT_KERNEL;
  mirror.apply(message);
  EXPECT_EQ(only(mirror).source, RouteSource::connected);
  EXPECT_TRUE(only(mirror).hops[0].attached);
}

TEST(RouteMirror, TypesSayWhatHappensWithoutANextHop) {
  for (const auto& [type, special] : {std::pair<std::uint8_t, tables::NextHopId>{RTN_LOCAL, tables::kLocal},
                                      {RTN_ANYCAST, tables::kLocal},
                                      {RTN_BROADCAST, tables::kBroadcast},
                                      {RTN_BLACKHOLE, tables::kBlackhole},
                                      {RTN_UNREACHABLE, tables::kUnreachable},
                                      {RTN_PROHIBIT, tables::kProhibited}}) {
    RouteMirror mirror;
    mirror.apply(of_type("10.9.0.0/16", type));
    EXPECT_EQ(only(mirror).special, special) << int{type};
    EXPECT_TRUE(only(mirror).hops.empty());
  }
}

TEST(RouteMirror, WhoInstalledARouteIsKnown) {
  RouteMirror mirror;
  RouteMessage message = route("10.9.0.0/16", {kFirst});
  mirror.apply(message);
  EXPECT_EQ(only(mirror).protocol, RTPROT_STATIC);
  message.protocol = RTPROT_BGP;
  message.replace = true;
  EXPECT_EQ(mirror.apply(message), Effect::changed);
  EXPECT_EQ(only(mirror).protocol, RTPROT_BGP);
}

TEST(RouteMirror, WeightsAreNoticedWhereTheyDiffer) {
  RouteMessage message = route("10.9.0.0/16", {kFirst, kSecond});
  EXPECT_FALSE(has_weights(message));
  message.hops[0].weight = message.hops[1].weight = 5;
  EXPECT_FALSE(has_weights(message));
  message.hops[1].weight = 1;
  EXPECT_TRUE(has_weights(message));
  EXPECT_FALSE(has_weights(route("10.9.0.0/16", {})));
}

TEST(RouteMirror, ARouteThroughOtherInterfacesLeadsToTheKernelAndPortsWinOverThem) {
  RouteMirror mirror;
  mirror.apply(route("10.9.0.0/16", {{99, ip("192.0.2.1"), false}}));
  EXPECT_EQ(only(mirror).special, tables::kLocal);
  mirror.apply(route("10.9.0.0/16", {{99, ip("192.0.2.1"), false}, kFirst}));
  EXPECT_EQ(only(mirror).hops.size(), 1u);
}

TEST(RouteMirror, NextHopsThatAreDeadAreNotUsed) {
  RouteMirror mirror;
  mirror.apply(route("10.9.0.0/16", {{11, ip("10.0.0.2"), true}, kSecond}));
  EXPECT_EQ(only(mirror).hops, (std::vector<RouteSpec::Hop>{{1, ip("10.0.1.2"), false}}));
}

TEST(RouteMirror, TheLocalTableComesFirstAndThenTheLowestPriority) {
  RouteMirror mirror;
  mirror.apply(route("10.9.0.1/32", {kFirst}, 20));
  mirror.apply(route("10.9.0.1/32", {kSecond}, 10));
  EXPECT_EQ(only(mirror).hops[0].port, 1);
  RouteMessage local = of_type("10.9.0.1/32", RTN_LOCAL);
  local.local_table = true;
  mirror.apply(local);
  EXPECT_EQ(only(mirror).special, tables::kLocal);
  mirror.apply(gone(local));
  EXPECT_EQ(mirror.apply(gone(route("10.9.0.1/32", {kSecond}, 10))), Effect::changed);
  EXPECT_EQ(only(mirror).hops[0].port, 0);
}

TEST(RouteMirror, WhatTheSwitchNeverLooksUpIsLeftOut) {
  RouteMirror mirror;
  for (const char* prefix : {"127.0.0.0/8", "::1/128", "fe80::/64", "ff00::/8", "224.0.0.0/4"}) {
    EXPECT_EQ(mirror.apply(route(prefix, {kFirst})), Effect::none) << prefix;
  }
  EXPECT_EQ(mirror.apply(of_type("10.9.0.0/16", RTN_THROW)), Effect::none);
  EXPECT_EQ(mirror.size(), 0u);
}

TEST(RouteMirror, TheSameRouteAgainChangesNothingAndARemovedOneIsGone) {
  RouteMirror mirror;
  mirror.apply(route("10.9.0.0/16", {kFirst}));
  EXPECT_EQ(mirror.apply(route("10.9.0.0/16", {kFirst})), Effect::none);
  EXPECT_EQ(mirror.apply(gone(route("10.9.0.0/16", {kFirst}))), Effect::changed);
  EXPECT_EQ(mirror.apply(gone(route("10.9.0.0/16", {kFirst}))), Effect::none);
  EXPECT_TRUE(mirror.specs(kPorts).empty());
}

TEST(RouteMirror, AnAppendedRouteIsBehindTheFirstAndItsTurnIsUnclear) {
  RouteMirror mirror;
  mirror.apply(route("10.9.0.0/16", {kFirst}));
  RouteMessage second = route("10.9.0.0/16", {kSecond});
  second.append = true;
  EXPECT_EQ(mirror.apply(second), Effect::none);
  EXPECT_EQ(only(mirror).hops[0].port, 0);
  EXPECT_EQ(mirror.apply(gone(route("10.9.0.0/16", {kFirst}))), Effect::unclear);
}

TEST(RouteMirror, AnIpv6RouteLosesOneNextHopAfterTheOther) {
  const Hop first{11, ip("2001:db8::2"), false};
  const Hop second{12, ip("2001:db8:1::2"), false};
  RouteMirror mirror;
  mirror.apply(route("2001:db8:9::/48", {first, second}, 1024));
  EXPECT_EQ(mirror.apply(gone(route("2001:db8:9::/48", {first}, 1024))), Effect::changed);
  ASSERT_EQ(only(mirror).hops.size(), 1u);
  EXPECT_EQ(only(mirror).hops[0].port, 1);
  mirror.apply(gone(route("2001:db8:9::/48", {second}, 1024)));
  EXPECT_EQ(mirror.size(), 0u);
}

}  // namespace
}  // namespace weft::kernel
