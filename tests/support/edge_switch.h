// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// An edge switch between two data centres, for tests of the stages of long-haul THEMIS.
#pragma once

#include <string>

#include "switch/wire/addresses.h"
#include "switch/wire/parse.h"

namespace weft::testing {

/// The queue pair of the sender and that of the receiver.
inline constexpr wire::Qpn kSource{17}, kDestination{34};

/// Option of stages that tell one data centre from the other.
inline const std::string kRemote = "remote: [10.2.0.0/16, \"fd02::/32\"]";

struct EdgeSwitch {
  std::string stages;     ///< what stands between rdma_track and l3, a line each
  std::string sender;     ///< 10.1.0.1 or 10.2.0.1; the other one is the receiver
  std::string sender_v6;  ///< fd01::1 or fd02::1
  std::string in = "in";  ///< name of the port to the own data centre
};

/// Port 0, `in`, leads to the own data centre, 10.1.0.0/16 and fd01::/32, port 1, `wan`, to the other one,
/// 10.2.0.0/16 and fd02::/32.
inline std::string edge_switch_yaml(const EdgeSwitch& e) {
  const auto pair = [](const std::string& sender, const char* ours, const char* theirs) {
    return "        - { a: { address: \"" + sender + "\", qpn: 17 }, b: { address: \"" +
           (sender == ours ? theirs : ours) + "\", qpn: 34 } }\n";
  };
  return "name: esw\nports:\n  - { name: " + e.in + R"(, type: "null", mtu_bytes: 4200 }
  - { name: wan, type: "null", mtu_bytes: 4200 }
addresses:
  - { port: )" +
         e.in + R"(, address: 10.9.1.0/31 }
  - { port: wan, address: 10.9.2.0/31 }
  - { port: )" +
         e.in + R"(, address: "fd09:1::0/127" }
  - { port: wan, address: "fd09:2::0/127" }
neighbours:
  - { port: )" +
         e.in + R"(, address: 10.9.1.1, mac: "02:aa:00:00:00:01" }
  - { port: wan, address: 10.9.2.1, mac: "02:aa:00:00:00:02" }
  - { port: )" +
         e.in + R"(, address: "fd09:1::1", mac: "02:aa:00:00:00:01" }
  - { port: wan, address: "fd09:2::1", mac: "02:aa:00:00:00:02" }
routes:
  - { prefix: 10.1.0.0/16, via: [10.9.1.1] }
  - { prefix: 10.2.0.0/16, via: [10.9.2.1] }
  - { prefix: "fd01::/32", via: ["fd09:1::1"] }
  - { prefix: "fd02::/32", via: ["fd09:2::1"] }
pipeline:
  - parse
  - rdma_track:
      max_qps: 64
      qps:
)" + pair(e.sender, "10.1.0.1", "10.2.0.1") +
         pair(e.sender_v6, "fd01::1", "fd02::1") + e.stages + "  - l3\n";
}

/// Of a port, 0 or 1, and of whom it leads to.
inline wire::MacAddress port_mac(unsigned port) {
  return wire::MacAddress::from_u64(0x020000000100 + port);
}
inline wire::MacAddress beyond_mac(unsigned port) {
  return wire::MacAddress::from_u64(0x02aa00000001 + port);
}

}  // namespace weft::testing
