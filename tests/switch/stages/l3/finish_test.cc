// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/stages/l3/finish.h"

#include "switch/stages/l3/drops.h"
#include "tests/switch/stages/l3/router.h"

namespace weft::stages {
namespace {

class L3FinishTest : public BothFamilies {
 protected:
  // A packet of exactly `bytes` bytes of IP.
  FrameBuilder of_size(const std::string& to, std::size_t bytes) const {
    const auto empty = FrameBuilder().ip(ip(f().a), ip(to)).udp(1, 2);
    return FrameBuilder()
        .eth(host_mac(1), router_mac(kH1))
        .ip(ip(f().a), ip(to))
        .udp(1, 2)
        .payload(bytes + 14 - empty.build().size());
  }
};
WEFT_BOTH_FAMILIES(L3FinishTest);

TEST_P(L3FinishTest, APacketWithOneHopLeftIsNotForwarded) {
  for (const std::uint8_t ttl : {0, 1}) {
    for (const auto& to : {f().b, f().far, f().spread}) {
      Router r;
      r.h.inject("h1", from_a(f(), to).ttl(ttl).build());
      EXPECT_EQ(r.h.dropped(L3Drop::ttl_exceeded), 1u) << int{ttl} << " " << to;
      EXPECT_EQ(r.h.totals().tx.value(), 1u) << "the ICMP error";
    }
  }
}

TEST_P(L3FinishTest, APacketWithTwoHopsLeftIsForwarded) {
  Router r;
  r.h.inject("h1", from_a(f(), f().b).ttl(2).build());
  EXPECT_EQ(r.sent("h2"), only(routed(from_a(f(), f().b), kH2, 2, 1)));
}

TEST_P(L3FinishTest, EveryTtlIsDecrementedWithTheRightChecksum) {
  Router r;
  for (unsigned ttl = 2; ttl <= 255; ++ttl) {
    const auto packet = from_a(f(), f().b).ttl(static_cast<std::uint8_t>(ttl));
    r.h.inject("h1", packet.build());
    ASSERT_EQ(r.sent("h2"), only(routed(packet, kH2, 2, static_cast<std::uint8_t>(ttl - 1))));
  }
}

TEST_P(L3FinishTest, APacketAsLargeAsTheMtuPassesAndOneByteMoreDoesNot) {
  for (const auto& to : {f().b, f().far, f().spread}) {
    Router r({.ports = "mtu_bytes: 1400"});
    r.h.inject("h1", of_size(to, 1400).build());
    EXPECT_EQ(r.h.totals().tx.value(), 1u);
    r.h.inject("h1", of_size(to, 1401).build());
    EXPECT_EQ(r.h.dropped(DropReason::egress_mtu), 1u);
    EXPECT_EQ(r.counter("icmp_errors_sent"), 1u);
  }
}

TEST_P(L3FinishTest, NextHopsFollowTheMtuOfTheirPort) {
  for (const auto& to : {f().b, f().far, f().spread}) {
    Router r({.ports = "mtu_bytes: 1500"});
    const auto send = [&](std::size_t bytes) { r.h.inject("h1", of_size(to, bytes).build()); };
    send(1450);
    EXPECT_EQ(r.h.totals().tx.value(), 1u);
    for (const auto& port : r.h.state().info().ports) r.h.state().set_mtu(port.index, 1400);
    send(1450);
    EXPECT_EQ(r.h.dropped(DropReason::egress_mtu), 1u);
    EXPECT_EQ(r.counter("icmp_errors_sent"), 1u);
    for (const auto& port : r.h.state().info().ports) r.h.state().set_mtu(port.index, 1500);
    const auto before = r.h.totals().tx.value();
    send(1450);
    EXPECT_EQ(r.h.totals().tx.value(), before + 1);
  }
}

TEST_P(L3FinishTest, NothingLeavesThroughAPortWhoseLinkIsDown) {
  for (const bool known : {true, false}) {
    Router r({.neighbours_known = known});
    r.h.set_link("h2", false);
    r.h.inject("h1", from_a(f(), f().b).build());
    EXPECT_EQ(r.h.dropped(DropReason::egress_down), 1u);
    EXPECT_EQ(r.h.held(), 0u);
  }
}

TEST_P(L3FinishTest, AFullNeighbourTableDropsWithAnError) {
  Router r({.l3 = "{ max_neighbours: 18 }"});
  std::uint64_t dropped = 0;
  for (unsigned i = 0; i < 200 && dropped == 0; ++i) {
    const std::string to = f().v6 ? "2001:db8:2::" + std::to_string(1000 + i) : "10.0.2." + std::to_string(10 + i);
    r.h.inject("h1", from_a(f(), to).build());
    dropped = r.h.dropped(L3Drop::neighbour_unresolved);
  }
  EXPECT_EQ(dropped, 1u);
  EXPECT_EQ(r.counter("neighbours_full"), 1u);
  EXPECT_EQ(r.counter("icmp_errors_sent"), 1u);
}

TEST_P(L3FinishTest, KnownNeighboursAreServedWhileOthersAreUnresolved) {
  Router r;
  const std::string unknown = f().v6 ? "2001:db8:2::77" : "10.0.2.77";
  r.h.inject("h1", from_a(f(), unknown).build());
  EXPECT_EQ(r.h.held(), 1u);
  r.sent("h2");
  r.h.inject("h1", {from_a(f(), f().b).build(), from_a(f(), unknown).build(), from_a(f(), f().far).build()});
  EXPECT_EQ(r.sent("h2"), only(routed(from_a(f(), f().b), kH2, 2)));
  EXPECT_EQ(r.sent("u1"), only(routed(from_a(f(), f().far), kU1, 11)));
  EXPECT_EQ(r.h.held(), 2u);
}

}  // namespace
}  // namespace weft::stages
