// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// A router with two subnets of hosts (h1, h2) and three uplinks (u1 to u3), for tests of l3 and lb in both address
// families.
#pragma once

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <ostream>
#include <string>
#include <vector>

#include "switch/config/config.h"
#include "switch/stages/l3/stage.h"
#include "switch/stages/lb/stage.h"
#include "switch/wire/builder.h"
#include "tests/support/all_stages.h"
#include "tests/support/harness.h"

namespace weft::stages {

using pipeline::DropReason;
using testing::Bytes;
using wire::FrameBuilder;
using wire::IpAddress;
using wire::MacAddress;

/// MAC addresses: of the router's ports h1, h2, u1, u2, u3 as the harness gives them, and of other machines by number.
inline MacAddress router_mac(unsigned port) {
  return MacAddress::from_u64(0x020000000100 + port);
}
inline MacAddress host_mac(unsigned number) {
  return MacAddress::from_u64(0x02aa00000000 + number);
}
inline constexpr unsigned kH1 = 0, kH2 = 1, kU1 = 2, kU2 = 3, kU3 = 4;

inline IpAddress ip(const std::string& text) {
  return *IpAddress::parse(text);
}

/// The 16 bytes of an IPv6 address.
inline Bytes bytes_of(const std::string& address) {
  const IpAddress parsed = ip(address);
  return {parsed.bytes().begin(), parsed.bytes().end()};
}

/// The same situation in either address family.
struct Family {
  bool v6;
  std::string a;          ///< host on h1, MAC host_mac(1)
  std::string b;          ///< host on h2, MAC host_mac(2)
  std::string router_h1;  ///< the router's address on h1
  std::string router_h2;
  std::string uplink;   ///< neighbour behind u1, MAC host_mac(11); u2 and u3 have 12 and 13
  std::string far;      ///< behind u1
  std::string spread;   ///< behind u1, u2 and u3 at equal cost
  std::string nowhere;  ///< no route
  std::string black;    ///< behind a route that says to drop

  friend void PrintTo(const Family& family, std::ostream* out) { *out << (family.v6 ? "IPv6" : "IPv4"); }
};
inline const Family kV4{false,      "10.0.1.2", "10.0.2.2", "10.0.1.1",     "10.0.2.1",
                        "10.1.1.2", "20.0.0.9", "30.0.0.9", "198.51.100.9", "192.0.2.9"};
inline const Family kV6{true,
                        "2001:db8:1::2",
                        "2001:db8:2::2",
                        "2001:db8:1::1",
                        "2001:db8:2::1",
                        "2001:db8:11::2",
                        "2001:db8:20::9",
                        "2001:db8:30::9",
                        "2001:db8:99::9",
                        "2001:db8:bad::9"};

struct RouterSetup {
  std::string l3 = "{}";  ///< options
  std::string policy = "ecmp";
  bool neighbours_known = true;  ///< static neighbours for all hosts and uplinks
  std::string ports{};           ///< more keys of every port, "mtu_bytes: 1500" by default
  std::string extra{};           ///< more of the switch, whole lines
};

inline std::string router_yaml(const RouterSetup& setup) {
  const std::string port = setup.ports.empty() ? "mtu_bytes: 1500" : setup.ports;
  std::string yaml = "name: router\nseed: 7\nports:\n";
  for (const char* name : {"h1", "h2", "u1", "u2", "u3"}) {
    yaml += "  - { name: " + std::string(name) + ", type: \"null\", " + port + " }\n";
  }
  yaml += R"(addresses:
  - { port: h1, address: 10.0.1.1/24 }
  - { port: h2, address: 10.0.2.1/24 }
  - { port: u1, address: 10.1.1.1/30 }
  - { port: u2, address: 10.1.2.1/30 }
  - { port: u3, address: 10.1.3.1/30 }
  - { port: h1, address: "2001:db8:1::1/64" }
  - { port: h2, address: "2001:db8:2::1/64" }
  - { port: u1, address: "2001:db8:11::1/64" }
  - { port: u2, address: "2001:db8:12::1/64" }
  - { port: u3, address: "2001:db8:13::1/64" }
routes:
  - { prefix: 20.0.0.0/8, via: [10.1.1.2] }
  - { prefix: 30.0.0.0/8, via: [10.1.1.2, 10.1.2.2, 10.1.3.2] }
  - { prefix: 192.0.2.0/24, blackhole: true }
  - { prefix: "2001:db8:20::/48", via: ["2001:db8:11::2"] }
  - { prefix: "2001:db8:30::/48", via: ["2001:db8:11::2", "2001:db8:12::2", "2001:db8:13::2"] }
  - { prefix: "2001:db8:bad::/48", blackhole: true }
)";
  if (setup.neighbours_known) {
    yaml += R"(neighbours:
  - { port: h1, address: 10.0.1.2, mac: "02:aa:00:00:00:01" }
  - { port: h2, address: 10.0.2.2, mac: "02:aa:00:00:00:02" }
  - { port: u1, address: 10.1.1.2, mac: "02:aa:00:00:00:0b" }
  - { port: u2, address: 10.1.2.2, mac: "02:aa:00:00:00:0c" }
  - { port: u3, address: 10.1.3.2, mac: "02:aa:00:00:00:0d" }
  - { port: h1, address: "2001:db8:1::2", mac: "02:aa:00:00:00:01" }
  - { port: h2, address: "2001:db8:2::2", mac: "02:aa:00:00:00:02" }
  - { port: u1, address: "2001:db8:11::2", mac: "02:aa:00:00:00:0b" }
  - { port: u2, address: "2001:db8:12::2", mac: "02:aa:00:00:00:0c" }
  - { port: u3, address: "2001:db8:13::2", mac: "02:aa:00:00:00:0d" }
)";
  }
  return yaml + setup.extra + "pipeline:\n  - parse\n  - rdma_track\n  - l3: " + setup.l3 +
         "\n  - lb: { policy: " + setup.policy + " }\n";
}

