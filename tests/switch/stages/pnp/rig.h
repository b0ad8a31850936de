// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// An edge switch between two data centres, with pnp, by frames.
#pragma once

#include "switch/stages/pnp/stage.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <string>

#include "switch/config/config.h"
#include "switch/wire/builder.h"
#include "switch/wire/checksum.h"
#include "switch/wire/icrc.h"
#include "switch/wire/parse.h"
#include "tests/support/all_stages.h"
#include "tests/support/harness.h"
#include "tests/support/parsed.h"

namespace weft::stages::testing {

using weft::testing::Bytes;
using weft::testing::Harness;
using weft::testing::parsed_of;
using wire::Ecn;
using wire::FrameBuilder;
using wire::MacAddress;
using wire::Opcode;
using wire::Psn;
using wire::Qpn;

inline constexpr Qpn kSource{17}, kDestination{34};

// An edge switch: port `in` to the data centre 10.1.0.0/16, port `wan` to the other one, 10.2.0.0/16.
inline std::string yaml(const std::string& pnp, const std::string& more = "") {
  return R"(name: esw
ports:
  - { name: in, type: "null", mtu_bytes: 4200 }
  - { name: wan, type: "null", mtu_bytes: 4200 }
addresses:
  - { port: in, address: 10.9.1.0/31 }
  - { port: wan, address: 10.9.2.0/31 }
  - { port: in, address: "fd09:1::0/127" }
  - { port: wan, address: "fd09:2::0/127" }
neighbours:
  - { port: in, address: 10.9.1.1, mac: "02:aa:00:00:00:01" }
  - { port: wan, address: 10.9.2.1, mac: "02:aa:00:00:00:02" }
  - { port: in, address: "fd09:1::1", mac: "02:aa:00:00:00:01" }
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
        - { a: { address: 10.1.0.1, qpn: 17 }, b: { address: 10.2.0.1, qpn: 34 } }
        - { a: { address: "fd01::1", qpn: 17 }, b: { address: "fd02::1", qpn: 34 } }
)" + more +
         "  - pnp: { " + pnp + " }\n  - l3\n";
}

inline const std::string kRemote = "remote: [10.2.0.0/16, \"fd02::/32\"]";

inline MacAddress port_mac(unsigned port) {
  return MacAddress::from_u64(0x020000000100 + port);
}

inline FrameBuilder data(Ecn ecn = Ecn::ce, std::uint32_t psn = 5) {
  return FrameBuilder()
      .eth(MacAddress::from_u64(0x02aa00000001), port_mac(0))
      .ipv4("10.1.0.1", "10.2.0.1")
      .dscp(3)
      .ecn(ecn)
      .udp(50000)
      .bth(Opcode::RC_SEND_MIDDLE, kDestination, Psn(psn))
      .payload(256);
}

class PnpStageTest : public ::testing::Test {
 protected:
  explicit PnpStageTest(const std::string& options = kRemote) : h(weft::testing::all_stages(), yaml(options)) {}

  [[nodiscard]] std::uint64_t counter(const char* name) const { return h.counter("pnp", name); }
  std::vector<Bytes> frames(const char* port) {
    h.advance_ns(1);  // a CNP that was made when a packet left through one port leaves through another
    std::vector<Bytes> result;
    for (auto& frame : h.take(port)) result.push_back(std::move(frame.bytes));
    return result;
  }
  Harness h;
};

}  // namespace weft::stages::testing
