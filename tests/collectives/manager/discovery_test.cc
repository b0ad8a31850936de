// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "collectives/manager/discovery.h"

#include <gmock/gmock.h>

#include "tests/collectives/manager/fake_fabric.h"

namespace weft::inc::manager {
namespace {

using policy::NodeId;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

/// Two leaves under a root, and hosts; a file that states addresses of hosts, and a link of one leaf.
StatedFabric stated(bool with_link = false) {
  StatedFabric s;
  for (const char* name : {"leaf1", "leaf2", "root"}) s.topology.add_switch(name, policy::weft_abilities(1 << 20));
  for (const std::string n : {"1", "2", "3"}) {
    s.hosts.emplace(s.topology.add_host("h" + n), *wire::IpAddress::parse("10.0." + n + ".2"));
  }
  if (with_link) {
    s.topology.add_link(s.topology.find("leaf1"), s.topology.find("root"), 40'000);
    s.ends.push_back({*wire::IpAddress::parse("10.1.1.1"), *wire::IpAddress::parse("10.1.1.0")});
  }
  return s;
}

/// Port p<N> has the addresses that are given in turn.
NeighbourReport report(const std::string& node, const std::vector<std::string>& addresses) {
  NeighbourReport r{node, "mac " + node, {}, {}};
  for (const auto& address : addresses) {
    const std::string n = std::to_string(r.ports.size());
    r.ports.push_back({"p" + n, node + " " + n, {*wire::IpPrefix::parse(address)}, 10'000});
  }
  return r;
}
void hears(NeighbourReport& r, int port, const std::string& node, int peer_port) {
  r.neighbours.push_back({"p" + std::to_string(port), "mac " + node, node, "ifname p" + std::to_string(peer_port), ""});
}
void hears_host(NeighbourReport& r, int port, const std::string& host) {
  r.neighbours.push_back({"p" + std::to_string(port), "mac " + host, host, "mac x", "eth0"});
}

NeighbourReport leaf(int n) {
  const std::string s = std::to_string(n);
  NeighbourReport r = report("leaf" + s, {"10.0." + s + ".1/24", "10.1." + s + ".1/31"});
  hears_host(r, 0, "h" + s);
  hears(r, 1, "root", n - 1);
  return r;
}
NeighbourReport root() {
  NeighbourReport r = report("root", {"10.1.1.0/31", "10.1.2.0/31"});
  hears(r, 0, "leaf1", 1);
  hears(r, 1, "leaf2", 1);
  return r;
}

std::vector<std::string> links(const Discovery& d) {
  std::vector<std::string> out;
  for (std::size_t i = 0; i < d.found().size(); ++i) {
    const FoundLink& l = d.found()[i];
    const auto end = [&](NodeId node, const wire::IpAddress& a) {
      return d.stated().topology.node(node).name + " " + a.to_string();
    };
    out.push_back(end(l.a, l.a_address) + " - " + end(l.b, l.b_address) + (d.is_up(i) ? "" : " down"));
  }
  return out;
}

constexpr const char *kHost1 = "leaf1 10.0.1.1 - h1 10.0.1.2", *kHost2 = "leaf2 10.0.2.1 - h2 10.0.2.2",
                     *kUp1 = "leaf1 10.1.1.1 - root 10.1.1.0", *kUp2 = "leaf2 10.1.2.1 - root 10.1.2.0";

TEST(Discovery, ReportsOfBothEndsMakeOneLink) {
  Discovery d(stated());
  EXPECT_THAT(d.report(leaf(1)).sentences, ElementsAre("p1: root has not reported its end"));
  EXPECT_THAT(links(d), ElementsAre(kHost1));
  EXPECT_THAT(d.report(root()).sentences, ElementsAre("p1: leaf2 has not reported its end"));
  EXPECT_THAT(links(d), ElementsAre(kHost1, kUp1));
  EXPECT_THAT(d.report(leaf(2)).sentences, IsEmpty());
  EXPECT_THAT(links(d), ElementsAre(kHost1, kUp1, kHost2, kUp2));
  EXPECT_EQ(d.found()[0].rate_mbps, 10'000u);
  EXPECT_THAT(d.contradictions(), IsEmpty());
  EXPECT_EQ(d.source_of(0), "lldp");
}

TEST(Discovery, OneEndIsEnough) {
  Discovery d(stated());
  NeighbourReport r = root();
  r.neighbours.clear();
  d.report(r);
  d.report(leaf(1));
  EXPECT_THAT(links(d), ElementsAre(kHost1, kUp1));
}

TEST(Discovery, ALinkThatNobodyHearsOfIsDown) {
  Discovery d(stated());
  d.report(root());
  d.report(leaf(1));
  NeighbourReport quiet = leaf(1);
  quiet.neighbours.pop_back();
  d.report(quiet);
  EXPECT_TRUE(d.is_up(1)) << "root still does";
  NeighbourReport r = root();
  r.neighbours.clear();
  d.report(r);
  EXPECT_THAT(links(d), ElementsAre(kHost1, std::string(kUp1) + " down"));
  d.report(root());
  EXPECT_THAT(links(d), ElementsAre(kHost1, kUp1));
}

TEST(Discovery, WhatTheFileStatesIsConfirmedOrContradicted) {
  Discovery d(stated(true));
  EXPECT_EQ(d.source_of(0), "configuration");
  d.report(root());
  d.report(leaf(1));
  EXPECT_EQ(d.source_of(0), "configuration, lldp");
  EXPECT_THAT(links(d), ElementsAre(kHost1)) << "the other one is the file's";
  EXPECT_EQ(d.source_of(1), "lldp");
  // The cable of leaf1 goes into root's other port.
  NeighbourReport moved = report("leaf1", {"10.0.1.1/24", "10.1.1.1/16"});
  hears(moved, 1, "root", 1);
  d.report(moved);
  EXPECT_EQ(d.source_of(0), "configuration, lldp") << "root has heard of it before";
  ASSERT_EQ(d.contradictions().size(), 1u);
  EXPECT_EQ(d.contradictions()[0],
            "LLDP: leaf1 (10.1.1.1) is connected with root (10.1.2.0); the file: leaf1 (10.1.1.1) is connected with "
            "root (10.1.1.0)");
  EXPECT_THAT(links(d), ElementsAre(std::string(kHost1) + " down"));
}

TEST(Discovery, TwoSwitchesThatContradictEachOtherAreNotBothBelieved) {
  Discovery d(stated());
  d.report(root());
  NeighbourReport one = leaf(1), two = leaf(2);
  two.ports[1].addresses = {*wire::IpPrefix::parse("10.1.1.3/29")};
  two.neighbours[1].peer_port = "ifname p0";
  one.ports[1].addresses = {*wire::IpPrefix::parse("10.1.1.1/29")};
  d.report(one);
  d.report(two);
  EXPECT_THAT(links(d), ElementsAre(kHost1, kUp1, kHost2));
  EXPECT_THAT(d.contradictions(),
              ElementsAre(HasSubstr("leaf2 (10.1.1.3) is connected with root (10.1.1.0); and leaf1")));
}

TEST(Discovery, WhatIsOfNoUseIsSaid) {
  Discovery d(stated());
  NeighbourReport r = report("spine9", {});
  EXPECT_THAT(d.report(r).sentences, ElementsAre(HasSubstr("no switch or host spine9")));
  r = report("leaf1", {"10.9.9.1/24", "10.0.1.1/24"});
  hears_host(r, 0, "h1");
  hears_host(r, 1, "printer");
  hears_host(r, 7, "h1");
  hears(r, 1, "leaf1", 0);
  d.report(root());
  hears(r, 1, "root", 9);
  EXPECT_THAT(d.report(r).sentences,
              ElementsAre(HasSubstr("p0: it has no address in a network of h1"),
                          HasSubstr("p1: no switch or host of the manager's is printer"),
                          HasSubstr("p7: the report has no such port"), HasSubstr("p1: no link leads to leaf1"),
                          HasSubstr("p1: root has not reported its end")));
  EXPECT_THAT(links(d), IsEmpty());
}

TEST(Discovery, ANameAloneIsNotBelievedOfWhoReports) {
  Discovery d(stated());
  d.report(root());
  NeighbourReport r = leaf(1);
  r.neighbours[1].chassis = "mac somebody else";
  EXPECT_THAT(d.report(r).sentences, ElementsAre(HasSubstr("is root")));
  EXPECT_THAT(links(d), ElementsAre(kHost1, kUp1)) << "root itself hears leaf1";
}

TEST(Discovery, PortsAreFoundByNameDescriptionOrTheirOwnMac) {
  for (const auto& [identity, description] : {std::pair("ifname p0", ""), std::pair("mac y", "p0"),
                                              std::pair("mac root 0", ""), std::pair("local 7", "p0")}) {
    Discovery d(stated());
    NeighbourReport r = root(), l = leaf(1);
    r.neighbours.clear();
    l.neighbours[1].peer_port = identity;
    l.neighbours[1].peer_description = description;
    d.report(r);
    d.report(l);
    EXPECT_THAT(links(d), ElementsAre(kHost1, kUp1)) << identity;
  }
  Discovery d(stated());
  NeighbourReport r = root(), l = leaf(1);
  r.neighbours.clear();
  for (Port& p : r.ports) p.mac = "same";
  l.neighbours[1].peer_port = "mac same";
  d.report(r);
  d.report(l);
  EXPECT_THAT(links(d), ElementsAre(kHost1)) << "two ports have it";
}

TEST(Discovery, LinksOutliveTheProcess) {
  Discovery d(stated());
  d.report(root());
  d.report(leaf(1));
  Discovery next(stated());
  ASSERT_TRUE(next.restore(d.to_text()));
  EXPECT_THAT(links(next), ElementsAre(kHost1, kUp1));
  // Now the file states one of them.
  Discovery later(stated(true));
  ASSERT_TRUE(later.restore(d.to_text()));
  EXPECT_THAT(links(later), ElementsAre(kHost1));
  for (const char* text : {"", "{", "[1]", R"([{"a":"leaf1"}])", R"({"a":1})"}) {
    EXPECT_FALSE(Discovery(stated()).restore(text)) << text;
  }
}

/// A manager whose file states no link at all.
class DiscoveringManager : public testing::Test {
 protected:
  void SetUp() override { start(); }
  void start() {
    Fabric fabric;
    ASSERT_EQ(assemble(stated(), {}, true, fabric), std::nullopt);
    manager.emplace(std::move(fabric), ManagerOptions{}, switches, store, 1);
    manager->discover(stated());
    ASSERT_EQ(manager->recover(0), std::nullopt);
  }
  void report_all() {
    for (const NeighbourReport& r : {root(), leaf(1), leaf(2)}) last = manager->report(r);
  }
  static CreateRequest both() {
    CreateRequest r;
    for (const char* address : {"10.0.1.2", "10.0.2.2"}) r.members.push_back({*wire::IpAddress::parse(address), 17});
    return r;
  }

  Steps steps;
  FakeSwitches switches{steps};
  FakeStore store{steps};
  std::optional<Manager> manager;
  std::vector<std::string> last;
};

TEST_F(DiscoveringManager, GroupsGetTreesOfLinksThatWereFound) {
  EXPECT_THAT(manager->create(0, both()).sentences, ElementsAre(HasSubstr("no host has the address")));
  report_all();
  EXPECT_THAT(last, IsEmpty());
  const auto& t = manager->fabric().topology;
  EXPECT_EQ(t.node(t.find("leaf2")).tier, 1u);
  EXPECT_EQ(t.node(t.find("root")).tier, 2u);
  const CreateReply reply = manager->create(0, both());
  ASSERT_EQ(reply.refusal, Refusal::none);
  EXPECT_EQ(reply.endpoints[1].address.to_string(), "10.0.2.1");
  EXPECT_EQ(manager->groups().at(1).record.switches.size(), 3u);
}

TEST_F(DiscoveringManager, ALinkThatIsDownIsUsedByNoNewGroup) {
  report_all();
  NeighbourReport quiet = root();
  quiet.neighbours.pop_back();
  static_cast<void>(manager->report(quiet));
  EXPECT_EQ(manager->explain(both()).refusal, Refusal::none) << "leaf2 hears of it";
  NeighbourReport l = leaf(2);
  l.neighbours.pop_back();
  static_cast<void>(manager->report(l));
  EXPECT_EQ(manager->explain(both()).reason, policy::Reason::no_path);
}

TEST_F(DiscoveringManager, GroupsKeepTheirTreesWhenMoreIsFound) {
  report_all();
  ASSERT_EQ(manager->create(0, both()).refusal, Refusal::none);
  const GroupRecord before = manager->groups().at(1).record;
  NeighbourReport l = leaf(1), r = root();
  l.ports.push_back({"p2", "m", {*wire::IpPrefix::parse("10.1.3.1/31")}, 0});
  r.ports.push_back({"p2", "n", {*wire::IpPrefix::parse("10.1.3.0/31")}, 0});
  hears(l, 2, "root", 2);
  static_cast<void>(manager->report(r));
  EXPECT_THAT(manager->report(l), IsEmpty());
  EXPECT_EQ(manager->fabric().topology.links().size(), 5u);
  EXPECT_EQ(manager->groups().at(1).record, before);
  EXPECT_EQ(manager->policy().groups().size(), 1u);
  EXPECT_EQ(manager->policy().ledger().at(manager->fabric().topology.find("root")).groups, 1u);
  EXPECT_EQ(manager->destroy(0, 1, 0), Refusal::none);
  for (NodeId n = 0; n < 3; ++n) EXPECT_EQ(manager->policy().ledger().at(n).bytes, 0u);
}

TEST_F(DiscoveringManager, TheNextManagerTakesOverGroupsAndLinks) {
  report_all();
  ASSERT_EQ(manager->create(0, both()).refusal, Refusal::none);
  const GroupRecord before = manager->groups().at(1).record;
  start();
  EXPECT_EQ(manager->groups().at(1).record, before);
  EXPECT_EQ(manager->create(0, both()).refusal, Refusal::none) << "before any agent has said anything";
}

/// A host that is found at root makes a leaf switch of it, like those below it.
TEST_F(DiscoveringManager, LinksThatTurnTreesWaitUntilThereAreNone) {
  report_all();
  ASSERT_EQ(manager->create(0, both()).refusal, Refusal::none);
  NeighbourReport r = root();
  r.ports.push_back({"p2", "n", {*wire::IpPrefix::parse("10.0.3.1/24")}, 0});
  hears_host(r, 2, "h3");
  EXPECT_THAT(manager->report(r), ElementsAre(HasSubstr("not used yet")));
  EXPECT_EQ(manager->fabric().topology.links().size(), 4u);
  EXPECT_EQ(manager->destroy(0, 1, 0), Refusal::none);
  EXPECT_THAT(manager->report(r), IsEmpty());
  EXPECT_EQ(manager->fabric().topology.links().size(), 5u);
}

TEST_F(DiscoveringManager, WithoutRoomInTheStoreNoLinkIsUsed) {
  steps.fault = [](std::uint64_t) { return Fault::refuse; };
  EXPECT_THAT(manager->report(leaf(1)), testing::Contains(HasSubstr("the disk is full")));
  EXPECT_TRUE(manager->fabric().topology.links().empty());
  steps.fault = [](std::uint64_t) { return Fault::none; };
  static_cast<void>(manager->report(leaf(1)));
  EXPECT_EQ(manager->fabric().topology.links().size(), 1u);
}

TEST_F(DiscoveringManager, WithoutDiscoveryReportsAreOfNoUse) {
  manager.emplace(small_fabric(), ManagerOptions{}, switches, store, 1);
  ASSERT_EQ(manager->recover(0), std::nullopt);
  EXPECT_THAT(manager->report(leaf(1)), ElementsAre(HasSubstr("discovery is none")));
}

}  // namespace
}  // namespace weft::inc::manager
