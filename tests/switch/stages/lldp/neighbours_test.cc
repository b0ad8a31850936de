// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/stages/lldp/neighbours.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace weft::stages {
namespace {

using Heard = LldpNeighbours::Heard;
using Bytes = std::vector<std::uint8_t>;
constexpr TimeNs kSecond = 1'000'000'000;

Bytes bytes(std::string_view text) {
  return {text.begin(), text.end()};
}

struct Said {
  explicit Said(std::string_view name, std::uint16_t ttl = 10) : id(bytes(name)) {
    unit.chassis = {7, id};
    unit.port = {5, port};
    unit.ttl_s = ttl;
    unit.system_name = id;
  }
  Bytes id, port = bytes("eth1");
  wire::LldpUnit unit;
};

TEST(LldpNeighbours, HoldForAsLongAsTheySayAndAreForgottenThen) {
  LldpNeighbours n(2);
  EXPECT_EQ(n.next_deadline(), kNever);
  const Said a("a"), b("b", 3);
  EXPECT_EQ(n.on_unit(kSecond, 0, a.unit), Heard::fresh);
  EXPECT_EQ(n.on_unit(kSecond, 1, b.unit), Heard::fresh);
  EXPECT_EQ(n.next_deadline(), 4 * kSecond);
  EXPECT_EQ(n.on_unit(3 * kSecond, 1, b.unit), Heard::known);
  EXPECT_EQ(n.next_deadline(), 6 * kSecond);
  n.on_timer(6 * kSecond);
  EXPECT_EQ(n.count(), 1u);
  EXPECT_EQ(n.of(1)[0].until, 0);
  EXPECT_EQ(n.next_deadline(), 11 * kSecond);
}

TEST(LldpNeighbours, OneThatSaysGoodbyeIsGoneAtOnce) {
  LldpNeighbours n(1);
  EXPECT_EQ(n.on_unit(0, 0, Said("a").unit), Heard::fresh);
  EXPECT_EQ(n.on_unit(1, 0, Said("b", 0).unit), Heard::gone) << "nobody knew it";
  EXPECT_EQ(n.count(), 1u);
  EXPECT_EQ(n.on_unit(2, 0, Said("a", 0).unit), Heard::gone);
  EXPECT_EQ(n.count(), 0u);
}

TEST(LldpNeighbours, APortHasRoomForSomeAndKeepsThoseThatItHas) {
  LldpNeighbours n(1);
  for (const char* name : {"a", "b", "c", "d"}) EXPECT_EQ(n.on_unit(0, 0, Said(name).unit), Heard::fresh);
  EXPECT_EQ(n.on_unit(1, 0, Said("e").unit), Heard::no_room);
  EXPECT_EQ(n.on_unit(1, 0, Said("d").unit), Heard::known);
  EXPECT_EQ(n.on_unit(2, 0, Said("b", 0).unit), Heard::gone);
  EXPECT_EQ(n.on_unit(3, 0, Said("e").unit), Heard::fresh);
}

TEST(LldpNeighbours, TheSameSystemAtAnotherPortOfItsIsAnotherOne) {
  LldpNeighbours n(1);
  Said one("a"), other("a");
  other.port = bytes("eth2");
  other.unit.port = {5, other.port};
  EXPECT_EQ(n.on_unit(0, 0, one.unit), Heard::fresh);
  EXPECT_EQ(n.on_unit(0, 0, other.unit), Heard::fresh);
  n.forget(0);
  EXPECT_EQ(n.count(), 0u);
}

TEST(LldpTexts, AreNamedAsLldpdDoes) {
  const Bytes mac{2, 0, 0, 0, 0, 1}, v4{1, 10, 0, 1, 2}, odd{2, 0, 0};
  EXPECT_EQ(lldp_chassis_text(4, mac), "mac 02:00:00:00:00:01");
  EXPECT_EQ(lldp_port_text(3, mac), "mac 02:00:00:00:00:01");
  EXPECT_EQ(lldp_chassis_text(5, v4), "ip 10.0.1.2");
  EXPECT_EQ(lldp_port_text(5, bytes("eth1")), "ifname eth1");
  EXPECT_EQ(lldp_chassis_text(7, bytes("leaf 1")), "local leaf 1");
  EXPECT_EQ(lldp_chassis_text(4, odd), "mac 020000") << "no MAC address";
  EXPECT_EQ(lldp_chassis_text(99, odd), "unhandled 020000");
  EXPECT_EQ(lldp_port_text(7, bytes("a\nb")), "local 610a62") << "nothing that a terminal would act on";
  EXPECT_EQ(lldp_plain_text(bytes("a\x1b[2Jb\xff")), "a?[2Jb?");
}

}  // namespace
}  // namespace weft::stages
