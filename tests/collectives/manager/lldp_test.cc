// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// With what lldpcli 1.0.16 printed for two namespaces with two links; `-S` had named them in their descriptions.
#include "collectives/manager/lldp.h"

#include <gmock/gmock.h>

#include <fstream>
#include <iterator>

namespace weft::inc::manager {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Optional;

std::string recorded(const std::string& name) {
  std::ifstream file(WEFT_SOURCE_DIR "/tests/collectives/manager/lldp/" + name);
  EXPECT_TRUE(file) << name;
  return {std::istreambuf_iterator<char>(file), {}};
}

constexpr const char* kRoot = "mac ce:57:b8:c4:51:db";

TEST(Lldp, NeighboursAreRead) {
  const Neighbour first{"eth0", kRoot, "vm", "mac ce:57:b8:c4:51:db", "eth1"};
  const Neighbour second{"eth5", kRoot, "vm", "mac b6:ce:56:6c:e7:34", "eth6"};
  EXPECT_THAT(read_neighbours(recorded("two_neighbours.json")), Optional(ElementsAre(first, second)));
  EXPECT_THAT(read_neighbours(recorded("one_neighbour.json")), Optional(ElementsAre(first)));
  const Neighbour by_name{"eth0", kRoot, "vm", "ifname eth1", "eth1"};
  EXPECT_THAT(read_neighbours(recorded("port_by_name.json")), Optional(ElementsAre(by_name)));
  EXPECT_THAT(read_neighbours(recorded("none.json")), Optional(IsEmpty()));
}

TEST(Lldp, TheOwnIdentityIsRead) {
  EXPECT_THAT(read_own_chassis(recorded("chassis.json")), Optional(std::string("mac aa:a3:bb:73:a2:75")));
  EXPECT_EQ(read_own_chassis(recorded("none.json")), std::nullopt);
}

TEST(Lldp, PortsAreRead) {
  const auto ports = read_ports(recorded("address.json"));
  ASSERT_TRUE(ports);
  ASSERT_EQ(ports->size(), 2u) << "the loopback interface is no port";
  EXPECT_EQ((*ports)[0].name, "eth0");
  EXPECT_EQ((*ports)[0].mac, "aa:a3:bb:73:a2:75");
  ASSERT_EQ((*ports)[0].addresses.size(), 2u);
  EXPECT_EQ((*ports)[0].addresses[0].to_string(), "10.1.1.0/31");
  EXPECT_EQ((*ports)[1].name, "eth5");
  EXPECT_THAT((*ports)[1].addresses, IsEmpty()) << "none that makes sense";
  EXPECT_EQ(read_ports("{}"), std::nullopt);
  EXPECT_EQ(read_ports("["), std::nullopt);
  EXPECT_THAT(read_ports(R"([1, {}, {"ifname":"x"}, {"ifname":1,"link_type":"ether"}])"), Optional(IsEmpty()));
}

TEST(Lldp, ASystemNeedsNoNameAndTwoMayBeAtOnePort) {
  const std::string one = R"({"via":"LLDP","chassis":{"id":{"type":"local","value":"x"}},)"
                          R"("port":{"id":{"type":"ifname","value":"p"}}})";
  std::string other = one;
  other.replace(other.find("\"x\""), 3, "\"y\"");
  const Neighbour x{"e", "local x", "", "ifname p", ""}, y{"e", "local y", "", "ifname p", ""};
  EXPECT_THAT(read_neighbours(R"({"lldp":{"interface":[{"e":)" + one + "},{\"e\":" + other + "}]}}"),
              Optional(ElementsAre(x, y)));
  EXPECT_THAT(read_neighbours(R"({"lldp":{"interface":{"e":[)" + one + "," + other + "]}}}"),
              Optional(ElementsAre(x, y)));
}

TEST(Lldp, OtherProtocolsAndHalvesAreLeftOut) {
  std::string text = recorded("one_neighbour.json");
  text.replace(text.find("\"LLDP\""), 6, "\"CDPv2\"");
  EXPECT_THAT(read_neighbours(text), Optional(IsEmpty()));
  for (const std::string key : {"\"chassis\"", "\"port\"", "\"id\"", "\"value\"", "\"type\""}) {
    text = recorded("one_neighbour.json");
    text.replace(text.find(key), key.size(), "\"other\"");
    EXPECT_THAT(read_neighbours(text), Optional(IsEmpty())) << key;
  }
}

TEST(Lldp, WhatIsNoAnswerIsNone) {
  for (const char* text : {"", "{", "[]", "1", "{}", R"({"lldp":[]})", R"({"lldp":1})", "{\"lldp\":\xff}"}) {
    EXPECT_EQ(read_neighbours(text), std::nullopt) << text;
    EXPECT_EQ(read_own_chassis(text), std::nullopt) << text;
  }
  for (const char* text : {R"({"lldp":{"interface":1}})", R"({"lldp":{"interface":[1,[],{"e":[1,[{}]]}]}})",
                           R"({"lldp":{"interface":{"e":{"via":"LLDP","chassis":[],"port":[]}}}})"}) {
    EXPECT_THAT(read_neighbours(text), Optional(IsEmpty())) << text;
  }
  for (const char* text :
       {R"({"local-chassis":1})", R"({"local-chassis":{"chassis":[]}})", R"({"local-chassis":{"chassis":{"a":1}}})"}) {
    EXPECT_EQ(read_own_chassis(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace weft::inc::manager
