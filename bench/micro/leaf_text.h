// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#pragma once

#include <cstdint>
#include <string>

namespace weft::bench {

/// Parts of the configuration of a leaf with one port to a host, h1, and some to spines, s1, s2, ...
struct LeafText {
  std::string head;     ///< all sections in front of `routes`
  std::string hops;     ///< the spines' addresses, a list without brackets
  std::string uplinks;  ///< the ports to them, likewise
  std::string pairs;    ///< queue pairs that rdma_track is told of, of 10.0.1.2 and `far`

  /// @param address  of the host's port
  /// @param more     further keys of the ports to spines
  LeafText(std::uint32_t qps, unsigned spines, const std::string& address, const std::string& far,
           const std::string& more = {}) {
    std::string ports = "  - { name: h1, type: \"null\" }\n", neighbours;
    std::string addresses = "  - { port: h1, address: " + address + "/24 }\n";
    for (unsigned i = 1; i <= spines; ++i) {
      const std::string n = std::to_string(i), comma = i == 1 ? "" : ", ";
      ports += "  - { name: s" + n + ", type: \"null\"" + more + " }\n";
      addresses += "  - { port: s" + n + ", address: 10.1." + n + ".1/24 }\n";
      neighbours += "  - { port: s" + n + ", address: 10.1." + n + ".2, mac: \"02:aa:00:00:00:10\" }\n";
      hops += comma + "10.1." + n + ".2";
      uplinks += comma + "s" + n;
    }
    for (std::uint32_t i = 0; i < qps; ++i) {
      const std::string n = std::to_string(1000 + i);
      pairs += "      - { a: { address: 10.0.1.2, qpn: " + n + " }, b: { address: " + far + ", qpn: " + n + " } }\n";
    }
    head = "name: leaf\nports:\n" + ports + "addresses:\n" + addresses + "neighbours:\n" + neighbours;
  }
};

}  // namespace weft::bench