/// The router on virtual time.
class Router {
 public:
  explicit Router(const RouterSetup& setup = {}, const testing::HarnessOptions& options = {})
      : h(testing::all_stages(), router_yaml(setup), options) {}

  /// Frames that left through a port, without their times.
  std::vector<Bytes> sent(const char* port) {
    std::vector<Bytes> frames;
    for (auto& frame : h.take(port)) frames.push_back(std::move(frame.bytes));
    return frames;
  }
  std::uint64_t counter(const char* name) const { return h.counter("l3", name); }
  /// The row of `neighbours` for an address; null when there is none.
  nlohmann::ordered_json neighbour(const std::string& address) const {
    for (auto& row : h.rows("neighbours")) {
      if (row["address"] == address) return row;
    }
    return nullptr;
  }
  std::string state(const std::string& address) const {
    const auto row = neighbour(address);
    return row.is_null() ? "none" : row["state"].get<std::string>();
  }

  testing::Harness h;
};

/// Exactly this frame.
inline std::vector<Bytes> only(const FrameBuilder& frame) {
  return {frame.build()};
}

/// A RoCE packet from host a to `destination`, as it arrives on h1.
inline FrameBuilder from_a(const Family& f, const std::string& destination) {
  return FrameBuilder()
      .eth(host_mac(1), router_mac(kH1))
      .ip(ip(f.a), ip(destination))
      .udp(50000)
      .bth(wire::Opcode::RC_SEND_ONLY, wire::Qpn(17), wire::Psn(5))
      .payload(64);
}
/// The same after routing: TTL decremented, with the addresses of the next link.
inline FrameBuilder routed(FrameBuilder packet, unsigned out_port, unsigned next_host, std::uint8_t ttl = 63) {
  return packet.eth(router_mac(out_port), host_mac(next_host)).ttl(ttl);
}

/// What a neighbour says about itself: ARP reply or neighbour advertisement, in answer to the router's question.
inline Bytes answer(const Family& f, const std::string& from, unsigned mac, const std::string& router, unsigned port) {
  if (!f.v6) {
    return FrameBuilder()
        .eth(host_mac(mac), router_mac(port))
        .arp(wire::ArpOperation::reply, host_mac(mac), ip(from), router_mac(port), ip(router))
        .build();
  }
  Bytes body = bytes_of(from);
  body.insert(body.end(), {2, 1});
  const MacAddress own = host_mac(mac);
  body.insert(body.end(), own.bytes.begin(), own.bytes.end());
  return FrameBuilder()
      .eth(own, router_mac(port))
      .ip(ip(from), ip(router))
      .ttl(255)
      .icmp(wire::Icmpv6Type::neighbour_advertisement, 0, 0x60000000)
      .payload(FrameBuilder::View(body))
      .build();
}

/// A neighbour's question for the router's MAC address: ARP request or neighbour solicitation.
inline Bytes question(const Family& f, const std::string& from, unsigned mac, const std::string& router) {
  const MacAddress own = host_mac(mac);
  if (!f.v6) {
    return FrameBuilder()
        .eth(own, MacAddress::from_u64(0xffffffffffff))
        .arp(wire::ArpOperation::request, own, ip(from), {}, ip(router))
        .build();
  }
  Bytes body = bytes_of(router);
  body.insert(body.end(), {1, 1});
  body.insert(body.end(), own.bytes.begin(), own.bytes.end());
  const IpAddress group = tables::solicited_node(ip(router));
  return FrameBuilder()
      .eth(own, tables::multicast_mac(group))
      .ip(ip(from), group)
      .ttl(255)
      .icmp(wire::Icmpv6Type::neighbour_solicitation, 0)
      .payload(FrameBuilder::View(body))
      .build();
}

/// Runs a test in both families.
class BothFamilies : public ::testing::TestWithParam<Family> {
 protected:
  const Family& f() const { return GetParam(); }
};
#define WEFT_BOTH_FAMILIES(Suite)                                        \
  INSTANTIATE_TEST_SUITE_P(Families, Suite, ::testing::Values(kV4, kV6), \
                           [](const auto& test) { return std::string(test.param.v6 ? "v6" : "v4"); })

}  // namespace weft::stages
