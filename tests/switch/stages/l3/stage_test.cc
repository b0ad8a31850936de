// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/stages/l3/stage.h"

#include "switch/stages/l3/drops.h"
#include "switch/wire/icrc.h"
#include "switch/wire/parse.h"
#include "tests/switch/stages/l3/router.h"

namespace weft::stages {
namespace {

class L3Test : public BothFamilies {};
WEFT_BOTH_FAMILIES(L3Test);

TEST_P(L3Test, APacketToAHostLeavesWithTheHostsMacAndOneHopLess) {
  Router r;
  r.h.inject("h1", from_a(f(), f().b).build());
  EXPECT_EQ(r.sent("h2"), only(routed(from_a(f(), f().b), kH2, 2)));
}

TEST_P(L3Test, APacketBehindARouterLeavesWithTheRoutersMac) {
  Router r;
  r.h.inject("h1", from_a(f(), f().far).build());
  EXPECT_EQ(r.sent("u1"), only(routed(from_a(f(), f().far), kU1, 11)));
}

TEST_P(L3Test, APacketMayLeaveThroughThePortThatItCameFrom) {
  Router r;
  const auto packet = from_a(f(), f().a).eth(host_mac(9), router_mac(kH1));
  r.h.inject("h1", packet.build());
  EXPECT_EQ(r.sent("h1"), only(routed(packet, kH1, 1)));
}

TEST_P(L3Test, PacketsOfABurstKeepTheirOrder) {
  Router r;
  std::vector<Bytes> burst;
  std::vector<Bytes> expected;
  for (unsigned i = 0; i < 64; ++i) {
    const auto packet = from_a(f(), f().b).payload(i);
    burst.push_back(packet.build());
    expected.push_back(routed(packet, kH2, 2).build());
  }
  r.h.inject("h1", burst);
  EXPECT_EQ(r.sent("h2"), expected);
}

TEST_P(L3Test, EveryTransportIsRouted) {
  Router r;
  const std::vector<FrameBuilder> packets{
      from_a(f(), f().b),
      FrameBuilder().eth(host_mac(1), router_mac(kH1)).ip(ip(f().a), ip(f().b)).tcp(1, 2).payload(10),
      FrameBuilder().eth(host_mac(1), router_mac(kH1)).ip(ip(f().a), ip(f().b)).udp(1, 2).payload(10),
      FrameBuilder().eth(host_mac(1), router_mac(kH1)).ip(ip(f().a), ip(f().b)).icmp(f().v6 ? 128 : 8, 0).payload(10),
      FrameBuilder().eth(host_mac(1), router_mac(kH1)).ip(ip(f().a), ip(f().b)).protocol(89).payload(10),
      FrameBuilder().eth(host_mac(1), router_mac(kH1)).ip(ip(f().a), ip(f().b)).udp(1, 2).payload(64).fragment(0, true),
      FrameBuilder()
          .eth(host_mac(1), router_mac(kH1))
          .ip(ip(f().a), ip(f().b))
          .protocol(17)
          .payload(64)
          .fragment(8, false)};
  for (const auto& packet : packets) {
    r.h.inject("h1", packet.build());
    EXPECT_EQ(r.sent("h2"), only(routed(packet, kH2, 2)));
  }
}

TEST_P(L3Test, AHeaderWithOptionsIsRouted) {
  Router r;
  auto packet = from_a(f(), f().b);
  const Bytes options{1, 1, 1, 0};
  f().v6 ? packet.extension(wire::IpProtocol::destination_options) : packet.ip_options(options);
  r.h.inject("h1", packet.build());
  EXPECT_EQ(r.sent("h2"), only(routed(packet, kH2, 2)));
}

TEST_P(L3Test, AChainedPacketIsRoutedWithItsPayload) {
  Router r({.ports = "mtu_bytes: 9000"});
  const auto packet = from_a(f(), f().b).payload(4096);
  r.h.inject_chained("h1", packet.build(), {200, 1000, 1500});
  EXPECT_EQ(r.sent("h2"), only(routed(packet, kH2, 2)));
}

TEST_P(L3Test, EthernetPaddingStays) {
  Router r;
  const auto packet =
      FrameBuilder().eth(host_mac(1), router_mac(kH1)).ip(ip(f().a), ip(f().b)).udp(1, 2).pad_to_minimum();
  r.h.inject("h1", packet.build());
  EXPECT_EQ(r.sent("h2"), only(routed(packet, kH2, 2)));
}

TEST_P(L3Test, RoutingKeepsTheIcrcRight) {
  Router r;
  r.h.inject("h1", from_a(f(), f().b).build());
  const auto frames = r.sent("h2");
  ASSERT_EQ(frames.size(), 1u);
  wire::Parsed parsed;
  wire::parse_frame(frames[0].data(), static_cast<std::uint32_t>(frames[0].size()),
                    static_cast<std::uint32_t>(frames[0].size()), parsed);
  EXPECT_TRUE(wire::icrc_ok(frames[0].data(), parsed));
}

TEST_P(L3Test, APacketWithoutARouteIsDropped) {
  Router r;
  r.h.inject("h1", from_a(f(), f().nowhere).build());
  EXPECT_EQ(r.h.dropped(L3Drop::no_route), 1u);
}

TEST_P(L3Test, ABlackholeRouteDropsWithoutAnError) {
  Router r;
  r.h.inject("h1", from_a(f(), f().black).build());
  EXPECT_EQ(r.h.dropped(L3Drop::blackhole_route), 1u);
  EXPECT_TRUE(r.sent("h1").empty());
}

TEST_P(L3Test, OfABurstEachPacketGetsItsOwnOutcome) {
  Router r;
  r.h.inject("h1", {from_a(f(), f().b).build(), from_a(f(), f().nowhere).build(), from_a(f(), f().far).build(),
                    from_a(f(), f().black).build(), from_a(f(), f().b).ttl(1).build(), from_a(f(), f().b).build()});
  EXPECT_EQ(r.sent("h2").size(), 2u);
  EXPECT_EQ(r.sent("u1").size(), 1u);
  EXPECT_EQ(r.h.dropped(L3Drop::no_route), 1u);
  EXPECT_EQ(r.h.dropped(L3Drop::blackhole_route), 1u);
  EXPECT_EQ(r.h.dropped(L3Drop::ttl_exceeded), 1u);
}

TEST(L3, BothFamiliesOfABurstAreRouted) {
  Router r;
  r.h.inject("h1", {from_a(kV4, kV4.b).build(), from_a(kV6, kV6.b).build(), from_a(kV4, kV4.b).build()});
  EXPECT_EQ(r.sent("h2").size(), 3u);
}

TEST_P(L3Test, LargeAndSmallTablesRouteAlike) {
  for (const char* options : {"{ large_table_routes: 0 }", "{ large_table_routes: 1000 }"}) {
    Router r({.l3 = options});
    for (const auto& [to, port] : {std::pair(f().b, "h2"), std::pair(f().far, "u1")}) {
      r.h.inject("h1", from_a(f(), to).build());
      EXPECT_EQ(r.sent(port).size(), 1u) << options << " " << to;
    }
  }
}

// --- configuration ------------------------------------------------------------------------------------------------

std::string diagnostics_of(const std::string& yaml) {
  pipeline::Registry registry;
  register_all(registry);
  config::Diagnostics diagnostics;
  EXPECT_FALSE(config::load_switch(yaml, registry, diagnostics));
  return diagnostics.to_string();
}

TEST(L3Options, ARouteWithSeveralNextHopsNeedsLb) {
  std::string yaml = router_yaml({});
  yaml.resize(yaml.find("  - lb"));
  const std::string said = diagnostics_of(yaml);
  EXPECT_THAT(said, ::testing::HasSubstr("via: 3 next hops need stage lb in the pipeline, after 'l3'"));
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 2) << "one for each of the two routes";
}

TEST(L3Options, MoreStaticNeighboursAndNextHopsThanTheTableHoldsAreAnError) {
  EXPECT_THAT(diagnostics_of(router_yaml({.l3 = "{ max_neighbours: 17 }"})),
              ::testing::HasSubstr("max_neighbours: 17 is less than the 10 static neighbours and 8 next hops"));
  Router fits({.l3 = "{ max_neighbours: 18 }"});
}

TEST(L3Options, ValuesOutOfRangeAreErrors) {
  for (const char* options : {"{ neighbour_reachable_s: 0 }", "{ pending_packets: -1 }", "{ icmp_errors_per_s: -1 }",
                              "{ max_neighbours: 0 }", "{ no_such_option: 1 }"}) {
    EXPECT_NE(diagnostics_of(router_yaml({.l3 = options})), "") << options;
  }
}

}  // namespace
}  // namespace weft::stages
