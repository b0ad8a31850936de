// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// The edge switch of the receivers, with trp, by frames.
#pragma once

#include "switch/stages/trp/stage.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "switch/wire/builder.h"
#include "switch/wire/icrc.h"
#include "switch/wire/parse.h"
#include "tests/support/all_stages.h"
#include "tests/support/harness.h"
#include "tests/support/parsed.h"

namespace weft::stages::testing {

using weft::testing::Bytes;
using weft::testing::Harness;
using weft::testing::parsed_of;
using wire::FrameBuilder;
using wire::MacAddress;
using wire::Opcode;
using wire::Psn;
using wire::Qpn;

inline constexpr Qpn kSource{17}, kDestination{34};
inline constexpr TimeNs kUs = 1'000;

// The edge switch of the receivers, 10.1.0.0/16, on port `in`; the senders, 10.2.0.0/16, are beyond `wan`.
inline std::string yaml(const std::string& trp, const std::string& in = "in") {
  return R"(name: esw
ports:
  - { name: wan, type: "null", mtu_bytes: 4200 }
  - { name: )" +
         in + R"(, type: "null", mtu_bytes: 4200 }
addresses:
  - { port: wan, address: 10.9.2.0/31 }
  - { port: )" +
         in + R"(, address: 10.9.1.0/31 }
  - { port: wan, address: "fd09:2::0/127" }
  - { port: )" +
         in + R"(, address: "fd09:1::0/127" }
neighbours:
  - { port: wan, address: 10.9.2.1, mac: "02:aa:00:00:00:02" }
  - { port: )" +
         in + R"(, address: 10.9.1.1, mac: "02:aa:00:00:00:01" }
  - { port: wan, address: "fd09:2::1", mac: "02:aa:00:00:00:02" }
  - { port: )" +
         in + R"(, address: "fd09:1::1", mac: "02:aa:00:00:00:01" }
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
        - { a: { address: 10.2.0.1, qpn: 17 }, b: { address: 10.1.0.1, qpn: 34 } }
        - { a: { address: "fd02::1", qpn: 17 }, b: { address: "fd01::1", qpn: 34 } }
  - trp: { )" +
         trp + " }\n  - l3\n";
}

inline const std::string kRemote = "remote: [10.2.0.0/16, \"fd02::/32\"]";

inline FrameBuilder data(std::uint32_t psn, bool ipv6 = false) {
  FrameBuilder frame;
  frame.eth(MacAddress::from_u64(0x02aa00000002), MacAddress::from_u64(0x020000000100));
  ipv6 ? frame.ipv6("fd02::1", "fd01::1") : frame.ipv4("10.2.0.1", "10.1.0.1");
  return frame.udp(50000).bth(Opcode::RC_SEND_MIDDLE, kDestination, Psn(psn)).payload(1024);
}
inline FrameBuilder cnp(bool ipv6 = false, Qpn to = kSource) {
  FrameBuilder frame;
  frame.eth(MacAddress::from_u64(0x02aa00000001), MacAddress::from_u64(0x020000000101));
  ipv6 ? frame.ipv6("fd01::1", "fd02::1") : frame.ipv4("10.1.0.1", "10.2.0.1");
  return frame.dscp(48).udp(0).cnp(to);
}

class TrpStageTest : public ::testing::TestWithParam<bool> {
 protected:
  explicit TrpStageTest(const std::string& options = kRemote + ", loop_mbps: 100000, loop_delay_ns: 1000")
      : h(weft::testing::all_stages(), yaml(options)) {}

  [[nodiscard]] std::uint64_t counter(const char* name) const { return h.counter("trp", name); }
  std::vector<std::uint32_t> psns(const char* port = "in") {
    h.advance_ns(1);  // what a change of options or a reload has let go leaves now
    std::vector<std::uint32_t> result;
    for (const auto& frame : h.take(port)) {
      const wire::Parsed parsed = parsed_of(frame.bytes);
      EXPECT_TRUE(wire::icrc_ok(frame.bytes.data(), parsed));
      result.push_back(parsed.psn.value());
    }
    return result;
  }
  /// `weftctl set trp`: what is wrong with the words.
  std::string set(const std::vector<std::string>& words) {
    const pipeline::SwitchInfo& info = h.state().info();
    const auto trp = std::find_if(info.pipeline.begin(), info.pipeline.end(),
                                  [](const pipeline::StageSpec& stage) { return stage.name == "trp"; });
    const auto change = weft::testing::all_stages().find("trp")->set(trp->options, info, words, 1);
    if (change.error.empty()) h.change<TrpStage>("trp", change.apply.at(0));
    return change.error;
  }
  Harness h;
};

}  // namespace weft::stages::testing
