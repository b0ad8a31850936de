// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include <gtest/gtest.h>

#include "switch/config/switch_builder.h"
#include "tests/support/config_mistakes.h"

namespace weft::config {
namespace {

using testing::expect_accepted;
using testing::expect_mistakes;
using testing::router_with;

pipeline::SwitchInfo switch_of(std::string_view text) {
  return expect_accepted(text).switches.at(0);
}

// A routing switch with the ports p1 and p2 whose addresses are `items` (indented by six).
std::string addressed(std::string_view items) {
  return "switches:\n"
         "  - name: s1\n"
         "    ports: [ { name: p1, type: null }, { name: p2, type: null } ]\n"
         "    pipeline: [parse, l3, lb]\n"
         "    addresses:\n" +
         std::string(items);
}

TEST(Addresses, KeepTheirHostBitsAndTheLengthOfTheirSubnet) {
  const auto sw = switch_of(router_with(""));
  ASSERT_EQ(sw.addresses.size(), 3u);
  EXPECT_EQ(sw.addresses[0].prefix.to_string(), "10.0.1.1/24");
  EXPECT_EQ(sw.addresses[0].port, 0);
  EXPECT_EQ(sw.addresses[2].prefix.to_string(), "10.0.2.1/24");
  EXPECT_EQ(sw.addresses[2].port, 1);
  EXPECT_EQ(sw.addresses[2].mark.line, 10);
}

TEST(Addresses, OfTheSmallestSubnetsMayBeTheFirstAndTheLast) {
  const auto sw =
      switch_of(addressed("      - { port: p1, address: 10.0.0.0/31 }\n"
                          "      - { port: p2, address: 10.0.0.3/31 }\n"
                          "      - { port: p1, address: 10.1.0.0/32 }\n"
                          "      - { port: p1, address: \"2001:db8::/127\" }\n"
                          "      - { port: p2, address: \"2001:db8::7/128\" }\n"
                          "      - { port: p2, address: \"2001:db8:1::ffff:ffff:ffff:ffff/64\" }\n"));
  EXPECT_EQ(sw.addresses.size(), 6u);
}

TEST(Addresses, ThatNoInterfaceCanHaveAreRefused) {
  expect_mistakes(
      addressed("      - { port: p1, address: @10.0.1.0/24 }\n"
                "      - { port: p1, address: @10.0.1.255/24 }\n"
                "      - { port: p1, address: @224.0.0.5/24 }\n"
                "      - { port: p1, address: @127.0.0.1/8 }\n"
                "      - { port: p1, address: @0.0.0.0/24 }\n"
                "      - { port: p1, address: @255.255.255.255/32 }\n"
                "      - { port: p1, address: @10.0.0.1/0 }\n"
                "      - { port: p1, address: @\"2001:db8::/64\" }\n"
                "      - { port: p1, address: @\"ff02::1/64\" }\n"
                "      - { port: p1, address: @\"::1/128\" }\n"
                "      - { port: p1, address: @\"::/128\" }\n"),
      {"address: 10.0.1.0/24 is the network address of 10.0.1.0/24, not that of an interface",
       "address: 10.0.1.255/24 is the broadcast address of 10.0.1.0/24, not that of an interface",
       "address: 224.0.0.5/24 is a multicast address, not that of an interface",
       "address: 127.0.0.1/8 is a loopback address, not that of an interface",
       "address: 0.0.0.0/24 is the unspecified address, not that of an interface",
       "address: 255.255.255.255/32 is the broadcast address, not that of an interface",
       "address: 10.0.0.1/0 is a subnet that holds every address, not that of an interface",
       "address: 2001:db8::/64 is the subnet-router anycast address of 2001:db8::/64, not that of an interface",
       "address: ff02::1/64 is a multicast address, not that of an interface",
       "address: ::1/128 is a loopback address, not that of an interface",
       "address: ::/128 is the unspecified address, not that of an interface"});
}

TEST(Addresses, StandOnce) {
  expect_mistakes(addressed("      - { port: p1, address: 10.0.1.1/24 }\n"
                            "      - { port: p1, address: @10.0.1.1/25 }\n"
                            "      - { port: p2, address: @10.0.1.1/24 }\n"),
                  {"address: 10.0.1.1 is already an address of port 'p1' (line 6)",
                   "address: 10.0.1.1 is already an address of port 'p1' (line 6)"});
}

TEST(Addresses, OfDifferentPortsAreInDisjointSubnets) {
  expect_mistakes(addressed("      - { port: p1, address: 10.0.1.1/24 }\n"
                            "      - { port: p2, address: @10.0.1.2/24 }\n"),
                  {"address: subnet 10.0.1.0/24 of port 'p2' overlaps 10.0.1.0/24 of port 'p1' (line 6)"});
  expect_mistakes(addressed("      - { port: p1, address: 10.0.1.1/24 }\n"
                            "      - { port: p1, address: 10.0.9.1/24 }\n"
                            "      - { port: p2, address: @@10.0.0.1/16 }\n"),
                  {"address: subnet 10.0.0.0/16 of port 'p2' overlaps 10.0.1.0/24 of port 'p1' (line 6)",
                   "address: subnet 10.0.0.0/16 of port 'p2' overlaps 10.0.9.0/24 of port 'p1' (line 7)"});
  expect_mistakes(addressed("      - { port: p1, address: \"2001:db8::1/32\" }\n"
                            "      - { port: p2, address: @\"2001:db8:5::1/64\" }\n"),
                  {"address: subnet 2001:db8:5::/64 of port 'p2' overlaps 2001:db8::/32 of port 'p1' (line 6)"});
}

TEST(Addresses, OfOnePortMayShareASubnet) {
  EXPECT_EQ(switch_of(addressed("      - { port: p1, address: 10.0.1.1/24 }\n"
                                "      - { port: p1, address: 10.0.1.2/24 }\n"
                                "      - { port: p1, address: 10.0.1.3/25 }\n"))
                .addresses.size(),
            3u);
}

TEST(Addresses, ThatAreLinkLocalMayRepeatOnEveryLink) {
  EXPECT_EQ(switch_of(addressed("      - { port: p1, address: \"fe80::1/64\" }\n"
                                "      - { port: p2, address: \"fe80::1/64\" }\n"))
                .addresses.size(),
            2u);
  expect_mistakes(addressed("      - { port: p1, address: \"fe80::1/64\" }\n"
                            "      - { port: p1, address: @\"fe80::1/64\" }\n"),
                  {"address: fe80::1 is already an address of port 'p1' (line 6)"});
}

TEST(Addresses, OfIpv6NeedAnMtuOf1280) {
  expect_mistakes(R"(
switches:
  - name: s1
    ports: [ { name: p2, type: null, mtu_bytes: 1280 }, { name: p1, type: null, mtu_bytes: @1279 } ]
    pipeline: [parse, l3, lb]
    addresses:
      - { port: p1, address: "2001:db8:1::1/64" }
      - { port: p1, address: "2001:db8:3::1/64" }
      - { port: p2, address: "2001:db8:2::1/64" }
)",
                  {"mtu_bytes: port 'p1' has an IPv6 address and needs at least 1280, found 1279"});
}

TEST(Addresses, ArePlacedOnPortsThatExist) {
  expect_mistakes(addressed("      - { port: @p3, address: 10.0.1.1/24 }\n"),
                  {"port: unknown port 'p3'; did you mean 'p1'?"});
}

TEST(Neighbours, AreRead) {
  const auto sw =
      switch_of(router_with("    neighbours:\n"
                            "      - { port: p1, address: 10.0.1.2, mac: 02:00:00:00:00:02 }\n"
                            "      - { port: p1, address: \"fe80::2\", mac: 02:00:00:00:00:02 }\n"));
  ASSERT_EQ(sw.neighbours.size(), 2u);
  EXPECT_EQ(sw.neighbours[0].port, 0);
  EXPECT_EQ(sw.neighbours[0].address.to_string(), "10.0.1.2");
  EXPECT_EQ(sw.neighbours[0].mac.to_string(), "02:00:00:00:00:02");
}

TEST(Neighbours, AreHostsOfASubnetOfTheirPort) {
  expect_mistakes(
      router_with("    neighbours:\n"
                  "      - { port: p1, address: @10.0.2.2, mac: 02:00:00:00:00:02 }\n"
                  "      - { port: p1, address: @10.0.3.2, mac: 02:00:00:00:00:02 }\n"
                  "      - { port: p1, address: @10.0.1.1, mac: 02:00:00:00:00:02 }\n"
                  "      - { port: p1, address: @10.0.1.255, mac: 02:00:00:00:00:02 }\n"
                  "      - { port: p1, address: @224.0.0.1, mac: 02:00:00:00:00:02 }\n"
                  "      - { port: p1, address: 10.0.1.9, mac: @ff:ff:ff:ff:ff:ff }\n"
                  "      - { port: @p7, address: 10.0.1.10, mac: 02:00:00:00:00:02 }\n"
                  "      - { port: p2, address: 10.0.2.2, mac: 02:00:00:00:00:02 }\n"
                  "      - { port: p2, address: @10.0.2.2, mac: 02:00:00:00:00:03 }\n"),
      {"address: 10.0.2.2 is in no subnet connected to port 'p1'",
       "address: 10.0.3.2 is in no subnet connected to port 'p1'",
       "address: 10.0.1.1 is this switch's own address on port 'p1', not a neighbour",
       "address: 10.0.1.255 is the broadcast address of 10.0.1.0/24, not a neighbour",
       "address: 224.0.0.1 is a multicast address, not a neighbour",
       "mac: expected a unicast address, found ff:ff:ff:ff:ff:ff", "port: unknown port 'p7'; did you mean 'p1'?",
       "address: neighbour 10.0.2.2 of port 'p2' stands twice, first at line 19"});
}

TEST(Routes, AreRead) {
  const auto sw =
      switch_of(router_with("    routes:\n"
                            "      - { prefix: 0.0.0.0/0, via: [10.0.1.9, { address: 10.0.2.9 }] }\n"
                            "      - { prefix: 192.0.2.0/24, blackhole: true }\n"
                            "      - { prefix: 198.51.100.7/32, via: [{ address: 10.9.9.9, port: p2 }] }\n"
                            "      - { prefix: \"2001:db8:9::/48\", via: [\"2001:db8:1::9\"] }\n"
                            "      - { prefix: \"::/0\", via: [{ address: \"fe80::9\", port: p1 }] }\n"));
  ASSERT_EQ(sw.routes.size(), 5u);
  EXPECT_EQ(sw.routes[0].via.size(), 2u);
  EXPECT_EQ(sw.routes[0].via[1].address.to_string(), "10.0.2.9");
  EXPECT_FALSE(sw.routes[0].via[1].port.has_value());
  EXPECT_TRUE(sw.routes[1].blackhole);
  EXPECT_TRUE(sw.routes[1].via.empty());
  EXPECT_EQ(sw.routes[2].via[0].port, 1);
  EXPECT_EQ(sw.routes[3].prefix.to_string(), "2001:db8:9::/48");
}

TEST(Routes, HavePrefixesWithoutHostBitsThatStandOnceAndAreNotConnected) {
  expect_mistakes(router_with("    routes:\n"
                              "      - { prefix: @10.0.5.1/24, blackhole: true }\n"
                              "      - { prefix: 10.0.6.0/24, blackhole: true }\n"
                              "      - { prefix: @10.0.6.0/24, via: [10.0.1.2] }\n"
                              "      - { prefix: @10.0.2.0/24, blackhole: true }\n"
                              "      - { prefix: @224.0.0.0/4, blackhole: true }\n"
                              "      - { prefix: @224.0.0.5/4, blackhole: true }\n"
                              "      - { prefix: @\"2001:db8:1::5/64\", blackhole: true }\n"),
                  {"prefix: 10.0.5.1/24 has host bits; the network is 10.0.5.0/24",
                   "prefix: 10.0.6.0/24 is routed twice, first at line 13",
                   "prefix: 10.0.2.0/24 is the connected subnet of port 'p2'",
                   "prefix: 224.0.0.0/4 is multicast; only unicast is routed",
                   "prefix: 224.0.0.5/4 has host bits; the network is 224.0.0.0/4",
                   "prefix: 2001:db8:1::5/64 has host bits; the network is 2001:db8:1::/64"});
}

TEST(Routes, HaveNextHopsOrAreBlackholes) {
  expect_mistakes(
      router_with("    routes:\n"
                  "      - @{ prefix: 10.0.5.0/24 }\n"
                  "      - @{ prefix: 10.0.6.0/24, blackhole: false }\n"
                  "      - { prefix: 10.0.7.0/24, via: [10.0.1.2], blackhole: @true }\n"
                  "      - { prefix: 10.0.8.0/24, via: @[] }\n"),
      {"routes: expected 'via' or 'blackhole: true', found neither",
       "routes: expected 'via' or 'blackhole: true', found neither",
       "blackhole: the route has 'via' too (line 14); expected one of them", "via: expected at least 1 item, found 0"});
  EXPECT_EQ(switch_of(router_with("    routes: [ { prefix: 10.0.7.0/24, via: [10.0.1.2], blackhole: false } ]\n"))
                .routes.size(),
            1u);
}

TEST(Routes, HaveNextHopsThatCanBeReached) {
  expect_mistakes(router_with("    routes:\n"
                              "      - { prefix: 10.1.0.0/24, via: [@10.0.3.2] }\n"
                              "      - { prefix: 10.2.0.0/24, via: [@10.0.1.1] }\n"
                              "      - { prefix: 10.3.0.0/24, via: [@10.0.1.255] }\n"
                              "      - { prefix: 10.4.0.0/24, via: [@224.0.0.1] }\n"
                              "      - { prefix: 10.5.0.0/24, via: [@\"2001:db8:1::2\"] }\n"
                              "      - { prefix: \"2001:db8:8::/48\", via: [@10.0.1.2] }\n"
                              "      - { prefix: \"2001:db8:9::/48\", via: [@\"fe80::2\"] }\n"
                              "      - { prefix: 10.6.0.0/24, via: [10.0.1.2, @10.0.1.2] }\n"
                              "      - { prefix: 10.7.0.0/24, via: [{ address: 10.9.9.9, port: @p5 }] }\n"
                              "      - { prefix: 10.8.0.0/24, via: [@{ port: p1 }] }\n"),
                  {"via: 10.0.3.2 is in no connected subnet; add an address to a port, or name the port",
                   "via: 10.0.1.1 is this switch's own address on port 'p1', not a next hop",
                   "via: 10.0.1.255 is the broadcast address of 10.0.1.0/24, not a next hop",
                   "via: 224.0.0.1 is a multicast address, not a next hop",
                   "via: 2001:db8:1::2 and prefix 10.5.0.0/24 are of different address families",
                   "via: 10.0.1.2 and prefix 2001:db8:8::/48 are of different address families",
                   "via: fe80::2 is link-local; expected { address: fe80::2, port: ... }",
                   "via: 10.0.1.2 stands twice in this route", "port: unknown port 'p5'; did you mean 'p1'?",
                   "via[0]: missing key 'address' (an IP address such as 10.0.0.1 or 2001:db8::1)"});
}

TEST(Routes, HaveAtMost64NextHops) {
  std::string via;
  for (int i = 2; i < 66; ++i) via += "10.0.1." + std::to_string(i) + ", ";
  const std::string start = "    routes: [ { prefix: 10.1.0.0/24, via: [" + via;
  EXPECT_EQ(switch_of(router_with(start + "] } ]\n")).routes.at(0).via.size(), 64u);
  expect_mistakes(router_with(start + "@10.0.1.66] } ]\n"), {"via: more than 64 next hops"});
}

TEST(Routes, AreNotBlamedForAddressesThatWereWrong) {
  expect_mistakes(addressed("      - { port: p1, address: @10.0.1.0/24 }\n"
                            "    routes: [ { prefix: 10.5.0.0/24, via: [10.0.1.2] } ]\n"
                            "    neighbours: [ { port: p1, address: 10.0.1.2, mac: 02:00:00:00:00:02 } ]\n"),
                  {"address: 10.0.1.0/24 is the network address of 10.0.1.0/24, not that of an interface"});
}

TEST(Routes, AreNotBlamedForAddressesThatAreNotThere) {
  expect_mistakes(R"(
switches:
  - name: s1
    ports: [ { name: p1, type: null } ]
    pipeline: [parse, @l3]
    routes: [ { prefix: 10.5.0.0/24, via: [10.0.1.2] } ]
    neighbours: [ { port: p1, address: 10.0.1.2, mac: 02:00:00:00:00:02 } ]
)",
                  {"stage 'l3' needs 'addresses' of the switch, found none"});
}

}  // namespace
}  // namespace weft::config
