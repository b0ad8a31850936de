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
using wire::Ecn;
using wire::FrameBuilder;
using wire::Opcode;
using wire::Psn;
using wire::Qpn;

inline std::string yaml(const std::string& pnp, const std::string& more = "") {
  return weft::testing::edge_switch_yaml(
      {.stages = more + "  - pnp: { " + pnp + " }\n", .sender = "10.1.0.1", .sender_v6 = "fd01::1"});
}

inline FrameBuilder data(Ecn ecn = Ecn::ce, std::uint32_t psn = 5) {
  return FrameBuilder()
      .eth(beyond_mac(0), port_mac(0))
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
