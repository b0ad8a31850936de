// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/tables/next_hops.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>

namespace weft::tables {
namespace {

using pipeline::SwitchInfo;
using wire::IpAddress;
using wire::MacAddress;

const IpAddress kRouter = IpAddress::v4(0x0a000002);
const IpAddress kOther = IpAddress::v4(0x0a000003);

SwitchInfo make_info() {
  SwitchInfo info;
  for (pipeline::PortIndex port = 0; port < 2; ++port) {
    info.ports.emplace_back();
    info.ports.back().index = port;
    info.ports.back().mac = MacAddress::from_u64(0x0a1b2c3d4e50u + port);
    info.ports.back().mtu_bytes = 4200;
  }
  return info;
}

class NextHopsTest : public testing::Test {
 protected:
  Interfaces interfaces_{make_info()};
  RcuDomain domain_{1};
  NeighbourTable neighbours_{16, domain_};
  NextHops hops_{interfaces_, neighbours_};
};

TEST_F(NextHopsTest, TheSameHopHasOneNumber) {
  const auto attached = hops_.add_attached(0);
  const auto router = hops_.add_router(0, kRouter);
  EXPECT_EQ(hops_.add_attached(0), attached);
  EXPECT_EQ(hops_.add_router(0, kRouter), router);
  EXPECT_NE(hops_.add_attached(1), attached);
  EXPECT_NE(hops_.add_router(1, kRouter), router);
  EXPECT_NE(hops_.add_router(0, kOther), router);
}

TEST_F(NextHopsTest, NumbersOfHopsGroupsAndOutcomesAreDistinct) {
  const auto a = hops_.add_router(0, kRouter);
  const auto b = hops_.add_router(0, kOther);
  const auto group = hops_.add_group({a, b});
  for (const auto id : {kUnreachable, kBlackhole, kLocal, kBroadcast}) {
    EXPECT_FALSE(NextHops::is_hop(id));
    EXPECT_FALSE(NextHops::is_group(id));
  }
  EXPECT_TRUE(NextHops::is_hop(a));
  EXPECT_FALSE(NextHops::is_group(a));
  EXPECT_TRUE(NextHops::is_group(group));
  EXPECT_FALSE(NextHops::is_hop(group));
  EXPECT_TRUE(hops_.has_group(group));
  EXPECT_FALSE(hops_.has_group(group + 1));
  EXPECT_FALSE(hops_.has_group(a));
}

TEST_F(NextHopsTest, AGroupKeepsTheOrderOfItsMembersAndOneMemberIsNoGroup) {
  const auto a = hops_.add_router(0, kRouter);
  const auto b = hops_.add_router(0, kOther);
  const auto ab = hops_.add_group({a, b});
  const auto ba = hops_.add_group({b, a});
  EXPECT_NE(ab, ba);
  EXPECT_EQ(hops_.add_group({a, b}), ab);
  EXPECT_EQ(std::vector(hops_.members(ab).begin(), hops_.members(ab).end()), (std::vector{a, b}));
  EXPECT_EQ(std::vector(hops_.members(ba).begin(), hops_.members(ba).end()), (std::vector{b, a}));
  EXPECT_EQ(hops_.add_group({b}), b);
}

TEST_F(NextHopsTest, AHopKnowsItsPortMtuNeighbourAndAddress) {
  const auto id = hops_.add_router(1, kRouter);
  const NextHop& hop = hops_.hop(id);
  EXPECT_EQ(hop.port, 1);
  EXPECT_FALSE(hop.attached);
  EXPECT_EQ(hop.mtu_bytes, 4200u);
  EXPECT_EQ(hop.neighbour, neighbours_.find(1, kRouter));
  EXPECT_EQ(hops_.address(id), kRouter);
  EXPECT_EQ(hops_.address_of(hop), kRouter);
  EXPECT_TRUE(hops_.hop(hops_.add_attached(1)).attached);
}

TEST_F(NextHopsTest, WriteMacsWritesTwelveBytesAndNoMore) {
  const NextHop& hop = hops_.hop(hops_.add_router(1, kRouter));
  std::array<std::uint8_t, 16> frame;
  frame.fill(0xee);
  hop.write_macs(frame.data(), NeighbourWord(MacAddress::from_u64(0x020304050607), NeighbourState::reachable));
  EXPECT_EQ(frame, (std::array<std::uint8_t, 16>{2, 3, 4, 5, 6, 7, 0x0a, 0x1b, 0x2c, 0x3d, 0x4e, 0x51, 0xee, 0xee, 0xee,
                                                 0xee}));
}

TEST_F(NextHopsTest, RoutersStayInTheNeighbourTableAsLongAsTheHops) {
  const NeighbourTimes at_once{.reachable_ns = 0, .stale_ns = 0, .unresolved_ns = 0};
  {
    NextHops more(interfaces_, neighbours_);
    more.add_router(0, kRouter);
    neighbours_.age(1, at_once);
    EXPECT_NE(neighbours_.find(0, kRouter), neighbours_.nobody());
  }
  neighbours_.age(1, at_once);
  EXPECT_EQ(neighbours_.find(0, kRouter), neighbours_.nobody());
}

TEST_F(NextHopsTest, ARouterWithoutRoomInTheTableHasNobodyAsNeighbour) {
  NeighbourTable tiny(1, domain_);
  NextHops many(interfaces_, tiny);
  bool full = false;
  for (std::uint32_t i = 0; i < 100; ++i) {
    full = full || many.hop(many.add_router(0, IpAddress::v4(i))).neighbour == tiny.nobody();
  }
  EXPECT_TRUE(full);
}

}  // namespace
}  // namespace weft::tables
