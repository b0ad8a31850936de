// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/stages/l3/local.h"

#include "switch/stages/l3/drops.h"
#include "tests/switch/stages/l3/router.h"

namespace weft::stages {
namespace {

const MacAddress kBroadcast = MacAddress::from_u64(0xffffffffffff);

class L3LocalTest : public BothFamilies {
 protected:
  // The router's answer to question(): exactly as answer(), with the ends swapped, and the flags of a router.
  FrameBuilder expected_answer() const {
    const MacAddress own = router_mac(kH1);
    if (!f().v6) {
      return FrameBuilder()
          .eth(own, host_mac(1))
          .arp(wire::ArpOperation::reply, own, ip(f().router_h1), host_mac(1), ip(f().a))
          .pad_to_minimum();
    }
    Bytes body = bytes_of(f().router_h1);
    body.insert(body.end(), {2, 1});
    body.insert(body.end(), own.bytes.begin(), own.bytes.end());
    return FrameBuilder()
        .eth(own, host_mac(1))
        .ip(ip(f().router_h1), ip(f().a))
        .ttl(255)
        .icmp(wire::Icmpv6Type::neighbour_advertisement, 0, 0xe0000000)
        .payload(FrameBuilder::View(body));
  }
  const char* answered() const { return f().v6 ? "nd_solicitations_answered" : "arp_requests_answered"; }
  const char* invalid() const { return f().v6 ? "nd_invalid" : "arp_invalid"; }
};
WEFT_BOTH_FAMILIES(L3LocalTest);

// --- questions ------------------------------------------------------------------------------------------------------

TEST_P(L3LocalTest, AQuestionForTheRoutersAddressIsAnswered) {
  Router r;
  r.h.inject("h1", question(f(), f().a, 1, f().router_h1));
  EXPECT_EQ(r.sent("h1"), only(expected_answer()));
  EXPECT_EQ(r.counter(answered()), 1u);
  EXPECT_EQ(r.h.totals().consumed.value(), 1u);
}

TEST_P(L3LocalTest, AQuestionForSomebodyElseIsConsumedWithoutAnswer) {
  Router r;
  const std::string other = f().v6 ? "2001:db8:1::77" : "10.0.1.77";
  r.h.inject("h1", question(f(), f().a, 1, other));
  EXPECT_TRUE(r.sent("h1").empty());
  EXPECT_EQ(r.h.totals().tx.value(), 0u);
}

TEST_P(L3LocalTest, AQuestionForAnAddressOfAnotherPortIsNotAnswered) {
  Router r;
  r.h.inject("h1", question(f(), f().a, 1, f().router_h2));
  EXPECT_TRUE(r.sent("h1").empty());
}

TEST_P(L3LocalTest, WhoAsksIsLearnedAsStale) {
  Router r({.neighbours_known = false});
  r.h.inject("h1", question(f(), f().a, 1, f().router_h1));
  EXPECT_EQ(r.state(f().a), "stale");
  EXPECT_EQ(r.neighbour(f().a)["mac"], host_mac(1).to_string());
  EXPECT_EQ(r.counter("neighbours_resolved"), 1u);
}

TEST_P(L3LocalTest, WhoAsksForSomebodyElseIsNotLearnedButUpdated) {
  Router r({.neighbours_known = false});
  const std::string other = f().v6 ? "2001:db8:1::77" : "10.0.1.77";
  r.h.inject("h1", question(f(), f().a, 1, other));
  EXPECT_EQ(r.state(f().a), "none");
  r.h.inject("h1", question(f(), f().a, 1, f().router_h1));
  r.h.inject("h1", question(f(), f().a, 5, other));
  // A solicitation to another node's group does not reach the router's neighbour cache (RFC 4861 7.2.3).
  EXPECT_EQ(r.neighbour(f().a)["mac"], host_mac(f().v6 ? 1 : 5).to_string());
}

TEST_P(L3LocalTest, ASenderFromAnotherSubnetIsAnsweredAndNotLearned) {
  Router r({.neighbours_known = false});
  const std::string stranger = f().v6 ? "2001:db8:77::1" : "10.0.77.1";
  r.h.inject("h1", question(f(), stranger, 7, f().router_h1));
  EXPECT_EQ(r.sent("h1").size(), 1u);
  EXPECT_EQ(r.state(stranger), "none");
}

TEST_P(L3LocalTest, WhoClaimsTheRoutersAddressIsCountedAndNotLearned) {
  Router r({.neighbours_known = false});
  r.h.inject("h1", question(f(), f().router_h1, 66, f().router_h1));
  r.h.inject("h1", answer(f(), f().router_h1, 66, f().router_h1, kH1));
  EXPECT_EQ(r.counter("address_conflicts"), 2u);
  EXPECT_EQ(r.state(f().router_h1), "none");
  EXPECT_EQ(r.h.totals().tx.value(), 0u);
}

TEST_P(L3LocalTest, AMulticastMacIsNotLearned) {
  Router r({.neighbours_known = false});
  Bytes frame = question(f(), f().a, 1, f().router_h1);
  if (f().v6) {
    Bytes body = bytes_of(f().router_h1);
    body.insert(body.end(), {1, 1, 0x01, 0, 0, 0, 0, 1});
    const IpAddress group = tables::solicited_node(ip(f().router_h1));
    frame = FrameBuilder()
                .eth(host_mac(1), tables::multicast_mac(group))
                .ip(ip(f().a), group)
                .ttl(255)
                .icmp(wire::Icmpv6Type::neighbour_solicitation, 0)
                .payload(FrameBuilder::View(body))
                .build();
  } else {
    frame[14 + 8] = 0x01;
  }
  r.h.inject("h1", frame);
  EXPECT_EQ(r.counter(invalid()), 1u);
  EXPECT_EQ(r.state(f().a), "none");
}

// --- answers
// ----------------------------------------------------------------------------------------------------------

TEST_P(L3LocalTest, AnAnswerToTheRouterMakesAKnownNeighbourReachable) {
  Router r({.neighbours_known = false});
  r.h.inject("h1", question(f(), f().a, 1, f().router_h1));
  r.h.inject("h1", answer(f(), f().a, 1, f().router_h1, kH1));
  EXPECT_EQ(r.state(f().a), "reachable");
}

TEST_P(L3LocalTest, AStaticNeighbourIsNeverChanged) {
  Router r;
  r.h.inject("h1", answer(f(), f().a, 66, f().router_h1, kH1));
  r.h.inject("h1", question(f(), f().a, 66, f().router_h1));
  EXPECT_EQ(r.neighbour(f().a)["mac"], host_mac(1).to_string());
  EXPECT_EQ(r.state(f().a), "static");
}

TEST(L3LocalArp, AGratuitousRequestMovesAKnownNeighbourAndAddsNoNewOne) {
  Router r({.neighbours_known = false});
  const auto gratuitous = [](unsigned mac) {
    return FrameBuilder()
        .eth(host_mac(mac), kBroadcast)
        .arp(wire::ArpOperation::request, host_mac(mac), ip(kV4.a), {}, ip(kV4.a))
        .build();
  };
  r.h.inject("h1", gratuitous(1));
  EXPECT_EQ(r.state(kV4.a), "none");
  r.h.inject("h1", answer(kV4, kV4.a, 1, kV4.router_h1, kH1));
  EXPECT_EQ(r.state(kV4.a), "reachable");
  r.h.inject("h1", gratuitous(5));
  EXPECT_EQ(r.neighbour(kV4.a)["mac"], host_mac(5).to_string());
  EXPECT_EQ(r.state(kV4.a), "stale");
  EXPECT_EQ(r.counter("neighbours_moved"), 1u);
}

TEST(L3LocalArp, ABroadcastReplyIsNoConfirmation) {
  Router r({.neighbours_known = false});
  r.h.inject("h1", FrameBuilder()
                       .eth(host_mac(1), kBroadcast)
                       .arp(wire::ArpOperation::reply, host_mac(1), ip(kV4.a), router_mac(kH1), ip(kV4.router_h1))
                       .build());
  EXPECT_EQ(r.state(kV4.a), "stale");
}

TEST(L3LocalArp, AProbeForTheRoutersAddressIsAnsweredAndTeachesNothing) {
  Router r({.neighbours_known = false});
  r.h.inject("h1", question(kV4, "0.0.0.0", 1, kV4.router_h1));
  EXPECT_EQ(r.sent("h1").size(), 1u);
  EXPECT_TRUE(r.neighbour("0.0.0.0").is_null());
}

TEST(L3LocalArp, BrokenMessagesAreCountedAndConsumed) {
  const Bytes good = question(kV4, kV4.a, 1, kV4.router_h1);
  Router r({.neighbours_known = false});
  Bytes hardware = good;
  hardware[15] = 6;
  Bytes zero_mac = good;
  for (std::size_t i = 0; i < 6; ++i) zero_mac.at(14 + 8 + i) = 0;
  for (const auto& bad : {hardware, zero_mac, Bytes(good.begin(), good.begin() + 40)}) r.h.inject("h1", bad);
  EXPECT_EQ(r.counter("arp_invalid"), 3u);
  EXPECT_EQ(r.h.totals().consumed.value(), 3u);
  EXPECT_EQ(r.h.totals().tx.value(), 0u);
}

TEST(L3LocalArp, OtherOperationsAreIgnored) {
  Router r({.neighbours_known = false});
  Bytes reverse = question(kV4, kV4.a, 1, kV4.router_h1);
  reverse[14 + 7] = 3;
  r.h.inject("h1", reverse);
  EXPECT_EQ(r.h.totals().consumed.value(), 1u);
  EXPECT_EQ(r.state(kV4.a), "none");
}

// --- neighbour discovery in particular
// --------------------------------------------------------------------------------

struct Nd {
  std::string source = kV6.a;
  std::string destination = "ff02::1:ff00:1";
  std::string target = kV6.router_h1;
  Bytes options{1, 1, 0x02, 0xaa, 0, 0, 0, 1};
  std::uint8_t type = wire::Icmpv6Type::neighbour_solicitation;
  std::uint8_t code = 0;
  std::uint8_t hop_limit = 255;
  std::uint32_t flags = 0;

