// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Which packets the router takes at all, and which of them are its own.
#include <cstring>

#include "switch/stages/l3/drops.h"
#include "switch/wire/checksum.h"
#include "switch/wire/parse.h"
#include "tests/switch/stages/l3/router.h"

namespace weft::stages {
namespace {

using wire::EtherType;

const MacAddress kBroadcast = MacAddress::from_u64(0xffffffffffff);

class L3Receive : public BothFamilies {
 protected:
  // One frame comes in at h1 and is dropped for this reason, without an answer.
  void expect_drop(const FrameBuilder& packet, DropReason reason, const char* what = "") {
    Router r;
    r.h.inject("h1", packet.build());
    EXPECT_EQ(r.h.dropped(reason), 1u) << what;
    EXPECT_EQ(r.h.totals().tx.value(), 0u) << what;
  }
  void expect_consumed(const FrameBuilder& packet, const char* what = "") {
    Router r;
    r.h.inject("h1", packet.build());
    EXPECT_EQ(r.h.totals().consumed.value(), 1u) << what;
    EXPECT_EQ(r.h.totals().tx.value(), 0u) << what;
  }
  FrameBuilder between(const std::string& source, const std::string& destination) const {
    return from_a(f(), f().b).ip(ip(source), ip(destination));
  }
};
WEFT_BOTH_FAMILIES(L3Receive);

// --- the link layer -----------------------------------------------------------------------------------------------

TEST_P(L3Receive, FramesToOtherMacAddressesAreNotForTheRouter) {
  expect_drop(from_a(f(), f().b).eth(host_mac(1), host_mac(2)), L3Drop::not_for_router);
  expect_drop(from_a(f(), f().b).eth(host_mac(1), router_mac(kH2)), L3Drop::not_for_router, "another port's MAC");
}

TEST_P(L3Receive, UnicastPacketsInBroadcastFramesAreNotForTheRouter) {
  expect_drop(from_a(f(), f().b).eth(host_mac(1), kBroadcast), L3Drop::not_for_router);
  expect_drop(from_a(f(), f().router_h1).eth(host_mac(1), kBroadcast), L3Drop::not_for_router);
}

TEST_P(L3Receive, OtherEthertypesAreNotRouted) {
  for (const auto& mac : {router_mac(kH1), kBroadcast, MacAddress::from_u64(0x0180c200000e)}) {
    expect_drop(FrameBuilder().eth(host_mac(1), mac).ethertype(EtherType::lldp).payload(46), L3Drop::unknown_ethertype);
  }
}

TEST_P(L3Receive, TaggedFramesAreNotAllowed) {
  expect_drop(from_a(f(), f().b).vlan(1), DropReason::vlan_not_allowed);
  expect_drop(from_a(f(), f().b).vlan(4094, 7), DropReason::vlan_not_allowed);
  expect_drop(from_a(f(), f().b).vlan(10).vlan(20), DropReason::vlan_not_allowed);
}

TEST_P(L3Receive, APriorityTagIsTakenOff) {
  Router r;
  r.h.inject("h1", from_a(f(), f().b).vlan(0, 5).build());
  EXPECT_EQ(r.sent("h2"), only(routed(from_a(f(), f().b), kH2, 2)));
}

TEST_P(L3Receive, APriorityTaggedQuestionIsAnswered) {
  Router r;
  auto tagged = question(f(), f().a, 1, f().router_h1);
  const Bytes tag{0x81, 0, 0, 0};
  tagged.insert(tagged.begin() + 12, tag.begin(), tag.end());
  r.h.inject("h1", tagged);
  EXPECT_EQ(r.sent("h1").size(), 1u);
}

// --- the IP header ------------------------------------------------------------------------------------------------

TEST_P(L3Receive, MalformedHeadersAreDropped) {
  expect_drop(from_a(f(), f().b).ip_version(5), L3Drop::ip_malformed, "version");
  expect_drop(from_a(f(), f().b).ip_length(4000), L3Drop::ip_malformed, "length beyond the frame");
  if (f().v6) return;
  expect_drop(from_a(f(), f().b).ihl(4), L3Drop::ip_malformed, "header length");
  expect_drop(from_a(f(), f().b).ip_length(10), L3Drop::ip_malformed, "length below the header");
}

TEST(L3ReceiveV4, AWrongHeaderChecksumIsDroppedWhicheverBitIsWrong) {
  const Bytes good = from_a(kV4, kV4.b).build();
  for (std::size_t bit = 0; bit < 20 * 8; ++bit) {
    // Version, header length, total length and fragment bits change what the header means.
    if (bit < 8 || (bit >= 16 && bit < 32) || (bit >= 48 && bit < 64)) continue;
    Router r;
    Bytes bad = good;
    bad[14 + bit / 8] ^= static_cast<std::uint8_t>(0x80u >> bit % 8);
    r.h.inject("h1", bad);
    EXPECT_EQ(r.h.dropped(L3Drop::ip_checksum), 1u) << "bit " << bit;
  }
}

TEST(L3ReceiveV4, AWrongChecksumIsFoundBehindOptionsToo) {
  Router r;
  const Bytes options{1, 1, 1, 0};
  r.h.inject("h1", from_a(kV4, kV4.b).ip_options(options).ip_checksum(1).build());
  EXPECT_EQ(r.h.dropped(L3Drop::ip_checksum), 1u);
}

TEST(L3ReceiveV4, EveryRightChecksumPasses) {
  Router r;
  std::vector<Bytes> burst;
  for (unsigned i = 0; i < 0x10000; i += 1) {
    burst.push_back(from_a(kV4, kV4.b).identification(static_cast<std::uint16_t>(i)).payload(8).build());
    if (burst.size() < 64) continue;
    r.h.inject("h1", burst);
    for (const auto& frame : r.sent("h2")) {
      ASSERT_TRUE(wire::ipv4_checksum_ok(wire::header_at<wire::Ipv4Header>(frame.data() + 14))) << i;
    }
    burst.clear();
  }
  EXPECT_EQ(r.h.totals().tx.value(), 0x10000u);
}

// --- addresses ----------------------------------------------------------------------------------------------------

TEST_P(L3Receive, SourcesThatAreNoHostAreDropped) {
  const std::vector<std::string> v4{"0.0.0.0", "0.1.2.3", "127.0.0.1", "224.0.0.1", "239.1.2.3", "255.255.255.255"};
  const std::vector<std::string> v6{"::", "::1", "ff02::1", "::ffff:10.0.1.2", "::10.0.1.2"};
  for (const auto& source : f().v6 ? v6 : v4) {
    expect_drop(between(source, f().b), L3Drop::ip_source, source.c_str());
  }
}

TEST_P(L3Receive, DestinationsThatAreNoHostAreDropped) {
  const std::vector<std::string> v4{"0.0.0.0", "0.1.2.3", "127.0.0.1", "224.0.0.5", "239.1.2.3", "255.0.0.1"};
  const std::vector<std::string> v6{"::", "::1", "ff0e::1", "ff02::5", "::ffff:10.0.2.2"};
  for (const auto& destination : f().v6 ? v6 : v4) {
    expect_drop(between(f().a, destination), L3Drop::ip_destination, destination.c_str());
  }
}

TEST_P(L3Receive, LinkLocalPacketsStayOnTheirLink) {
  const std::string neighbour = f().v6 ? "fe80::2" : "169.254.0.2";
  expect_drop(between(neighbour, f().b), L3Drop::ip_source);
  expect_drop(between(f().a, neighbour), L3Drop::ip_destination);
}

TEST(L3ReceiveV4, OrdinaryAddressesBesideTheSpecialOnesAreRouted) {
  Router r({.extra = ""});
  for (const char* source : {"1.0.0.1", "126.255.255.255", "128.0.0.1", "169.253.0.1", "169.255.0.1", "223.255.255.1",
                             "240.0.0.1", "254.1.1.1"}) {
    r.h.inject("h1", from_a(kV4, kV4.b).ip(ip(source), ip(kV4.b)).build());
    EXPECT_EQ(r.sent("h2").size(), 1u) << source;
  }
}

TEST(L3ReceiveV4, DirectedBroadcastsAreNotForwarded) {
  for (const char* destination : {"10.0.2.255", "10.0.2.0"}) {
    Router r;
    r.h.inject("h1", from_a(kV4, destination).build());
    EXPECT_EQ(r.h.dropped(L3Drop::ip_destination), 1u) << destination;
  }
}

TEST(L3ReceiveV4, BroadcastsOfTheOwnLinkAreConsumed) {
  for (const char* destination : {"255.255.255.255", "10.0.1.255", "224.0.0.1"}) {
    Router r;
    r.h.inject("h1", from_a(kV4, destination).eth(host_mac(1), kBroadcast).build());
    EXPECT_EQ(r.h.totals().consumed.value(), 1u) << destination;
  }
}

TEST(L3ReceiveV4, AHostWithoutAnAddressMaySendToAllAndToNobodyElse) {
  Router r;
  r.h.inject("h1", from_a(kV4, kV4.b).ip(ip("0.0.0.0"), ip("255.255.255.255")).eth(host_mac(1), kBroadcast).build());
  EXPECT_EQ(r.h.totals().consumed.value(), 1u);
  r.h.inject("h1", from_a(kV4, kV4.b).ip(ip("0.0.0.0"), ip(kV4.router_h1)).build());
  EXPECT_EQ(r.h.dropped(L3Drop::ip_source), 1u);
}

TEST(L3ReceiveV6, GroupsThatTheRouterListensToAreConsumed) {
  for (const char* group : {"ff02::1", "ff02::2", "ff02::1:ff00:1"}) {
    Router r;
    r.h.inject("h1", from_a(kV6, group).eth(host_mac(1), tables::multicast_mac(ip(group))).build());
    EXPECT_EQ(r.h.totals().consumed.value(), 1u) << group;
  }
  Router r;
  r.h.inject("h1", from_a(kV6, "ff02::1:ff00:9").eth(host_mac(1), tables::multicast_mac(ip("ff02::1:ff00:9"))).build());
  EXPECT_EQ(r.h.dropped(L3Drop::ip_destination), 1u);
}

TEST(L3ReceiveV6, TheSubnetRouterAnycastAddressIsTheRouter) {
  Router r;
  r.h.inject("h1", from_a(kV6, "2001:db8:2::").build());
  EXPECT_EQ(r.h.totals().consumed.value(), 1u);
}

TEST(L3ReceiveV6, TheLinkLocalAddressOfThePortIsTheRouterOnThatPortOnly) {
  const std::string own = tables::link_local_address(router_mac(kH1)).to_string();
  Router r;
  r.h.inject("h1", from_a(kV6, own).ip(ip("fe80::9"), ip(own)).build());
  EXPECT_EQ(r.h.totals().consumed.value(), 1u);
  r.h.inject("h2", from_a(kV6, own).eth(host_mac(2), router_mac(kH2)).build());
  EXPECT_EQ(r.h.dropped(L3Drop::ip_destination), 1u);
}

TEST_P(L3Receive, PacketsToTheRouterAreConsumedWhateverTheirTtl) {
  for (const std::uint8_t ttl : {0, 1, 64}) {
    expect_consumed(from_a(f(), f().router_h1).ttl(ttl));
    expect_consumed(from_a(f(), f().router_h2).ttl(ttl), "an address of another port");
  }
}

// --- packets that a stage of the switch made ------------------------------------------------------------------------

// Puts a packet without ingress port into the pipeline, as a stage that answers for a host does.
class Maker : public pipeline::Stage {
 public:
  void on_timer(pipeline::Context& context, std::uint32_t) override {
    rte_mbuf* m = context.generate();
    std::memcpy(rte_pktmbuf_append(m, static_cast<std::uint16_t>(frame.size())), frame.data(), frame.size());
    wire::parse_frame(pipeline::frame(m), m->data_len, m->pkt_len, pipeline::meta(m).parsed);
    context.resume(m);
  }
  [[nodiscard]] TimeNs deadline(std::uint32_t) const override { return frame.empty() ? kNever : 0; }
  Bytes frame;
};

TEST_P(L3Receive, PacketsThatTheSwitchMadeAreRoutedWithoutAnIngressPort) {
  pipeline::Registry registry;
  register_all(registry);
  pipeline::StageType maker;
  maker.name = "maker";
  maker.summary = "Makes a packet.";
  maker.make = [](const pipeline::StageBuild&, pipeline::StageShared*) { return std::make_unique<Maker>(); };
  registry.add(maker);
  std::string yaml = router_yaml({});
  yaml.insert(yaml.find("  - l3"), "  - maker\n");
  testing::Harness h(registry, yaml);
  for (const auto& to : {f().b, f().router_h1, f().nowhere, f().black}) {
    h.change<Maker>("maker", [&](Maker& stage) { stage.frame = from_a(f(), to).eth({}, {}).build(); });
    h.advance_ns(0);
  }
  EXPECT_EQ(h.take("h2").size(), 1u);
  EXPECT_EQ(h.totals().consumed.value(), 1u);
  EXPECT_EQ(h.dropped(L3Drop::no_route), 1u);
  EXPECT_EQ(h.dropped(L3Drop::blackhole_route), 1u);
  EXPECT_EQ(h.counter("l3", "icmp_errors_sent"), 0u);
}

}  // namespace
}  // namespace weft::stages
