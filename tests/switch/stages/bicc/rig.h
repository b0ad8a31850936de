// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// The edge switch of the receivers, with bicc, by frames.
#pragma once

#include "switch/stages/bicc/stage.h"

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
inline std::string yaml(const std::string& bicc, const std::string& in = "in") {
  return weft::testing::edge_switch_yaml(
      {.stages = "  - bicc: { " + bicc + " }\n", .sender = "10.2.0.1", .sender_v6 = "fd02::1", .in = in});
}

inline FrameBuilder data(std::uint32_t psn, bool ipv6 = false) {
  FrameBuilder frame;
  frame.eth(beyond_mac(1), port_mac(1));
  ipv6 ? frame.ipv6("fd02::1", "fd01::1") : frame.ipv4("10.2.0.1", "10.1.0.1");
  return frame.udp(50000).bth(Opcode::RC_SEND_MIDDLE, kDestination, Psn(psn)).payload(1024);
}
inline FrameBuilder ack(std::uint32_t psn, bool ipv6 = false, Qpn to = kSource) {
  FrameBuilder frame;
  frame.eth(beyond_mac(0), port_mac(0));
  ipv6 ? frame.ipv6("fd01::1", "fd02::1") : frame.ipv4("10.1.0.1", "10.2.0.1");
  return frame.udp(50000).bth(Opcode::RC_ACKNOWLEDGE, to, Psn(psn)).aeth(wire::Syndrome::ack(31), 0);
}

class BiccStageTest : public ::testing::TestWithParam<bool> {
 protected:
  explicit BiccStageTest(const std::string& options = kRemote + ", in_flight_kb: 3")
      : h(weft::testing::all_stages(), yaml(options)) {}
  struct Whole {};
  /// With all of the configuration.
  BiccStageTest(const std::string& switch_yaml, Whole) : h(weft::testing::all_stages(), switch_yaml) {}

  [[nodiscard]] std::uint64_t counter(const char* name) const { return h.counter("bicc", name); }
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
  /// `weftctl set bicc`: what is wrong with the words.
  std::string set(const std::vector<std::string>& words) {
    const pipeline::SwitchInfo& info = h.state().info();
    const auto bicc = std::find_if(info.pipeline.begin(), info.pipeline.end(),
                                   [](const pipeline::StageSpec& stage) { return stage.name == "bicc"; });
    const auto change = weft::testing::all_stages().find("bicc")->set(bicc->options, info, words, 1);
    if (change.error.empty()) h.change<BiccStage>("bicc", change.apply.at(0));
    return change.error;
  }
  Harness h;
};

}  // namespace weft::stages::testing
