// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// The receiver's leaf with `reorder` for tests: a queue pair whose packets the test hands in through two uplinks.
#pragma once

#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "tests/switch/stages/nack_filter/rig.h"

namespace weft::stages::testing {

/// @param options  of `reorder`
/// @param more     of the switch: "qos: {}" for example
inline std::string reorder_yaml(const std::string& options, const std::string& more = {}) {
  std::string yaml = leaf_yaml(3, {});
  const std::size_t filter = yaml.find("  - nack_filter:");
  yaml.replace(filter, yaml.find('\n', filter) - filter, "  - reorder: " + options);
  return yaml + more;
}

class ReorderTest : public ::testing::Test {
 protected:
  explicit ReorderTest(const std::string& yaml) : h(weft::testing::all_stages(), yaml) {}

  /// PSNs that have left towards the receiver, in this order.
  std::vector<std::uint32_t> out() {
    std::vector<std::uint32_t> psns;
    for (const auto& frame : h.take("h1")) psns.push_back(parsed_of(frame.bytes).psn.value());
    return psns;
  }
  /// Packets come in one burst through an uplink. Messages begin with PSN 10 and 110.
  std::vector<std::uint32_t> come(std::vector<std::uint32_t> psns, unsigned uplink = 1) {
    std::vector<Bytes> burst;
    for (const std::uint32_t psn : psns) {
      FrameBuilder frame = data(psn, uplink).tos(tos);
      if (psn % 100 == 10) frame.bth(Opcode::RC_SEND_FIRST, kReceiverQp, Psn(psn));
      burst.push_back(frame.build());
    }
    h.inject("s" + std::to_string(uplink), burst);
    return out();
  }
  std::uint64_t counter(const char* name) const { return h.counter("reorder", name); }

  Harness h;
  std::uint8_t tos = 0;  ///< of what comes
};

}  // namespace weft::stages::testing
