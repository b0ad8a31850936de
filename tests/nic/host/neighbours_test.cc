// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "nic/host/neighbours.h"

#include <gtest/gtest.h>
#include <net/if.h>

#include <thread>

#include "tests/nic/host/namespace.h"

namespace weft::nic {
namespace {

using testing::run;

wire::IpAddress ip(const char* text) {
  return *wire::IpAddress::parse(text);
}

class NeighboursTest : public testing::InNamespace {
 protected:
  [[nodiscard]] unsigned index() const { return if_nametoindex("here0"); }
};

TEST_F(NeighboursTest, ANeighbourOnTheLinkIsItsOwnNextHop) {
  for (const char* to : {"10.78.0.2", "fd78::2"}) {
    const auto hop = find_route(ip(to));
    ASSERT_TRUE(hop) << to;
    EXPECT_EQ(hop->interface, index());
    EXPECT_EQ(hop->gateway.to_string(), to);
  }
  EXPECT_EQ(find_route(ip("10.78.0.2"))->source.to_string(), "10.78.0.1");
}

TEST_F(NeighboursTest, OthersAreReachedByTheirGateway) {
  EXPECT_FALSE(find_route(ip("192.0.2.1")));
  ASSERT_TRUE(run("ip route add 192.0.2.0/24 via 10.78.0.9"));
  ASSERT_TRUE(run("ip route add 2001:db8::/32 via fd78::9"));
  EXPECT_EQ(find_route(ip("192.0.2.1"))->gateway.to_string(), "10.78.0.9");
  EXPECT_EQ(find_route(ip("2001:db8::5"))->gateway.to_string(), "fd78::9");
}

TEST_F(NeighboursTest, OneselfIsNoNextHop) {
  for (const char* own : {"10.78.0.1", "fd78::1"}) {
    EXPECT_FALSE(find_route(ip(own)));
    EXPECT_TRUE(is_own_address(ip(own)));
  }
  for (const char* other : {"10.78.0.2", "fd78::2", "192.0.2.1"}) EXPECT_FALSE(is_own_address(ip(other))) << other;
}

TEST_F(NeighboursTest, WhatTheKernelKnowsIsFoundOnItsInterfaceAlone) {
  for (const char* address : {"10.78.0.7", "fd78::7"}) {
    EXPECT_FALSE(find_neighbour(index(), ip(address)));
    ASSERT_TRUE(run(std::string("ip neigh add ") + address + " lladdr 02:00:00:00:00:07 dev here0"));
    ASSERT_TRUE(find_neighbour(index(), ip(address)));
    EXPECT_EQ(find_neighbour(index(), ip(address))->to_string(), "02:00:00:00:00:07");
    EXPECT_FALSE(find_neighbour(index() + 1000, ip(address)));
  }
}

TEST_F(NeighboursTest, TheKernelAsksForANeighbourWhenItIsTold) {
  ASSERT_FALSE(find_neighbour(index(), ip("10.78.0.2")));
  ask_for_neighbour(index(), ip("10.78.0.2"));
  // The answer comes through the veth, by way of a queue of the kernel.
  for (int i = 0; i < 10'000 && !find_neighbour(index(), ip("10.78.0.2")); ++i) std::this_thread::yield();
  EXPECT_TRUE(find_neighbour(index(), ip("10.78.0.2")));
}

}  // namespace
}  // namespace weft::nic
