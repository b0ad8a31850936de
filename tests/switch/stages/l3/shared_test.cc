// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/stages/l3/shared.h"

#include "switch/stages/l3/drops.h"
#include "tests/switch/stages/l3/router.h"

namespace weft::stages {
namespace {

using nlohmann::ordered_json;

ordered_json row_of(const Router& r, const std::string& prefix) {
  for (auto& row : r.h.rows("routes")) {
    if (row["prefix"] == prefix) return row;
  }
  return nullptr;
}

pipeline::RouteInfo route(const std::string& prefix, const std::vector<std::string>& via) {
  pipeline::RouteInfo info;
  info.prefix = *wire::IpPrefix::parse(prefix);
  for (const auto& address : via) info.via.push_back({ip(address), std::nullopt});
  return info;
}

class L3SharedTest : public BothFamilies {
 protected:
  std::string prefix(const char* v4, const char* v6) const { return f().v6 ? v6 : v4; }
};
WEFT_BOTH_FAMILIES(L3SharedTest);

TEST_P(L3SharedTest, RoutesListsEveryPrefixOnceWithItsSource) {
  Router r;
  EXPECT_EQ(row_of(r, prefix("10.0.1.1/32", "2001:db8:1::1/128"))["source"], "local");
  EXPECT_EQ(row_of(r, prefix("10.0.1.0/24", "2001:db8:1::/64"))["source"], "connected");
  EXPECT_EQ(row_of(r, prefix("20.0.0.0/8", "2001:db8:20::/48"))["source"], "static");
  if (f().v6)
    EXPECT_EQ(row_of(r, "2001:db8:1::/128")["source"], "local");
  else
    EXPECT_EQ(row_of(r, "10.0.1.255/32")["source"], "broadcast");
}

TEST_P(L3SharedTest, ARouteListsItsNextHopsAsIpRouteWritesThem) {
  Router r;
  const auto one = row_of(r, prefix("20.0.0.0/8", "2001:db8:20::/48"));
  EXPECT_EQ(one["next_hops"], ordered_json::array({f().uplink + " dev u1"}));
  EXPECT_EQ(one["blackhole"], false);
  const auto group = row_of(r, prefix("30.0.0.0/8", "2001:db8:30::/48"));
  ASSERT_EQ(group["next_hops"].size(), 3u);
  EXPECT_EQ(group["next_hops"][2], prefix("10.1.3.2 dev u3", "2001:db8:13::2 dev u3"));
  Router unresolved({.neighbours_known = false});
  EXPECT_EQ(row_of(unresolved, prefix("20.0.0.0/8", "2001:db8:20::/48"))["next_hops"],
            ordered_json::array({f().uplink + " dev u1 incomplete"}));
}

TEST_P(L3SharedTest, GroupsAreListedWholeFromANumberOn) {
  Router r;
  const auto& shared = r.h.shared<L3Shared>("l3");
  const auto numbers = [&](std::uint64_t first, std::size_t members) {
    std::vector<std::uint64_t> out;
    for (const NextHopGroup& group : shared.groups(first, members)) {
      EXPECT_EQ(group.members.size(), 3u);
      EXPECT_EQ(group.routes, 1u);
      out.push_back(group.number);
    }
    return out;
  };
  EXPECT_THAT(numbers(0, 1), ::testing::ElementsAre(0));
  EXPECT_THAT(numbers(0, 3), ::testing::ElementsAre(0));
  EXPECT_THAT(numbers(0, 4), ::testing::ElementsAre(0, 1));
  EXPECT_THAT(numbers(1, 100), ::testing::ElementsAre(1));
  EXPECT_THAT(numbers(2, 100), ::testing::IsEmpty());
}

TEST_P(L3SharedTest, ConnectedRoutesHaveAPortAndNoRouter) {
  Router r;
  EXPECT_EQ(row_of(r, prefix("10.0.2.0/24", "2001:db8:2::/64"))["next_hops"], ordered_json::array({"dev h2"}));
}

TEST_P(L3SharedTest, BlackholeRoutesSaySo) {
  Router r;
  const auto row = row_of(r, prefix("192.0.2.0/24", "2001:db8:bad::/48"));
  EXPECT_EQ(row["blackhole"], true);
  EXPECT_EQ(row["action"], "blackhole");
  EXPECT_TRUE(row["next_hops"].empty());
}

TEST_P(L3SharedTest, RoutesOfTheKernelSayWhoInstalledThemAndWhatTheyRefuse) {
  Router r;
  const std::string refused = prefix("198.51.100.0/24", "2001:db8:99::/48");
  ASSERT_TRUE(r.h.shared<L3Shared>("l3").set_routes(std::vector<tables::RouteSpec>{
      {*wire::IpPrefix::parse(refused), tables::RouteSource::kernel, tables::kProhibited, {}, 186},
      {*wire::IpPrefix::parse(prefix("203.0.113.0/24", "2001:db8:98::/48")),
       tables::RouteSource::kernel,
       tables::kBlackhole,
       {},
       77}}));
  const auto row = row_of(r, refused);
  EXPECT_EQ(row["source"], "kernel");
  EXPECT_EQ(row["protocol"], "bgp");
  EXPECT_EQ(row["action"], "prohibited");
  EXPECT_EQ(row_of(r, prefix("203.0.113.0/24", "2001:db8:98::/48"))["protocol"], "77");
}

TEST_P(L3SharedTest, TheLongestPrefixOfAnAddressIsFound) {
  Router r;
  const auto& shared = r.h.shared<L3Shared>("l3");
  const auto route = shared.route_of(*wire::IpAddress::parse(prefix("192.0.2.7", "2001:db8:bad::7")));
  EXPECT_EQ(route["prefix"], prefix("192.0.2.0/24", "2001:db8:bad::/48"));
  EXPECT_EQ(route["action"], "blackhole");
  const auto direct = shared.route_of(*wire::IpAddress::parse(prefix("10.0.2.77", "2001:db8:2::77")));
  EXPECT_EQ(direct["action"], "forward");
  EXPECT_EQ(direct["next_hops"], ordered_json::array({"dev h2"}));
}

TEST_P(L3SharedTest, NeighboursListsAddressPortMacStateAndAge) {
  Router r({.neighbours_known = false});
  r.h.inject("h1", question(f(), f().a, 1, f().router_h1));
  r.h.advance_ns(5 * kSecond);
  EXPECT_EQ(r.neighbour(f().a),
            (ordered_json{
                {"address", f().a}, {"port", "h1"}, {"mac", "02:aa:00:00:00:01"}, {"state", "stale"}, {"age_s", 5}}));
  Router known;
  EXPECT_EQ(known.neighbour(f().a)["state"], "static");
  EXPECT_EQ(known.neighbour(f().a)["age_s"], nullptr);
}

TEST_P(L3SharedTest, NextHopsOfRoutesAreListedBeforeTheyAreResolved) {
  Router r({.neighbours_known = false});
  r.h.advance_ns(100 * kSecond);
  EXPECT_EQ(r.state(f().uplink), "incomplete");
  EXPECT_EQ(r.neighbour(f().uplink)["mac"], nullptr);
}

TEST_P(L3SharedTest, NewRoutesHoldFromTheNextBurstOn) {
  Router r;
  auto& shared = r.h.shared<L3Shared>("l3");
  shared.set_routes({route(prefix("198.51.100.0/24", "2001:db8:99::/48"), {f().uplink})});
  r.h.inject("h1", from_a(f(), f().nowhere).build());
  EXPECT_EQ(r.sent("u1").size(), 1u);
  r.h.inject("h1", from_a(f(), f().far).build());
  EXPECT_EQ(r.h.dropped(L3Drop::no_route), 1u);
  r.h.inject("h1", from_a(f(), f().b).build());
  EXPECT_EQ(r.sent("h2").size(), 1u);
}

TEST_P(L3SharedTest, AnOldTableGoesWhenTheWorkerHasLetGoOfItEvenWithoutPackets) {
  Router r({.neighbours_known = false});
  auto& shared = r.h.shared<L3Shared>("l3");
  const auto& domain = shared.worker(0).tables().domain;
  EXPECT_EQ(r.h.pipeline().next_deadline(), kNever);
  shared.set_routes(std::vector<pipeline::RouteInfo>{});
  EXPECT_EQ(domain.pending(), 1u);
  EXPECT_LE(r.h.pipeline().next_deadline(), r.h.now());
  r.h.advance_ns(kSecond);
  EXPECT_EQ(domain.pending(), 0u);
  EXPECT_EQ(r.h.pipeline().next_deadline(), kNever);
}

TEST_P(L3SharedTest, ANextHopThatNoRouteUsesAnyMoreIsForgotten) {
  Router r({.neighbours_known = false});
  r.h.shared<L3Shared>("l3").set_routes(std::vector<pipeline::RouteInfo>{});
  r.h.advance_ns(20 * kSecond);
  EXPECT_EQ(r.state(f().uplink), "none");
}

TEST_P(L3SharedTest, RoutesToTheSameNextHopsShareThem) {
  Router r;
  r.h.shared<L3Shared>("l3").set_routes({route(prefix("20.0.0.0/8", "2001:db8:20::/48"), {f().uplink}),
                                         route(prefix("21.0.0.0/8", "2001:db8:21::/48"), {f().uplink})});
  r.h.inject("h1", {from_a(f(), prefix("20.0.0.1", "2001:db8:20::1")).build(),
                    from_a(f(), prefix("21.0.0.1", "2001:db8:21::1")).build()});
  EXPECT_EQ(r.sent("u1").size(), 2u);
}

TEST_P(L3SharedTest, ANextHopInNoSubnetMakesARouteUnreachable) {
  Router r;
  const std::string router = prefix("203.0.113.1", "2001:db8:77::1");
  r.h.shared<L3Shared>("l3").set_routes({route(prefix("20.0.0.0/8", "2001:db8:20::/48"), {router})});
  r.h.inject("h1", from_a(f(), f().far).build());
  EXPECT_EQ(r.h.dropped(L3Drop::no_route), 1u);
}

TEST(L3Shared, APacketThatWaitsSurvivesNewRoutes) {
  Router r({.neighbours_known = false});
  r.h.inject("h1", from_a(kV4, kV4.far).build());
  r.h.shared<L3Shared>("l3").set_routes(std::vector<pipeline::RouteInfo>{});
  r.h.advance_ns(kSecond / 2);
  r.sent("u1");
  r.h.inject("u1", answer(kV4, kV4.uplink, 11, "10.1.1.1", kU1));
  EXPECT_EQ(r.sent("u1"), only(routed(from_a(kV4, kV4.far), kU1, 11)));
}

}  // namespace
}  // namespace weft::stages
