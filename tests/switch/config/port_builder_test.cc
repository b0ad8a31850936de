// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include <gtest/gtest.h>

#include "switch/config/switch_builder.h"
#include "tests/support/config_mistakes.h"

namespace weft::config {
namespace {

using testing::bridge_with;
using testing::expect_accepted;
using testing::expect_mistakes;
using testing::ports_of;

pipeline::SwitchInfo switch_of(std::string_view text) {
  return expect_accepted(text).switches.at(0);
}

TEST(Ports, OfEveryTypeKeepTheirOwnKeysAndTheirDefaults) {
  const auto sw = switch_of(ports_of(R"(
      - { name: a, type: pci, device: "0000:3b:00.2", tx_descriptors: 512 }
      - { name: b, type: veth, interface: veth-b }
      - { name: c, type: tap, interface: weft-tap0 }
      - { name: d, type: memif, socket: /run/m.sock, role: client, id: 3 }
      - { name: e, type: vhost, socket: /run/v.sock }
      - { name: f, type: pcap, rx_file: in.pcap, infinite: true }
      - { name: g, type: null }
      - { name: h, type: link, peer: s1/i }
      - { name: i, type: link, peer: s1/h }
      - { name: j, type: generator, source_mac: 02:00:00:00:00:01, destination_mac: 02:00:00:00:00:02,
          source: 10.0.0.1, destination: 10.0.0.2 }
)"));
  ASSERT_EQ(sw.ports.size(), 10u);
  EXPECT_EQ(sw.ports[0].type, "pci");
  EXPECT_EQ(sw.ports[0].device["device"].string(), "0000:3b:00.2");
  EXPECT_EQ(sw.ports[0].device["rx_descriptors"].integer(), 1024);
  EXPECT_EQ(sw.ports[0].device["tx_descriptors"].integer(), 512);
  EXPECT_EQ(sw.ports[1].device["interface"].string(), "veth-b");
  EXPECT_EQ(sw.ports[1].device.map().size(), 1u);
  EXPECT_EQ(sw.ports[3].device["role"].string(), "client");
  EXPECT_EQ(sw.ports[3].device["id"].integer(), 3);
  EXPECT_EQ(sw.ports[4].device["role"].string(), "server");
  EXPECT_TRUE(sw.ports[5].device["infinite"].boolean());
  EXPECT_FALSE(sw.ports[5].device.has("tx_file"));
  EXPECT_EQ(sw.ports[6].device["frame_bytes"].integer(), 64);
  EXPECT_EQ(sw.ports[7].device["peer"].string(), "s1/i");
  EXPECT_EQ(sw.ports[9].device["qps"].integer(), 1);
  for (std::size_t i = 0; i < sw.ports.size(); ++i) EXPECT_EQ(sw.ports[i].index, i);
}

TEST(Ports, HaveTheDevicesMtuOr4200WhereThereIsNone) {
  const auto sw = switch_of(ports_of(R"(
      - { name: a, type: pci, device: "0000:3b:00.2" }
      - { name: b, type: veth, interface: veth-b }
      - { name: c, type: tap, interface: weft-tap0 }
      - { name: d, type: memif, socket: /run/m.sock }
      - { name: e, type: null }
      - { name: f, type: veth, interface: veth-f, mtu_bytes: 1500 }
)"));
  const std::vector<std::uint32_t> expected{0, 0, 0, 4200, 4200, 1500};
  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_EQ(sw.ports[i].mtu_bytes, expected[i]) << i;
}

TEST(Ports, ReadTheirCommonKeys) {
  const auto sw =
      switch_of(ports_of("      - { name: a, type: null, mac: \"02:00:00:00:00:0a\", rate_mbps: 100000, delay_ns: 500, "
                         "queue_packets: 64 }\n"
                         "      - { name: b, type: null }\n"));
  EXPECT_EQ(sw.ports[0].mac.to_string(), "02:00:00:00:00:0a");
  EXPECT_EQ(sw.ports[0].rate_mbps, 100000u);
  EXPECT_EQ(sw.ports[0].delay_ns, 500u);
  EXPECT_EQ(sw.ports[0].queue_packets, 64u);
  EXPECT_TRUE(sw.ports[1].mac.is_zero());
  EXPECT_EQ(sw.ports[1].rate_mbps, 0u);
  EXPECT_EQ(sw.ports[1].queue_packets, 1024u);
}

TEST(Ports, RefuseImpossibleValues) {
  expect_mistakes(ports_of("      - { name: p1, type: null, rate_mbps: @1600001 }\n"),
                  {"rate_mbps: expected an integer from 0 to 1600000, found 1600001"});
  expect_mistakes(ports_of("      - { name: p1, type: null, mtu_bytes: @67 }\n"),
                  {"mtu_bytes: expected an integer from 68 to 9216, found 67"});
  expect_mistakes(ports_of("      - { name: p1, type: null, mtu_bytes: @9217 }\n"),
                  {"mtu_bytes: expected an integer from 68 to 9216, found 9217"});
  expect_mistakes(ports_of("      - { name: p1, type: null, queue_packets: @0 }\n"),
                  {"queue_packets: expected an integer from 1 to 1048576, found 0"});
  expect_mistakes(ports_of("      - { name: p1, type: null, delay_ns: @10000000001 }\n"),
                  {"delay_ns: expected an integer from 0 to 10000000000, found 10000000001"});
  expect_mistakes(ports_of("      - { name: p1, type: veth, interface: v, mtu_bytes: @8079 }\n"),
                  {"mtu_bytes: a veth port carries at most 8078, found 8079"});
  expect_accepted(ports_of("      - { name: p1, type: veth, interface: v, mtu_bytes: 8078 }\n"));
}

TEST(Ports, AreNamedOnce) {
  expect_mistakes(ports_of("      - { name: p1, type: null }\n"
                           "      - { name: p2, type: null }\n"
                           "      - { name: @p1, type: null }\n"),
                  {"name: port 'p1' is declared twice, first at line 5"});
}

TEST(Ports, AreAtMost1024) {
  std::string ports;
  for (int i = 0; i <= 1024; ++i) {
    ports += std::string("      - ") + (i == 1024 ? "@" : "") + "{ name: p" + std::to_string(i) + ", type: null }\n";
  }
  expect_mistakes(ports_of(ports), {"ports: more than 1024 in one switch"});
}

TEST(Ports, HaveUnicastMacAddresses) {
  expect_mistakes(ports_of("      - { name: p1, type: null, mac: @01:00:5e:00:00:01 }\n"
                           "      - { name: p2, type: null, mac: @ff:ff:ff:ff:ff:ff }\n"
                           "      - { name: p3, type: null, mac: @00:00:00:00:00:00 }\n"),
                  {"mac: expected a unicast address, found 01:00:5e:00:00:01",
                   "mac: expected a unicast address, found ff:ff:ff:ff:ff:ff",
                   "mac: expected a unicast address, found 00:00:00:00:00:00"});
}

TEST(PcapPorts, NeedAFile) {
  expect_mistakes(ports_of("      - @{ name: p1, type: pcap }\n"),
                  {"port 'p1': a pcap port needs 'rx_file', 'tx_file' or both"});
  expect_mistakes(ports_of("      - { name: p1, type: pcap, tx_file: out.pcap, infinite: @true }\n"),
                  {"infinite: there is no 'rx_file' to repeat"});
}

TEST(PcapPorts, HaveAPaceThatMakesSense) {
  const auto in = [](const std::string& rest) {
    return ports_of("      - { name: p1, type: pcap, rx_file: in.pcap, " + rest + " }\n");
  };
  expect_mistakes(in("speed: @2"), {"speed: only with 'pace: capture', whose times it changes"});
  expect_mistakes(in("pace: rate, rate_pps: 5, speed: @2"),
                  {"speed: only with 'pace: capture', whose times it changes"});
  expect_mistakes(in("pace: capture, rate_pps: @5"), {"rate_pps: only with 'pace: rate'"});
  expect_mistakes(in("pace: @rate"), {"pace: 'rate' needs 'rate_pps'"});
  expect_mistakes(in("loops: @2"), {"loops: only with a pace; or 'infinite: true'"});
  expect_mistakes(in("pace: capture, infinite: true, loops: @2"), {"loops: with 'infinite: true' it never ends"});
  expect_mistakes(ports_of("      - { name: p1, type: pcap, tx_file: out.pcap, pace: @capture }\n"),
                  {"pace: there is no 'rx_file' that it could be of"});
}

TEST(GeneratorPorts, HaveAddressesOfOneFamilyAndQpNumbersThatExist) {
  const std::string macs = "source_mac: 02:00:00:00:00:01, destination_mac: 02:00:00:00:00:02, ";
  expect_mistakes(
      ports_of("      - { name: p1, type: generator, " + macs + "source: 10.0.0.1, destination: @2001:db8::1 }\n"),
      {"destination: 2001:db8::1 and source 10.0.0.1 are of different address families"});
  expect_mistakes(ports_of("      - { name: p1, type: generator, " + macs +
                           "source: 10.0.0.1, destination: 10.0.0.2,\n          more_destinations: "
                           "[{ mac: 02:00:00:00:00:03, address: 10.0.0.3 }, { mac: 02:00:00:00:00:04, "
                           "address: @\"fd00::4\" }] }\n"),
                  {"address: fd00::4 and source 10.0.0.1 are of different address families"});
  expect_mistakes(ports_of("      - { name: p1, type: generator, " + macs +
                           "source: 10.0.0.1, destination: 10.0.0.2, more_destinations: [@10.0.0.3] }\n"),
                  {"more_destinations[0]: expected a map, found '10.0.0.3'"});
  expect_mistakes(ports_of("      - { name: p1, type: generator, " + macs +
                           "source: 10.0.0.1, destination: 10.0.0.2,\n          more_destinations: "
                           "[{ mac: @01:00:5e:00:00:03, address: 10.0.0.3 }] }\n"),
                  {"mac: expected a unicast address, found 01:00:5e:00:00:03"});
  expect_mistakes(ports_of("      - { name: p1, type: generator, " + macs +
                           "source: 10.0.0.1, destination: 10.0.0.2, control: @{ every: 2, immediate: 0 } }\n"),
                  {"control: missing key 'payload' (a list)"});
  expect_mistakes(ports_of("      - { name: p1, type: generator, " + macs +
                           "source: 10.0.0.1, destination: 10.0.0.2, first_qpn: 16777215, qps: @2 }\n"),
                  {"qps: QP numbers end at 16777215, found a last one of 16777216"});
  expect_mistakes(ports_of("      - { name: p1, type: generator, " + macs +
                           "source: 10.0.0.1, destination: 10.0.0.2, payload_bytes: @4109 }\n"),
                  {"payload_bytes: 4109 and up to 92 bytes of headers are more than the mtu_bytes of 4200"});
  expect_mistakes(ports_of("      - { name: p1, type: generator, " + macs +
                           "source: 10.0.0.1, destination: 10.0.0.2, payload_bytes: 0, mtu_bytes: 95,\n"
                           "          control: { every: 2, immediate: 0, payload: @[1, 2, 3, 4] } }\n"),
                  {"payload: 4 bytes and up to 92 of headers are more than the mtu_bytes of 95"});
  expect_mistakes(ports_of("      - { name: p1, type: generator, " + macs +
                           "source: \"fd00::1\", destination: \"fd00::4\", rss: @true }\n"),
                  {"rss: only packets of IPv4 are spread; without it there is one receive queue"});
  expect_mistakes(ports_of("      - { name: p1, type: generator, " + macs +
                           "source: 10.0.0.1, destination: 10.0.0.2, heed_pfc: true, rss: @true }\n"),
                  {"rss: a port that heeds PFC has one receive queue; without 'heed_pfc'"});
}

TEST(GeneratorPorts, MayUseTheirLimitsToTheEnd) {
  expect_accepted(ports_of(
      "      - { name: p1, type: generator, source_mac: 02:00:00:00:00:01, destination_mac: 02:00:00:00:00:02,\n"
      "          source: 10.0.0.1, destination: 10.0.0.2, payload_bytes: 4108, first_qpn: 16777214, qps: 2 }\n"));
}

TEST(Vlans, DefaultToVlan1Untagged) {
  const auto sw = switch_of(bridge_with(""));
  EXPECT_EQ(sw.ports[0].vlans.native, 1);
  EXPECT_TRUE(sw.ports[0].vlans.tagged.none());
  EXPECT_EQ(sw.vlans, std::vector<std::uint16_t>{1});
}

TEST(Vlans, OfATrunkAreIdsAndRanges) {
  const auto sw =
      switch_of(ports_of("      - { name: p1, type: null, trunk: { vlans: [10, \"20-22\", 40-41], native: 7 } }\n"
                         "      - { name: p2, type: null, trunk: { vlans: [4094] } }\n"
                         "      - { name: p3, type: null, access_vlan: 30 }\n"));
  EXPECT_EQ(sw.ports[0].vlans.native, 7);
  EXPECT_EQ(sw.ports[0].vlans.tagged.count(), 6u);
  EXPECT_TRUE(sw.ports[0].vlans.tagged.test(22));
  EXPECT_FALSE(sw.ports[1].vlans.native.has_value());
  EXPECT_TRUE(sw.ports[1].vlans.tagged.test(4094));
  EXPECT_EQ(sw.ports[2].vlans.native, 30);
  EXPECT_EQ(sw.vlans, (std::vector<std::uint16_t>{7, 10, 20, 21, 22, 30, 40, 41, 4094}));
}

TEST(Vlans, OfTheSwitchMayBeMoreThanPortsUse) {
  EXPECT_EQ(switch_of(bridge_with("    vlans: [\"1-3\", 9, \"12-12\"]\n")).vlans,
            (std::vector<std::uint16_t>{1, 2, 3, 9, 12}));
}

TEST(Vlans, OutsideTheirRangeAreRefused) {
  const std::string range = ", or a range such as \"20-30\", found ";
  expect_mistakes(ports_of("      - { name: p1, type: null, access_vlan: @0 }\n"),
                  {"access_vlan: expected an integer from 1 to 4094, found 0"});
  expect_mistakes(ports_of("      - { name: p1, type: null, access_vlan: @4095 }\n"),
                  {"access_vlan: expected an integer from 1 to 4094, found 4095"});
  expect_mistakes(
      ports_of("      - { name: p1, type: null, trunk: { vlans: [@0-5, @5-4095, @9-8, @5-, @-5x, @all] } }\n"),
      {"vlans[0]: expected a VLAN id from 1 to 4094" + range + "'0-5'",
       "vlans[1]: expected a VLAN id from 1 to 4094" + range + "'5-4095'",
       "vlans[2]: expected a VLAN id from 1 to 4094" + range + "'9-8'",
       "vlans[3]: expected a VLAN id from 1 to 4094" + range + "'5-'",
       "vlans[4]: expected a VLAN id from 1 to 4094" + range + "'-5x'",
       "vlans[5]: expected a VLAN id from 1 to 4094" + range + "'all'"});
}

TEST(Vlans, ListedTwiceAreRefused) {
  expect_mistakes(ports_of("      - { name: p1, type: null, trunk: { vlans: [10, @10] } }\n"),
                  {"vlans[1]: VLAN 10 is listed twice"});
  expect_mistakes(ports_of("      - { name: p1, type: null, trunk: { vlans: [10-20, @15-25] } }\n"),
                  {"vlans[1]: VLAN 15 is listed twice"});
  expect_mistakes(bridge_with("    vlans: [1, @1]\n"), {"vlans[1]: VLAN 1 is listed twice"});
}

TEST(Vlans, ATrunkSendsItsNativeVlanUntaggedOnly) {
  expect_mistakes(ports_of("      - { name: p1, type: null, trunk: { vlans: [1-5], native: @3 } }\n"),
                  {"native: VLAN 3 is also in 'vlans'; it is sent tagged or untagged, not both"});
}

TEST(Vlans, APortIsAccessOrTrunk) {
  expect_mistakes(ports_of("      - { name: p1, type: null, access_vlan: 5, trunk: @{ vlans: [7] } }\n"),
                  {"trunk: port 'p1' has an access_vlan (line 5); a port has one or the other"});
}

TEST(Vlans, OfPortsAreAmongThoseOfTheSwitch) {
  expect_mistakes(R"(
switches:
  - name: s1
    pipeline: [parse, l2]
    vlans: [1, 10]
    ports:
      - { name: p1, type: null, access_vlan: @11 }
      - { name: p2, type: null, trunk: @{ vlans: [10, 12, 13] } }
      - { name: p3, type: null, trunk: @{ vlans: [10], native: 9 } }
      - { name: p4, type: null }
)",
                  {"port 'p1' is in VLAN 11, which 'vlans' does not list (line 5)",
                   "port 'p2' is in VLAN 12, which 'vlans' does not list (line 5)",
                   "port 'p3' is in VLAN 9, which 'vlans' does not list (line 5)"});
  expect_mistakes(R"(
switches:
  - name: s1
    pipeline: [parse, l2]
    vlans: [10]
    ports:
      - @{ name: p1, type: null }
)",
                  {"port 'p1' is in VLAN 1, which 'vlans' does not list (line 5)"});
}

TEST(StaticMacs, AreReadWithVlan1AsDefault) {
  const auto sw = switch_of(bridge_with("    static_macs: [ { mac: 02:00:00:00:00:09, port: p2 } ]\n"));
  ASSERT_EQ(sw.static_macs.size(), 1u);
  EXPECT_EQ(sw.static_macs[0].mac.to_string(), "02:00:00:00:00:09");
  EXPECT_EQ(sw.static_macs[0].vid, 1);
  EXPECT_EQ(sw.static_macs[0].port, 1);
}

TEST(StaticMacs, AreUnicastUniqueAndOfAVlanOfTheirPort) {
  expect_mistakes(bridge_with("    static_macs:\n"
                              "      - { mac: @03:00:00:00:00:09, port: p2 }\n"
                              "      - { mac: 02:00:00:00:00:09, port: p1 }\n"
                              "      - { mac: @02:00:00:00:00:09, port: p2 }\n"
                              "      - { mac: 02:00:00:00:00:0a, port: @p9 }\n"
                              "      - { mac: 02:00:00:00:00:0b, port: p2, vlan: @7 }\n"),
                  {"mac: expected a unicast address, found 03:00:00:00:00:09",
                   "mac: 02:00:00:00:00:09 in VLAN 1 stands twice, first at line 9",
                   "port: unknown port 'p9'; did you mean 'p1'?", "vlan: port 'p2' is not a member of VLAN 7"});
  expect_mistakes(R"(
switches:
  - name: s1
    pipeline: [parse, l2]
    ports: [ { name: p1, type: null, access_vlan: 5 } ]
    static_macs: [ @{ mac: 02:00:00:00:00:09, port: p1 } ]
)",
                  {"vlan: port 'p1' is not a member of VLAN 1"});
}

TEST(StaticMacs, TheSameAddressInTwoVlansIsFine) {
  const auto sw = switch_of(ports_of("      - { name: p1, type: null, trunk: { vlans: [1, 2] } }\n") +
                            "    static_macs: [ { mac: 02:00:00:00:00:09, port: p1 },"
                            " { mac: 02:00:00:00:00:09, port: p1, vlan: 2 } ]\n");
  EXPECT_EQ(sw.static_macs.size(), 2u);
}

TEST(Ports, ThatCouldNotBeReadMakeNoOtherNamesUnknown) {
  expect_mistakes(
      ports_of("      - { name: @1p, type: null }\n"
               "      - { name: p2, type: null }\n") +
          "    static_macs: [ { mac: 02:00:00:00:00:09, port: p1 } ]\n",
      {"name: expected a name of a letter, then letters, digits, '_', '.', '-', at most 63 characters, found "
       "'1p'"});
}

}  // namespace
}  // namespace weft::config
