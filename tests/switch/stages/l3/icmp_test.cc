// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/stages/l3/icmp.h"

#include "switch/stages/l3/drops.h"
#include "switch/stages/l3/messages.h"
#include "switch/wire/checksum.h"
#include "tests/switch/stages/l3/router.h"

namespace weft::stages {
namespace {

class L3IcmpTest : public BothFamilies {
 protected:
  // The error about `about`, as it must leave through h1.
  FrameBuilder error(const Bytes& about, std::uint8_t type, std::uint8_t code, std::uint32_t rest = 0) const {
    Bytes quote(about.begin() + 14, about.end());
    quote.resize(std::min(quote.size(), icmp_quote_limit(f().v6)));
    return FrameBuilder()
        .eth(router_mac(kH1), host_mac(1))
        .ip(ip(f().router_h1), ip(f().a))
        .tos(0xc0)
        .icmp(type, code, rest)
        .payload(FrameBuilder::View(quote));
  }
  std::uint8_t unreachable() const { return f().v6 ? 1 : 3; }
  FrameBuilder plain(const std::string& to) const {
    return FrameBuilder().eth(host_mac(1), router_mac(kH1)).ip(ip(f().a), ip(to)).udp(1, 2).payload(32);
  }
  void expect_no_error(const FrameBuilder& packet, const char* what) const {
    Router r;
    r.h.inject("h1", packet.build());
    EXPECT_EQ(r.h.dropped_total(), 1u) << what;
    EXPECT_EQ(r.h.totals().tx.value(), 0u) << what;
  }
};
WEFT_BOTH_FAMILIES(L3IcmpTest);

TEST_P(L3IcmpTest, TimeExceededQuotesThePacketAsItCame) {
  for (const std::uint8_t ttl : {0, 1}) {
    for (const auto& to : {f().b, f().spread}) {
      Router r;
      const Bytes about = from_a(f(), to).ttl(ttl).build();
      r.h.inject("h1", about);
      EXPECT_EQ(r.sent("h1"), only(error(about, f().v6 ? 3 : 11, 0)));
    }
  }
}

TEST_P(L3IcmpTest, NoRouteIsNetUnreachable) {
  Router r;
  const Bytes about = from_a(f(), f().nowhere).build();
  r.h.inject("h1", about);
  EXPECT_EQ(r.sent("h1"), only(error(about, unreachable(), 0)));
}

TEST_P(L3IcmpTest, AProhibitedRouteIsAdministrativelyProhibited) {
  Router r;
  const auto spec = [](const std::string& prefix, tables::RouteSource source, tables::NextHopId special) {
    return tables::RouteSpec{*wire::IpPrefix::parse(prefix), source, special, {}};
  };
  tables::RouteSpec own = spec(f().v6 ? "2001:db8:1::/64" : "10.0.1.0/24", tables::RouteSource::connected, 0);
  own.hops.push_back({0, {}, true});
  ASSERT_TRUE(r.h.shared<L3Shared>("l3").set_routes(std::vector<tables::RouteSpec>{
      own, spec(f().v6 ? "2001:db8:99::/48" : "198.51.100.0/24", tables::RouteSource::kernel, tables::kProhibited)}));
  const Bytes about = from_a(f(), f().nowhere).build();
  r.h.inject("h1", about);
  EXPECT_EQ(r.sent("h1"), only(error(about, unreachable(), f().v6 ? 1 : 13)));
  EXPECT_EQ(r.h.dropped(L3Drop::prohibited_route), 1u);
}

TEST_P(L3IcmpTest, AnUnresolvedNeighbourIsHostUnreachable) {
  Router r({.neighbours_known = false});
  const Bytes about = from_a(f(), f().b).build();
  r.h.inject("h1", about);
  r.h.advance_ns(3 * kSecond);
  EXPECT_EQ(r.sent("h1"), only(error(about, unreachable(), f().v6 ? 3 : 1)));
}

TEST_P(L3IcmpTest, APacketThatIsTooBigLearnsTheMtuOfTheEgressPort) {
  Router r({.ports = "mtu_bytes: 1400"});
  const Bytes about = plain(f().b).payload(1400).build();
  r.h.inject("h1", about);
  EXPECT_EQ(r.sent("h1"), only(f().v6 ? error(about, 2, 0, 1400) : error(about, 3, 4, 1400)));
}

TEST_P(L3IcmpTest, TheQuoteOfALargePacketIsCutAtTheLimit) {
  Router r({.ports = "mtu_bytes: 9000"});
  const Bytes about = plain(f().nowhere).payload(4000).build();
  r.h.inject_chained("h1", about, {200, 100, 2000});
  const auto frames = r.sent("h1");
  ASSERT_EQ(frames.size(), 1u);
  EXPECT_EQ(frames[0].size(), f().v6 ? 14u + 1280u : 14u + 576u);
  EXPECT_EQ(frames[0], error(about, unreachable(), 0).build());
}

TEST_P(L3IcmpTest, TheQuoteFitsSmallPacketBuffers) {
  Router r({}, {.data_room_bytes = 384});
  r.h.inject("h1", plain(f().nowhere).payload(400).build());
  const auto frames = r.sent("h1");
  ASSERT_EQ(frames.size(), 1u);
  EXPECT_EQ(frames[0].size(), 256u);
}

TEST_P(L3IcmpTest, TheErrorLeavesTheWayThatThePacketCame) {
  Router r({.neighbours_known = false});
  r.h.inject("h1", plain(f().nowhere).eth(host_mac(77), router_mac(kH1)).build());
  const auto frames = r.sent("h1");
  ASSERT_EQ(frames.size(), 1u);
  EXPECT_EQ(wire::header_at<wire::EthernetHeader>(frames[0].data()).destination, host_mac(77));
}

TEST_P(L3IcmpTest, QuestionsAndAnswersOfIcmpGetErrors) {
  Router r;
  r.h.inject("h1", plain(f().nowhere).icmp(f().v6 ? 128 : 8, 0).build());
  r.h.inject("h1", plain(f().nowhere).icmp(f().v6 ? 129 : 0, 0).build());
  EXPECT_EQ(r.counter("icmp_errors_sent"), 2u);
}

TEST_P(L3IcmpTest, ErrorsGetNoErrors) {
  const std::vector<std::uint8_t> v4{3, 4, 5, 11, 12, 200};
  const std::vector<std::uint8_t> v6{1, 2, 3, 4, 127, 137};
  for (const std::uint8_t type : f().v6 ? v6 : v4) {
    expect_no_error(plain(f().nowhere).icmp(type, 0).payload(40), "error");
    expect_no_error(plain(f().b).icmp(type, 0).payload(40).ttl(1), "error with TTL 1");
    expect_no_error(plain(f().nowhere).icmp(type, 0).payload(40).fragment(0, true), "first fragment of an error");
  }
}

TEST_P(L3IcmpTest, OfAFragmentedPacketOnlyTheFirstFragmentGetsAnError) {
  expect_no_error(plain(f().nowhere).fragment(1, true), "fragment 1");
  expect_no_error(plain(f().nowhere).fragment(8191, false), "last fragment");
  Router r;
  r.h.inject("h1", plain(f().nowhere).fragment(0, true).build());
  EXPECT_EQ(r.counter("icmp_errors_sent"), 1u);
}

TEST_P(L3IcmpTest, GroupsGetNoErrors) {
  const std::string group = f().v6 ? "ff0e::5" : "239.1.1.1";
  expect_no_error(plain(group).eth(host_mac(1), MacAddress::from_u64(0x01005e010101)), "multicast");
}

TEST_P(L3IcmpTest, SourcesThatAreTheRouterGetNoErrors) {
  expect_no_error(plain(f().nowhere).ip(ip(f().router_h2), ip(f().nowhere)), "own address");
  expect_no_error(plain(f().nowhere).ip(ip(f().router_h1), ip(f().nowhere)), "own address");
}

TEST(L3IcmpV4, SourcesThatAreAWholeSubnetGetNoErrors) {
  for (const char* source : {"10.0.1.255", "10.0.1.0"}) {
    Router r;
    r.h.inject("h1", from_a(kV4, kV4.nowhere).ip(ip(source), ip(kV4.nowhere)).build());
    EXPECT_EQ(r.h.dropped(L3Drop::no_route), 1u);
    EXPECT_EQ(r.h.totals().tx.value(), 0u) << source;
  }
}

TEST_P(L3IcmpTest, OnlySoManyErrorsASecondAreSent) {
  Router r({.l3 = "{ icmp_errors_per_s: 100 }"});
  const auto send = [&](unsigned count) {
    for (unsigned i = 0; i < count; ++i) r.h.inject("h1", from_a(f(), f().nowhere).build());
    return r.sent("h1").size();
  };
  EXPECT_EQ(send(20), 5u);
  r.h.advance_ns(10'000'000);
  EXPECT_EQ(send(20), 1u);
  r.h.advance_ns(9'999'999);
  EXPECT_EQ(send(20), 0u);
  r.h.advance_ns(1);
  EXPECT_EQ(send(20), 1u);
  r.h.advance_ns(3600 * kSecond);
  EXPECT_EQ(send(20), 5u);
  EXPECT_EQ(r.counter("icmp_errors_sent"), 12u);
  EXPECT_EQ(r.counter("icmp_rate_limited"), 88u);
  EXPECT_EQ(r.h.dropped(L3Drop::no_route), 100u);
}

TEST_P(L3IcmpTest, ZeroErrorsASecondSendsNone) {
  Router r({.l3 = "{ icmp_errors_per_s: 0 }"});
  r.h.inject("h1", from_a(f(), f().nowhere).build());
  EXPECT_EQ(r.h.totals().tx.value(), 0u);
  EXPECT_EQ(r.counter("icmp_rate_limited"), 1u);
}

TEST_P(L3IcmpTest, APortWithoutAnAddressOfTheFamilyAnswersFromAnotherPorts) {
  pipeline::Registry registry;
  register_all(registry);
  testing::Harness h(registry, R"(
name: router
ports:
  - { name: h1, type: "null" }
  - { name: h2, type: "null" }
addresses: [ { port: h2, address: 10.0.2.1/24 }, { port: h2, address: "2001:db8:2::1/64" } ]
pipeline: [ parse, l3 ]
)");
  h.inject("h1", from_a(f(), f().nowhere).build());
  const auto frames = h.take("h1");
  ASSERT_EQ(frames.size(), 1u);
  const std::size_t source = f().v6 ? 14 + 8 : 14 + 12;
  const Bytes from(frames[0].bytes.begin() + static_cast<std::ptrdiff_t>(source),
                   frames[0].bytes.begin() + static_cast<std::ptrdiff_t>(source + (f().v6 ? 16 : 4)));
  EXPECT_EQ(from, f().v6 ? bytes_of(f().router_h2) : (Bytes{10, 0, 2, 1}));
}

}  // namespace
}  // namespace weft::stages
