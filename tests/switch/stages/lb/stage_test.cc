// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/stages/lb/stage.h"

#include <map>

#include "switch/stages/l3/drops.h"
#include "switch/tables/ecmp_hash.h"
#include "tests/switch/stages/l3/router.h"

namespace weft::stages {
namespace {

using tables::EcmpHash;

const char* const kUplinks[] = {"u1", "u2", "u3"};

class LbTest : public BothFamilies {
 protected:
  FrameBuilder flow(std::uint16_t port) const { return from_a(f(), f().spread).udp(port); }
  // Which uplink one packet takes; 3 for none.
  std::size_t way(Router& r, const FrameBuilder& packet) const {
    r.h.inject("h1", packet.build());
    std::size_t taken = 3;
    for (std::size_t i = 0; i < 3; ++i) {
      const auto frames = r.sent(kUplinks[i]);
      if (frames.empty()) continue;
      EXPECT_EQ(taken, 3u);
      EXPECT_EQ(frames, only(routed(packet, kU1 + static_cast<unsigned>(i), 11 + static_cast<unsigned>(i))));
      taken = i;
    }
    return taken;
  }
  // The member by the documented definition.
  std::size_t expected_way(std::uint16_t port, std::uint32_t members = 3) const {
    const EcmpHash hash(7);
    const auto ports = EcmpHash::ports_word(port, 4791, 17);
    if (!f().v6) {
      const std::uint64_t addresses = std::uint64_t{ip(f().a).v4_value()} << 32 | ip(f().spread).v4_value();
      return EcmpHash::member(hash.v4(addresses, ports), members);
    }
    Bytes addresses = bytes_of(f().a);
    const Bytes destination = bytes_of(f().spread);
    addresses.insert(addresses.end(), destination.begin(), destination.end());
    return EcmpHash::member(hash.v6(addresses.data(), ports), members);
  }
};
WEFT_BOTH_FAMILIES(LbTest);

TEST_P(LbTest, EcmpTakesTheMemberThatItsDocumentationSays) {
  Router r;
  for (std::uint16_t port = 49152; port < 49352; ++port) {
    ASSERT_EQ(way(r, flow(port)), expected_way(port)) << port;
  }
  EXPECT_EQ(r.h.counter("lb", "balanced"), 200u);
}

TEST_P(LbTest, AFlowKeepsItsWayAmongOtherFlows) {
  Router r;
  const std::size_t first = way(r, flow(50000));
  for (std::uint16_t port = 1; port < 50; ++port) {
    way(r, flow(port));
    ASSERT_EQ(way(r, flow(50000)), first);
  }
}

TEST_P(LbTest, EcmpUsesAllMembersEvenly) {
  Router r;
  std::vector<Bytes> burst;
  for (std::uint16_t port = 10000; port < 10000 + 3200; ++port) burst.push_back(flow(port).build());
  r.h.inject("h1", burst);
  for (const char* uplink : kUplinks)
    EXPECT_NEAR(static_cast<double>(r.sent(uplink).size()), 3200 / 3.0, 160) << uplink;
}

TEST_P(LbTest, FragmentsOfAPacketGoTheSameWay) {
  Router r;
  const auto base =
      FrameBuilder().eth(host_mac(1), router_mac(kH1)).ip(ip(f().a), ip(f().spread)).udp(9, 9).payload(64);
  const std::size_t first = way(r, FrameBuilder(base).fragment(0, true));
  for (std::uint16_t offset = 8; offset < 80; offset = static_cast<std::uint16_t>(offset + 8)) {
    const auto later =
        FrameBuilder().eth(host_mac(1), router_mac(kH1)).ip(ip(f().a), ip(f().spread)).protocol(17).payload(64);
    EXPECT_EQ(way(r, FrameBuilder(later).fragment(offset, true)), first);
  }
}

TEST_P(LbTest, WhenAMembersPortIsDownItsFlowsMoveAndOthersStay) {
  Router r;
  std::map<std::uint16_t, std::size_t> before;
  for (std::uint16_t port = 1000; port < 1300; ++port) before[port] = way(r, flow(port));
  r.h.set_link("u2", false);
  std::map<std::size_t, int> moved;
  for (const auto& [port, old] : before) {
    const std::size_t now = way(r, flow(port));
    if (old != 1) {
      EXPECT_EQ(now, old) << port;
    } else {
      ++moved[now];
    }
  }
  EXPECT_EQ(moved.count(1), 0u);
  EXPECT_GT(moved[0], 20);
  EXPECT_GT(moved[2], 20);
  r.h.set_link("u2", true);
  for (const auto& [port, old] : before) EXPECT_EQ(way(r, flow(port)), old);
}

TEST_P(LbTest, AnExcludedMemberGetsNothingAndOtherFlowsStay) {
  Router r;
  std::map<std::uint16_t, std::size_t> before;
  for (std::uint16_t port = 1000; port < 1100; ++port) before[port] = way(r, flow(port));
  ASSERT_EQ(r.h.exclude("u2", true), "");
  for (const auto& [port, old] : before) {
    const std::size_t now = way(r, flow(port));
    EXPECT_NE(now, 1u);
    if (old != 1) {
      EXPECT_EQ(now, old) << port;
    }
  }
  EXPECT_EQ(r.h.dropped_total(), 0u);
  ASSERT_EQ(r.h.exclude("u2", false), "");
  for (const auto& [port, old] : before) EXPECT_EQ(way(r, flow(port)), old);
}

TEST_P(LbTest, AnExcludedPortStillTakesWhatIsForItAlone) {
  Router r;
  ASSERT_EQ(r.h.exclude("u1", true), "");
  r.h.inject("h1", from_a(f(), f().far).build());
  EXPECT_EQ(r.sent("u1"), only(routed(from_a(f(), f().far), kU1, 11))) << "a route with one next hop";
}

TEST_P(LbTest, RandomLeavesAnExcludedMemberOut) {
  Router r({.policy = "random"});
  ASSERT_EQ(r.h.exclude("u1", true), "");
  r.h.inject("h1", std::vector<Bytes>(3000, flow(50000).build()));
  EXPECT_EQ(r.sent("u1").size(), 0u);
  EXPECT_NEAR(static_cast<double>(r.sent("u2").size()), 1500, 150);
}

TEST_P(LbTest, TheLastPathOfAGroupCannotBeExcluded) {
  Router r;
  EXPECT_EQ(r.h.exclude("h1", true), "port h1 is no path: it is in no equal-cost group and no uplink");
  ASSERT_EQ(r.h.exclude("u1", true), "");
  ASSERT_EQ(r.h.exclude("u2", true), "");
  EXPECT_THAT(r.h.exclude("u3", true),
              ::testing::HasSubstr(" would have no path left: u1 is excluded, u2 is excluded"));
  EXPECT_EQ(way(r, flow(1)), 2u);
}

TEST_P(LbTest, WithoutAnyMemberUpPacketsAreDropped) {
  Router r;
  for (const char* uplink : kUplinks) r.h.set_link(uplink, false);
  r.h.inject("h1", {flow(1).build(), flow(2).build(), from_a(f(), f().b).build()});
  EXPECT_EQ(r.h.dropped(DropReason::egress_down), 2u);
  EXPECT_EQ(r.h.counter("lb", "no_member_up"), 2u);
  EXPECT_EQ(r.sent("h2").size(), 1u);
}

TEST_P(LbTest, WithOneMemberUpAllFlowsTakeIt) {
  Router r;
  r.h.set_link("u1", false);
  r.h.set_link("u3", false);
  for (std::uint16_t port = 1; port < 50; ++port) EXPECT_EQ(way(r, flow(port)), 1u);
}

TEST_P(LbTest, RandomSpreadsOneFlowEvenlyOverMembersThatAreUp) {
  Router r({.policy = "random"});
  std::vector<Bytes> burst(3000, flow(50000).build());
  r.h.inject("h1", burst);
  for (const char* uplink : kUplinks) EXPECT_NEAR(static_cast<double>(r.sent(uplink).size()), 1000, 150) << uplink;
  r.h.set_link("u1", false);
  r.h.inject("h1", burst);
  EXPECT_EQ(r.sent("u1").size(), 0u);
  EXPECT_NEAR(static_cast<double>(r.sent("u2").size()), 1500, 150);
}

TEST_P(LbTest, RandomIsReproducibleFromTheSeed) {
  const auto run = [&](std::uint64_t seed) {
    Router r({.policy = "random"}, {.seed = seed});
    std::string ways;
    for (int i = 0; i < 40; ++i) ways += static_cast<char>('0' + way(r, flow(50000)));
    return ways;
  };
  EXPECT_EQ(run(3), run(3));
  EXPECT_NE(run(3), run(4));
}

TEST_P(LbTest, AMemberWhoseNeighbourIsUnknownHoldsThePacket) {
  Router r({.neighbours_known = false});
  std::uint16_t port = 50000;
  while (expected_way(port) != 0) ++port;
  EXPECT_EQ(way(r, flow(port).ttl(1)), 3u);
  EXPECT_EQ(r.h.dropped(L3Drop::ttl_exceeded), 1u);
  r.h.inject("h1", {flow(port).payload(1).build(), flow(port).payload(2).build()});
  EXPECT_EQ(r.h.held(), 2u);
  EXPECT_EQ(r.sent("u1").size(), 1u);
  r.h.inject("u1", answer(f(), f().uplink, 11, f().v6 ? "2001:db8:11::1" : "10.1.1.1", kU1));
  EXPECT_EQ(r.sent("u1"), (std::vector<Bytes>{routed(flow(port).payload(1), kU1, 11).build(),
                                              routed(flow(port).payload(2), kU1, 11).build()}));
}

// Puts a group number of another route table into packets, as a stage that holds packets behind l3 would.
class Confuse : public pipeline::Stage {
 public:
  void ingress(pipeline::Context&, pipeline::Batch& batch) override {
    for (std::uint16_t i = 0; i < batch.size; ++i) pipeline::meta(batch.packet[i]).next_hop += 1000;
  }
};

TEST_P(LbTest, AGroupThatTheRouteTableDoesNotHaveIsNoEgress) {
  pipeline::Registry registry;
  register_all(registry);
  pipeline::StageType confuse;
  confuse.name = "confuse";
  confuse.summary = "Changes group numbers.";
  confuse.make = [](const pipeline::StageBuild&, pipeline::StageShared*) { return std::make_unique<Confuse>(); };
  registry.add(confuse);
  std::string yaml = router_yaml({});
  yaml.insert(yaml.find("  - lb"), "  - confuse\n");
  testing::Harness h(registry, yaml);
  h.inject("h1", flow(1).build());
  EXPECT_EQ(h.dropped(DropReason::no_egress), 1u);
}

TEST(Lb, NeedsAStageThatProvidesGroups) {
  pipeline::Registry registry;
  register_all(registry);
  config::Diagnostics diagnostics;
  EXPECT_FALSE(config::load_switch("name: s\nports: [ { name: p1, type: \"null\" } ]\npipeline: [ parse, l2, lb ]\n",
                                   registry, diagnostics));
  EXPECT_THAT(diagnostics.to_string(), ::testing::HasSubstr("stage 'lb' needs l3 before it"));
}

}  // namespace
}  // namespace weft::stages
