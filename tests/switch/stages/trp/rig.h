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
#include "tests/support/edge_switch.h"
#include "tests/support/harness.h"
#include "tests/support/parsed.h"

namespace weft::stages::testing {

using weft::testing::beyond_mac;
using weft::testing::Bytes;
using weft::testing::Harness;
using weft::testing::kDestination;
using weft::testing::kRemote;
using weft::testing::kSource;
using weft::testing::parsed_of;
using weft::testing::port_mac;
using wire::FrameBuilder;
using wire::Opcode;
using wire::Psn;
using wire::Qpn;

// The receivers are in 10.1.0.0/16, on port `in`; the senders, 10.2.0.0/16, are beyond `wan`.
inline std::string yaml(const std::string& trp, const std::string& in = "in") {
  return weft::testing::edge_switch_yaml(
      {.stages = "  - trp: { " + trp + " }\n", .sender = "10.2.0.1", .sender_v6 = "fd02::1", .in = in});
}

inline FrameBuilder data(std::uint32_t psn, bool ipv6 = false) {
  FrameBuilder frame;
  frame.eth(beyond_mac(1), port_mac(1));
  ipv6 ? frame.ipv6("fd02::1", "fd01::1") : frame.ipv4("10.2.0.1", "10.1.0.1");
  return frame.udp(50000).bth(Opcode::RC_SEND_MIDDLE, kDestination, Psn(psn)).payload(1024);
}
inline FrameBuilder cnp(bool ipv6 = false, Qpn to = kSource) {
  FrameBuilder frame;
  frame.eth(beyond_mac(0), port_mac(0));
  ipv6 ? frame.ipv6("fd01::1", "fd02::1") : frame.ipv4("10.1.0.1", "10.2.0.1");
  return frame.dscp(48).udp(0).cnp(to);
}

class TrpStageTest : public ::testing::TestWithParam<bool> {
 protected:
  struct Whole {};
  /// With all of the configuration.
  TrpStageTest(const std::string& switch_yaml, Whole) : h(weft::testing::all_stages(), switch_yaml) {}
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
