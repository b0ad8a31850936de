// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/stages/lldp/stage.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <string>

#include "switch/config/config.h"
#include "tests/support/all_stages.h"
#include "tests/support/edge_switch.h"
#include "tests/support/harness.h"

namespace weft::stages {
namespace {

using ::testing::SizeIs;
using weft::testing::Bytes;
using weft::testing::Harness;
using weft::testing::port_mac;

constexpr TimeNs kSecond = 1'000'000'000;
constexpr const char* kSwitch = R"(name: leaf1
ports:
  - { name: p0, type: "null" }
  - { name: p1, type: "null" }
addresses:
  - { port: p0, address: 10.0.1.1/24 }
pipeline: [parse, lldp: { interval_s: 10 }, l3, lb: { policy: ecmp }]
)";

Bytes from(const char* system, std::uint16_t ttl_s = 41) {
  const auto mac = wire::MacAddress::from_u64(0x02bb00000001);
  Bytes out(wire::kLldpFrameBytes);
  out.resize(wire::write_lldp(out, {mac, mac, ttl_s, "eth0", system}));
  return out;
}

struct LldpStageTest : public ::testing::Test {
  std::uint64_t counter(const char* name) const { return h.counter("lldp", name); }
  Harness h{weft::testing::all_stages(), kSwitch};
};

TEST_F(LldpStageTest, EachPortSaysWhoItIsInEachInterval) {
  h.advance_ns(0);
  auto first = h.take("p1");
  ASSERT_THAT(first, SizeIs(1));
  const auto unit = wire::read_lldp(first[0].bytes);
  ASSERT_TRUE(unit);
  EXPECT_EQ(lldp_chassis_text(unit->chassis.kind, unit->chassis.bytes), "mac " + port_mac(0).to_string());
  EXPECT_EQ(lldp_port_text(unit->port.kind, unit->port.bytes), "mac " + port_mac(1).to_string());
  EXPECT_EQ(unit->ttl_s, 41);
  EXPECT_EQ(lldp_plain_text(unit->system_name), "leaf1");
  EXPECT_EQ(lldp_plain_text(unit->port_description), "p1");
  h.advance_ns(10 * kSecond);
  EXPECT_THAT(h.take("p1"), SizeIs(1));
  EXPECT_EQ(counter("sent"), 4u);
}

TEST_F(LldpStageTest, ANeighbourIsShownAnsweredAndForgotten) {
  h.advance_ns(0);
  h.take("p0");
  h.inject("p0", from("host1", 3));
  EXPECT_THAT(h.take("p0"), SizeIs(1)) << "a newcomer is told at once";
  const auto rows = h.rows("lldp");
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0]["port"], "p0");
  EXPECT_EQ(rows[0]["system"], "host1");
  EXPECT_EQ(rows[0]["chassis"], "mac 02:bb:00:00:00:01");
  EXPECT_EQ(rows[0]["peer_description"], "eth0");
  EXPECT_EQ(rows[0]["ttl_s"], 3);
  h.inject("p0", from("host1", 3));
  EXPECT_THAT(h.take("p0"), SizeIs(0));
  h.advance_ns(4 * kSecond);
  EXPECT_EQ(h.rows("lldp").size(), 0u);
  EXPECT_EQ(counter("neighbours"), 0u);
  EXPECT_EQ(counter("received"), 2u);
}

TEST_F(LldpStageTest, NothingOfLldpIsForwardedAndNothingElseStays) {
  Bytes wrong = from("host1");
  wrong[14] = 0x04;  // begins with a port
  h.inject("p0", wrong);
  EXPECT_EQ(counter("malformed"), 1u);
  EXPECT_EQ(h.dropped_total(), 0u);
  Bytes other = from("host1");
  other[12] = 0x99;
  h.inject("p0", other);
  EXPECT_EQ(counter("malformed"), 1u);
  EXPECT_EQ(h.dropped_total(), 1u) << "l3 drops what it does not know";
}

TEST_F(LldpStageTest, ALinkThatGoesDownHasNobodyAndOneThatComesUpIsTold) {
  h.advance_ns(0);
  h.inject("p0", from("host1"));
  h.take("p0");
  h.set_link("p0", false);
  h.advance_ns(kSecond);
  EXPECT_EQ(h.rows("lldp").size(), 0u);
  h.set_link("p0", true);
  h.advance_ns(kSecond);
  EXPECT_THAT(h.take("p0"), SizeIs(1));
}

TEST_F(LldpStageTest, AReloadKeepsNeighboursAndSaysWhatIsNew) {
  h.advance_ns(0);
  h.inject("p1", from("host1"));
  h.take("p1");
  std::string text = kSwitch;
  text.replace(text.find("leaf1"), 5, "leaf9");
  h.reload(text);
  h.advance_ns(kSecond);
  EXPECT_EQ(h.rows("lldp").size(), 1u);
  const auto out = h.take("p1");
  ASSERT_THAT(out, SizeIs(1));
  EXPECT_EQ(lldp_plain_text(wire::read_lldp(out[0].bytes)->system_name), "leaf9");
}

TEST_F(LldpStageTest, PortsAreShownWithTheirAddresses) {
  const auto rows = h.rows("lldp_ports");
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0]["mac"], port_mac(0).to_string());
  EXPECT_EQ(rows[0]["addresses"], nlohmann::json::array({"10.0.1.1/24"}));
  EXPECT_EQ(rows[1]["addresses"], nlohmann::json::array());
  EXPECT_EQ(rows[1]["chassis"], rows[0]["chassis"]);
}

}  // namespace
}  // namespace weft::stages
