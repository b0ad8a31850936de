// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Every test sends packets of one flow before and after something changes: the second packet must not go the way that
// was right for the first.
#include "switch/stages/l3/flows.h"

#include <algorithm>
#include <numeric>
#include <span>
#include <vector>

#include "switch/stages/l3/drops.h"
#include "switch/tables/ecmp_hash.h"
#include "tests/switch/stages/l3/router.h"

namespace weft::stages {
namespace {

class L3FlowsTest : public BothFamilies {
 protected:
  FrameBuilder packet(std::uint8_t psn) const {
    return from_a(f(), f().far).bth(wire::Opcode::RC_SEND_ONLY, wire::Qpn(17), wire::Psn(psn));
  }
  void send(Router& r, std::uint8_t psn) const { r.h.inject("h1", packet(psn).build()); }
};
WEFT_BOTH_FAMILIES(L3FlowsTest);

TEST_P(L3FlowsTest, ThePacketsOfAFlowLeaveAlike) {
  Router r;
  for (std::uint8_t psn = 0; psn < 5; ++psn) {
    send(r, psn);
    EXPECT_EQ(r.sent("u1"), only(routed(packet(psn), kU1, 11))) << int{psn};
  }
}

TEST_P(L3FlowsTest, ANeighbourThatMovesIsFollowed) {
  Router r({.neighbours_known = false});
  const std::string own = f().v6 ? "2001:db8:11::1" : "10.1.1.1";
  send(r, 1);
  r.h.inject("u1", answer(f(), f().uplink, 11, own, kU1));
  r.sent("u1");
  send(r, 2);
  send(r, 3);
  EXPECT_EQ(r.sent("u1"), (std::vector<Bytes>{routed(packet(2), kU1, 11).build(), routed(packet(3), kU1, 11).build()}));
  r.h.inject("u1", answer(f(), f().uplink, 99, own, kU1));
  send(r, 4);
  EXPECT_EQ(r.sent("u1"), only(routed(packet(4), kU1, 99)));
}

TEST_P(L3FlowsTest, NewRoutesHoldFromTheNextBurstOn) {
  Router r;
  send(r, 1);
  send(r, 2);
  r.sent("u1");
  pipeline::RouteInfo route;
  route.prefix = *wire::IpPrefix::parse(f().v6 ? "2001:db8:20::/48" : "20.0.0.0/8");
  route.via.push_back({ip(f().v6 ? "2001:db8:12::2" : "10.1.2.2"), std::nullopt});
  r.h.shared<L3Shared>("l3").set_routes({route});
  send(r, 3);
  EXPECT_EQ(r.sent("u1").size(), 0u);
  EXPECT_EQ(r.sent("u2"), only(routed(packet(3), kU2, 12)));
}

TEST_P(L3FlowsTest, AFlowOverAGroupLeavesAPortThatGoesDownAndComesBack) {
  Router r;
  const auto ways = [&] {
    r.h.inject("h1", from_a(f(), f().spread).build());
    std::string result;
    for (const char* uplink : {"u1", "u2", "u3"}) result += static_cast<char>('0' + r.sent(uplink).size());
    return result;
  };
  const std::string before = ways();
  EXPECT_EQ(ways(), before);
  const char* const own = before == "100" ? "u1" : before == "010" ? "u2" : "u3";
  r.h.set_link(own, false);
  const std::string meanwhile = ways();
  EXPECT_NE(meanwhile, before);
  EXPECT_EQ(std::count(meanwhile.begin(), meanwhile.end(), '1'), 1) << meanwhile;
  r.h.set_link(own, true);
  EXPECT_EQ(ways(), before);
  EXPECT_EQ(r.h.counter("lb", "balanced"), 4u);
}

TEST_P(L3FlowsTest, AFlowOverAGroupLeavesAPortThatIsExcludedAndComesBack) {
  Router r;
  const auto way = [&] {
    r.h.inject("h1", from_a(f(), f().spread).build());
    std::string taken;
    for (const char* uplink : {"u1", "u2", "u3"}) taken += r.sent(uplink).empty() ? "" : uplink;
    return taken;
  };
  const std::string own = way();
  EXPECT_EQ(way(), own);
  ASSERT_EQ(r.h.exclude(own, true), "");
  const std::string meanwhile = way();
  EXPECT_NE(meanwhile, own);
  EXPECT_EQ(meanwhile.size(), 2u);
  ASSERT_EQ(r.h.exclude(own, false), "");
  EXPECT_EQ(way(), own);
}

TEST_P(L3FlowsTest, AnotherSourcePortIsAnotherFlow) {
  Router r;
  for (const std::uint16_t port : {50000, 50001, 50002, 50003, 50004, 50005, 50006, 50007}) {
    for (int again = 0; again < 2; ++again) {
      // The same queue pair: only the port tells the flows apart.
      const FrameBuilder frame = from_a(f(), f().spread).udp(port);
      r.h.inject("h1", frame.build());
      std::size_t way = 0;
      while (way < 2 && r.sent(std::array{"u1", "u2", "u3"}[way]).empty()) ++way;
      if (f().v6) continue;
      const std::uint64_t addresses = std::uint64_t{ip(f().a).v4_value()} << 32 | ip(f().spread).v4_value();
      const auto ports = tables::EcmpHash::ports_word(port, 4791, 17);
      EXPECT_EQ(way, tables::EcmpHash::member(tables::EcmpHash(7).v4(addresses, ports), 3)) << port;
      r.sent("u3");
    }
  }
}

TEST_P(L3FlowsTest, WhatDiffersFromThePacketBeforeIsJudgedByItself) {
  Router r;
  send(r, 1);
  send(r, 2);
  r.sent("u1");
  r.h.inject("h1", packet(3).ttl(1).build());
  EXPECT_EQ(r.h.dropped(L3Drop::ttl_exceeded), 1u);
  r.h.inject("h1", packet(4).payload(1500).build());
  EXPECT_EQ(r.h.dropped(DropReason::egress_mtu), 1u);
  r.h.inject("h1", packet(5).eth(host_mac(1), host_mac(7)).build());
  Bytes wrong = packet(6).build();
  if (!f().v6) {
    wrong[14 + 10] ^= 1;
    r.h.inject("h1", wrong);
  }
  EXPECT_EQ(r.sent("u1").size(), 0u);
}

TEST(L3FlowsUnit, ManyAdjacenciesAreToldApartAndThoseWithoutRoomAreNotCached) {
  constexpr std::uint32_t kFlows = 6000;
  L3Flows flows;
  const auto packet_of = [](std::uint32_t n) {
    pipeline::PacketMeta pm{};
    pm.qp_handle = n + 1;
    pm.parsed.kind = wire::FrameKind::roce;
    pm.parsed.address_key = n;
    pm.parsed.source_port = static_cast<std::uint16_t>(n);
    return pm;
  };
  const auto known = [&] {
    std::uint32_t count = 0;
    for (std::uint32_t n = 0; n < kFlows; ++n) {
      const L3Adjacency* adjacency = flows.find(flows.slot(n + 1), packet_of(n).parsed);
      if (adjacency == nullptr) continue;
      ++count;
      EXPECT_EQ(adjacency->mac_tail, n);
      EXPECT_EQ(adjacency->port, n % 4);
    }
    return count;
  };
  for (std::uint64_t routes = 1; routes < 4; ++routes) {
    flows.begin(routes, 1, 1);
    EXPECT_EQ(known(), 0u);
    for (std::uint32_t n = 0; n < kFlows; ++n) {
      tables::NextHop hop;
      hop.mac_tail = n;
      hop.port = static_cast<pipeline::PortIndex>(n % 4);
      flows.remember(packet_of(n), hop, {wire::MacAddress::from_u64(n), tables::NeighbourState::reachable}, false);
    }
    const std::uint32_t count = known();
    EXPECT_GT(count, 3000u);
    EXPECT_LE(count, 4096u);
    // A packet that is not tracked has no flow, whatever its addresses are.
    EXPECT_EQ(flows.find(flows.slot(0), packet_of(0).parsed), nullptr);
  }
}

TEST(L3FlowsUnit, EachQueuePairOfAnOrdinaryTableHasASlotAndBucketsOfALargeOneSpread) {
  const auto known = [](std::span<const std::uint32_t> handles) {
    L3Flows flows;
    flows.begin(1, 1, 1);
    pipeline::PacketMeta pm{};
    for (const std::uint32_t handle : handles) {
      pm.qp_handle = handle;
      pm.parsed.address_key = handle;
      flows.remember(pm, {}, {wire::MacAddress::from_u64(1), tables::NeighbourState::reachable}, false);
    }
    return std::count_if(handles.begin(), handles.end(), [&](std::uint32_t handle) {
      pm.parsed.address_key = handle;
      return flows.find(flows.slot(handle), pm.parsed) != nullptr;
    });
  };
  std::vector<std::uint32_t> handles(16'000);
  std::iota(handles.begin(), handles.end(), 1);
  EXPECT_EQ(known(handles), 16'000);
  // The first entry of each of the 4096 buckets of a table of 65536.
  handles.resize(4096);
  for (std::uint32_t i = 0; i < handles.size(); ++i) handles[i] = i * 16 + 1;
  // One of them would be where packets without a handle look.
  EXPECT_EQ(known(handles), 4095);
}

}  // namespace
}  // namespace weft::stages
