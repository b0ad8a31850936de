// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include <gtest/gtest.h>

#include "switch/config/switch_builder.h"
#include "tests/support/config_mistakes.h"

namespace weft::config {
namespace {

using testing::expect_accepted;
using testing::expect_mistakes;
using testing::ports_of;

TEST(Devices, AreUsedOnceInTheWholeFile) {
  expect_mistakes(R"(
switches:
  - name: s1
    pipeline: [parse, l2]
    ports:
      - { name: a, type: veth, interface: veth-a }
      - { name: b, type: tap, interface: @veth-a }
      - { name: c, type: pci, device: "0000:3B:00.2" }
  - name: s2
    pipeline: [parse, l2]
    ports:
      - { name: a, type: veth, interface: @veth-a }
      - { name: c, type: pci, device: @"0000:3b:00.2" }
)",
                  {"interface: 'veth-a' is already used by port 's1/a' (line 6)",
                   "interface: 'veth-a' is already used by port 's1/a' (line 6)",
                   "device: '0000:3b:00.2' is already used by port 's1/c' (line 8)"});
}

TEST(Devices, MayShareAMemifSocketUnderDifferentIdsOrRoles) {
  expect_accepted(
      ports_of("      - { name: a, type: memif, socket: /run/m, role: server, id: 0 }\n"
               "      - { name: b, type: memif, socket: /run/m, role: server, id: 1 }\n"
               "      - { name: c, type: memif, socket: /run/m, role: client, id: 0 }\n"));
  expect_mistakes(ports_of("      - { name: a, type: memif, socket: /run/m }\n"
                           "      - { name: b, type: memif, socket: @/run/m }\n"
                           "      - { name: c, type: vhost, socket: /run/v, role: client }\n"
                           "      - { name: d, type: vhost, socket: @/run/v }\n"),
                  {"socket: '/run/m' is already used by port 's1/a' (line 5)",
                   "socket: '/run/v' is already used by port 's1/c' (line 7)"});
}

TEST(Devices, ThatCouldNotBeReadAreNotTheSame) {
  expect_mistakes(
      ports_of("      - { name: a, type: memif, socket: @5 }\n"
               "      - { name: b, type: memif, socket: @5 }\n"
               "      - @{ name: c, type: vhost }\n"
               "      - @{ name: d, type: vhost }\n"),
      {"socket: expected text, found 5; write it in quotes", "socket: expected text, found 5; write it in quotes",
       "ports[2]: missing key 'socket' (text)", "ports[3]: missing key 'socket' (text)"});
}

TEST(Devices, MayReadACaptureTogetherButNotOneThatIsWritten) {
  expect_accepted(
      ports_of("      - { name: a, type: pcap, rx_file: in.pcap, tx_file: a.pcap }\n"
               "      - { name: b, type: pcap, rx_file: in.pcap, tx_file: b.pcap }\n"));
  expect_mistakes(ports_of("      - { name: a, type: pcap, rx_file: @out.pcap, tx_file: a.pcap }\n"
                           "      - { name: b, type: pcap, tx_file: out.pcap }\n"
                           "      - { name: c, type: pcap, tx_file: @a.pcap }\n"),
                  {"rx_file: 'out.pcap' is written by port 's1/b' (line 6)",
                   "tx_file: 'a.pcap' is already used by port 's1/a' (line 5)"});
}

TEST(Devices, HaveMacAddressesOfTheirOwn) {
  expect_mistakes(ports_of("      - { name: a, type: null, mac: 02:00:00:00:00:0a }\n"
                           "      - { name: b, type: null, mac: @02:00:00:00:00:0A }\n"),
                  {"mac: '02:00:00:00:00:0A' is already used by port 's1/a' (line 5)"});
}

TEST(Devices, HaveNamesThatTheSystemAndDpdkTake) {
  const std::string interface =
      "interface: expected the name of a network interface, at most 15 characters without '/', ':', ',', '=', '[', ']' "
      "and spaces, found ";
  const std::string path = "expected a path without ',', '=', '[' and ']', found ";
  expect_mistakes(ports_of("      - { name: a, type: veth, interface: @sixteen-letters_ }\n"
                           "      - { name: b, type: veth, interface: @\"v,qpairs=2\" }\n"
                           "      - { name: c, type: tap, interface: @.. }\n"
                           "      - { name: d, type: memif, socket: @\"/run/a,b\" }\n"
                           "      - { name: e, type: pcap, rx_file: @\"a=b.pcap\", tx_file: @\"[x]\" }\n"),
                  {interface + "'sixteen-letters_'", interface + "'v,qpairs=2'", interface + "'..'",
                   "socket: " + path + "'/run/a,b'", "rx_file: " + path + "'a=b.pcap'", "tx_file: " + path + "'[x]'"});
  expect_accepted(ports_of("      - { name: a, type: veth, interface: fifteen-letters }\n"));
}

TEST(Devices, HaveSocketPathsThatFitIntoAnAddress) {
  const std::string path(107, 's');
  expect_accepted(ports_of("      - { name: a, type: memif, socket: " + path + " }\n"));
  expect_mistakes(ports_of("      - { name: a, type: memif, socket: @" + path + "s }\n"),
                  {"socket: expected a path of at most 107 bytes, found 108"});
}

TEST(ControlSocket, FitsIntoAnAddressAndIsNoPorts) {
  expect_mistakes("control: { socket: @" + std::string(108, 's') + " }\n" + testing::bridge_with(""),
                  {"socket: expected a path of at most 107 bytes, found 108"});
  expect_mistakes("control: { socket: /run/v }\n" + ports_of("      - { name: a, type: vhost, socket: @/run/v }\n"),
                  {"socket: '/run/v' is already used by the control service (line 1)"});
}

// Two switches with one link port each; `a` and `b` are the peers.
std::string linked(const std::string& a, const std::string& b) {
  return "switches:\n"
         "  - name: s1\n"
         "    pipeline: [parse, l2]\n"
         "    ports: [ { name: u1, type: link, peer: " +
         a +
         " }, { name: h1, type: null } ]\n"
         "  - name: s2\n"
         "    pipeline: [parse, l2]\n"
         "    ports: [ { name: d1, type: link, peer: " +
         b + " } ]\n";
}

TEST(Links, NameEachOther) {
  expect_accepted(linked("s2/d1", "s1/u1"));
  expect_accepted(
      ports_of("      - { name: a, type: link, peer: s1/b }\n"
               "      - { name: b, type: link, peer: s1/a }\n"));
}

TEST(Links, ToWhatDoesNotExistAreRefused) {
  expect_mistakes(linked("@s3/d1", "@s1/u2"), {"peer: unknown switch 's3'; did you mean 's1'?",
                                               "peer: switch 's1' has no port 'u2'; did you mean 'u1'?"});
}

TEST(Links, ToPortsOfOtherTypesAreRefused) {
  expect_mistakes(linked("@s2/d1", "@s1/h1"), {"peer: port 's2/d1' names 's1/h1' (line 7) as its peer, not 's1/u1'",
                                               "peer: port 's1/h1' is of type null, not link"});
}

TEST(Links, ToThemselvesAreRefused) {
  expect_mistakes(ports_of("      - { name: a, type: link, peer: @s1/a }\n"), {"peer: port 's1/a' is its own peer"});
}

TEST(Links, ThatAreNotNamedBackAreRefused) {
  expect_mistakes(ports_of("      - { name: a, type: link, peer: s1/b }\n"
                           "      - { name: b, type: link, peer: s1/a }\n"
                           "      - { name: c, type: link, peer: @s1/a }\n"),
                  {"peer: port 's1/a' names 's1/b' (line 5) as its peer, not 's1/c'"});
}

TEST(Links, ToWhatIsNoPortOfASwitchAreRefused) {
  for (const char* peer : {"s1", "/a", "s1/"}) {
    expect_mistakes(ports_of(std::string("      - { name: a, type: link, peer: @") + peer + " }\n"),
                    {std::string("peer: expected switch/port such as spine1/d1, found '") + peer + "'"});
  }
}

TEST(Links, AreNotBlamedForPortsThatWereWrong) {
  expect_mistakes(
      linked("s2/d1", "s1/u1") + "  - name: @5\n    pipeline: [parse, l2]\n    ports: [ { name: x, type: null } ]\n" +
          "  - name: s4\n    pipeline: [parse, l2]\n    ports: [ { name: x, type: link, peer: s3/x } ]\n",
      {"name: expected a name of a letter, then letters, digits, '_', '.', '-', at most 63 characters, found 5"});
}

}  // namespace
}  // namespace weft::config
