// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// A leaf for tests of stages that work between ToRs: hosts 10.0.N.0/24 behind ports h1 and so on, uplinks s1 and so on
// to spines that have all of 10.0.0.0/16. The spines are the test's hands.
#pragma once

#include <string>

#include "switch/wire/addresses.h"

namespace weft::stages::testing {

/// MAC addresses: of port i of a leaf as the harness gives them (in the order of the file), and of others.
inline wire::MacAddress leaf_mac(unsigned port) {
  return wire::MacAddress::from_u64(0x020000000100 + port);
}
inline wire::MacAddress other_mac(unsigned number) {
  return wire::MacAddress::from_u64(0x02aa00000000 + number);
}

/// The configuration of a leaf, from its hosts up.
class LeafText {
 public:
  /// Port hN with the host 10.0.S.2, whose MAC address is other_mac(mac).
  /// @param more  options of the port, ", rate_mbps: 1" for example
  void host(unsigned n, unsigned subnet, unsigned mac, const std::string& more = {}) {
    const std::string port = "h" + std::to_string(n), net = "10.0." + std::to_string(subnet);
    ports_ += "  - { name: " + port + ", type: \"null\", mtu_bytes: 4200" + more + " }\n";
    addresses_ += "  - { port: " + port + ", address: " + net + ".1/24 }\n";
    neighbours_ += neighbour(port, net + ".2", "0" + std::to_string(mac));
  }

  /// Ports s1 to s`count`; the spine behind sN is 10.1.N.254 with other_mac(0x10 + N).
  /// @param subnet  of the leaf: it is 10.1.N.`subnet` there
  void uplinks(unsigned count, unsigned subnet, unsigned mtu) {
    for (unsigned i = 1; i <= count; ++i) {
      const std::string port = "s" + std::to_string(i), net = "10.1." + std::to_string(i);
      ports_ += "  - { name: " + port + ", type: \"null\", mtu_bytes: " + std::to_string(mtu) + " }\n";
      addresses_ += "  - { port: " + port + ", address: " + net + "." + std::to_string(subnet) + "/24 }\n";
      neighbours_ += neighbour(port, net + ".254", "1" + std::to_string(i));
      hops_ += (i == 1 ? "" : ", ") + net + ".254";
      names_ += (i == 1 ? "" : ", ") + port;
    }
  }
  /// "s1, s2"
  [[nodiscard]] const std::string& uplink_names() const { return names_; }

  /// @param pipeline  lines "  - STAGE"
  [[nodiscard]] std::string with(const std::string& pipeline) const {
    return "name: leaf\nseed: 7\nports:\n" + ports_ + "addresses:\n" + addresses_ + "neighbours:\n" + neighbours_ +
           "routes:\n  - { prefix: 10.0.0.0/16, via: [" + hops_ + "] }\npipeline:\n" + pipeline;
  }

 private:
  static std::string neighbour(const std::string& port, const std::string& address, const std::string& mac) {
    return "  - { port: " + port + ", address: " + address + ", mac: \"02:aa:00:00:00:" + mac + "\" }\n";
  }

  std::string ports_, addresses_, neighbours_, hops_, names_;
};

}  // namespace weft::stages::testing