  [[nodiscard]] Bytes build() const {
    Bytes body = bytes_of(target);
    body.insert(body.end(), options.begin(), options.end());
    const IpAddress to = ip(destination);
    return FrameBuilder()
        .eth(host_mac(1), to.is_multicast() ? tables::multicast_mac(to) : router_mac(kH1))
        .ip(ip(source), to)
        .ttl(hop_limit)
        .icmp(type, code, flags)
        .payload(FrameBuilder::View(body))
        .build();
  }
};

TEST(L3LocalNd, MessagesThatBreakRfc4861AreCountedAndConsumed) {
  std::vector<Nd> broken(11);
  broken[0].hop_limit = 254;
  broken[1].code = 1;
  broken[2].options = {1, 0, 0, 0, 0, 0, 0, 0};  // length 0
  broken[3].options = {1, 2, 0, 0, 0, 0, 0, 0};  // longer than the message
  broken[4].options = {1, 1, 0, 0};              // cut off
  broken[5].target = "ff02::1";
  broken[6].source = "::";  // with a source link-layer address
  broken[7].source = "::";
  broken[7].options = {};
  broken[7].destination = kV6.router_h1;  // asks if free, but not the group: see below for what happens to it
  broken[8].type = wire::Icmpv6Type::neighbour_advertisement;
  broken[8].flags = 0x40000000;
  broken[8].destination = "ff02::1";  // solicited and multicast
  broken[9].options = {1};
  broken[10].options = {1, 1, 0, 0, 0, 0, 0, 0};  // zero MAC
  Router r({.neighbours_known = false});
  for (const Nd& message : broken) r.h.inject("h1", message.build());
  Bytes checksum = Nd{}.build();
  checksum[14 + 40 + 2] ^= 1;
  r.h.inject("h1", checksum);
  // 7 is dropped before, because a packet from nobody to a single host cannot be.
  EXPECT_EQ(r.h.dropped(L3Drop::ip_source), 1u);
  EXPECT_EQ(r.counter("nd_invalid"), 11u);
  EXPECT_EQ(r.h.totals().consumed.value(), 11u);
  EXPECT_EQ(r.h.totals().tx.value(), 0u);
  EXPECT_EQ(r.state(kV6.a), "none");
}

TEST(L3LocalNd, DuplicateAddressDetectionIsAnsweredToAllNodes) {
  Router r;
  r.h.inject("h1", Nd{.source = "::", .options = {}}.build());
  const auto frames = r.sent("h1");
  ASSERT_EQ(frames.size(), 1u);
  const auto& eth = wire::header_at<wire::EthernetHeader>(frames[0].data());
  const auto& message = wire::header_at<wire::NeighbourMessage>(frames[0].data() + 54);
  EXPECT_EQ(eth.destination, MacAddress::from_u64(0x333300000001));
  EXPECT_EQ(IpAddress::v6(wire::header_at<wire::Ipv6Header>(frames[0].data() + 14).destination), ip("ff02::1"));
  EXPECT_EQ(message.icmp.rest.value(), 0xa0000000u);
}

TEST(L3LocalNd, AUnicastSolicitationIsAnswered) {
  Router r;
  r.h.inject("h1", Nd{.destination = kV6.router_h1}.build());
  EXPECT_EQ(r.counter("nd_solicitations_answered"), 1u);
}

TEST(L3LocalNd, ASolicitationForTheLinkLocalAddressIsAnswered) {
  Router r;
  const IpAddress own = tables::link_local_address(router_mac(kH1));
  const Nd message{
      .source = "fe80::9", .destination = tables::solicited_node(own).to_string(), .target = own.to_string()};
  r.h.inject("h1", message.build());
  EXPECT_EQ(r.counter("nd_solicitations_answered"), 1u);
  EXPECT_EQ(r.state("fe80::9"), "stale");
}

TEST(L3LocalNd, WithoutAnOptionTheAnswerGoesToTheSendersMacAndNothingIsLearned) {
  Router r({.neighbours_known = false});
  r.h.inject("h1", Nd{.options = {}}.build());
  const auto frames = r.sent("h1");
  ASSERT_EQ(frames.size(), 1u);
  EXPECT_EQ(wire::header_at<wire::EthernetHeader>(frames[0].data()).destination, host_mac(1));
  EXPECT_EQ(r.state(kV6.a), "none");
}

TEST(L3LocalNd, OtherOptionsAreSkipped) {
  Router r({.neighbours_known = false});
  r.h.inject("h1", Nd{.options = {14, 1, 9, 9, 9, 9, 9, 9, 1, 1, 2, 0xaa, 0, 0, 0, 1}}.build());
  EXPECT_EQ(r.state(kV6.a), "stale");
}

TEST(L3LocalNd, AnAdvertisementOfAnUnknownNeighbourIsIgnored) {
  Router r({.neighbours_known = false});
  r.h.inject("h1", answer(kV6, kV6.a, 1, kV6.router_h1, kH1));
  EXPECT_EQ(r.state(kV6.a), "none");
}

TEST(L3LocalNd, WithoutOverrideAnotherMacOnlyCastsDoubt) {
  Router r({.neighbours_known = false});
  r.h.inject("h1", question(kV6, kV6.a, 1, kV6.router_h1));
  r.h.inject("h1", answer(kV6, kV6.a, 1, kV6.router_h1, kH1));
  Nd other{.destination = kV6.router_h1, .target = kV6.a, .options = {2, 1, 0x02, 0xaa, 0, 0, 0, 5}};
  other.type = wire::Icmpv6Type::neighbour_advertisement;
  r.h.inject("h1", other.build());
  EXPECT_EQ(r.neighbour(kV6.a)["mac"], host_mac(1).to_string());
  EXPECT_EQ(r.state(kV6.a), "stale");
  other.flags = wire::NeighbourMessage::kOverride;
  r.h.inject("h1", other.build());
  EXPECT_EQ(r.neighbour(kV6.a)["mac"], host_mac(5).to_string());
}

// --- echo -----------------------------------------------------------------------------------------------------------

class L3Echo : public BothFamilies {
 protected:
  FrameBuilder request(const std::string& to, std::size_t bytes = 56) const {
    return FrameBuilder()
        .eth(host_mac(1), router_mac(kH1))
        .ip(ip(f().a), ip(to))
        .ttl(9)
        .tos(0x28)
        .identification(0x1234)
        .icmp(f().v6 ? 128 : 8, 0, 0x00010002)
        .payload(bytes);
  }
  FrameBuilder reply(const std::string& from, std::size_t bytes = 56) const {
    return request(from, bytes)
        .eth(router_mac(kH1), host_mac(1))
        .ip(ip(from), ip(f().a))
        .ttl(64)
        .icmp(f().v6 ? 129 : 0, 0, 0x00010002);
  }
};
WEFT_BOTH_FAMILIES(L3Echo);

TEST_P(L3Echo, ARequestIsAnsweredFromTheAddressThatWasAsked) {
  for (const auto& address : {f().router_h1, f().router_h2}) {
    Router r;
    r.h.inject("h1", request(address).build());
    EXPECT_EQ(r.sent("h1"), only(reply(address)));
    EXPECT_EQ(r.counter("echo_answered"), 1u);
  }
}

TEST_P(L3Echo, AnyPayloadComesBackAlsoInSegments) {
  Router r({.ports = "mtu_bytes: 9000"});
  for (const std::size_t bytes : {0u, 1u, 2u, 1400u}) {
    r.h.inject("h1", request(f().router_h1, bytes).build());
    EXPECT_EQ(r.sent("h1"), only(reply(f().router_h1, bytes))) << bytes;
  }
  r.h.inject_chained("h1", request(f().router_h1, 5000).build(), {200, 1500, 1501, 1500});
  EXPECT_EQ(r.sent("h1"), only(reply(f().router_h1, 5000)));
}

TEST_P(L3Echo, ABrokenChecksumStaysBroken) {
  Router r;
  Bytes bad = request(f().router_h1).build();
  bad.back() ^= 1;
  r.h.inject("h1", bad);
  Bytes expected = reply(f().router_h1).build();
  expected.back() ^= 1;
  EXPECT_EQ(r.sent("h1"), std::vector<Bytes>{expected});
}

TEST_P(L3Echo, WhatIsNoRequestIsConsumed) {
  Router r;
  r.h.inject("h1", request(f().router_h1).icmp(f().v6 ? 129 : 0, 0).build());
  r.h.inject("h1", request(f().router_h1).icmp(f().v6 ? 128 : 8, 1).build());
  r.h.inject("h1", request(f().router_h1).fragment(0, true).build());
  EXPECT_EQ(r.h.totals().consumed.value(), 3u);
  EXPECT_EQ(r.h.totals().tx.value(), 0u);
}

TEST_P(L3Echo, TheRouterDoesNotAnswerItself) {
  Router r;
  r.h.inject("h1", request(f().router_h1).ip(ip(f().router_h2), ip(f().router_h1)).build());
  EXPECT_EQ(r.h.totals().consumed.value(), 1u);
  EXPECT_EQ(r.h.totals().tx.value(), 0u);
}

TEST(L3EchoV4, RequestsFromOrToAllHostsAreNotAnswered) {
  const auto request = FrameBuilder().eth(host_mac(1), kBroadcast).icmp(8, 0).payload(8);
  Router r;
  for (const char* destination : {"10.0.1.255", "255.255.255.255"}) {
    r.h.inject("h1", FrameBuilder(request).ip(ip(kV4.a), ip(destination)).build());
  }
  r.h.inject("h1",
             FrameBuilder(request).eth(host_mac(1), router_mac(kH1)).ip(ip("10.0.1.255"), ip(kV4.router_h1)).build());
  EXPECT_EQ(r.h.totals().consumed.value(), 3u);
  EXPECT_EQ(r.h.totals().tx.value(), 0u);
}

TEST(L3EchoV6, ARequestToAGroupIsAnsweredFromAnAddressOfThePort) {
  Router r;
  for (const auto& [to, from] : {std::pair("ff02::1", kV6.router_h1), std::pair("2001:db8:2::", kV6.router_h1)}) {
    const auto mac = ip(to).is_multicast() ? tables::multicast_mac(ip(to)) : router_mac(kH1);
    r.h.inject("h1", FrameBuilder().eth(host_mac(1), mac).ip(ip(kV6.a), ip(to)).icmp(128, 0, 1).payload(8).build());
    EXPECT_EQ(
        r.sent("h1"),
        only(FrameBuilder().eth(router_mac(kH1), host_mac(1)).ip(ip(from), ip(kV6.a)).icmp(129, 0, 1).payload(8)));
  }
}

}  // namespace
}  // namespace weft::stages
