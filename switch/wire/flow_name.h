// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#pragma once

#include <cstdint>

#include "switch/wire/packet_addresses.h"
#include "switch/wire/parsed.h"

namespace weft::wire {

/// A flow to a queue pair, as the packets of this direction name it. Stages that treat all queue pairs of two hosts as
/// one leave dest_qp at 0.
struct FlowName {
  std::uint64_t addresses = 0;  ///< Parsed::address_key: source and destination
  std::uint32_t dest_qp = 0;
  bool ipv6 = false;

  friend constexpr bool operator==(const FlowName&, const FlowName&) noexcept = default;
};

/// The flow that a RoCE packet is of.
[[nodiscard]] inline FlowName flow_name(const Parsed& parsed) noexcept {
  return {parsed.address_key, parsed.dest_qp.value(), parsed.has(ParsedFlag::ipv6)};
}

/// The flow that an answer is about.
/// @param parsed   of the answer
/// @param frame    its first byte
/// @param dest_qp  the queue pair that the flow's packets go to, which the answer itself does not say
[[nodiscard]] inline FlowName answered_flow_name(const Parsed& parsed, const std::uint8_t* frame,
                                                 std::uint32_t dest_qp) noexcept {
  return {reverse_address_key(parsed, frame), dest_qp, parsed.has(ParsedFlag::ipv6)};
}

}  // namespace weft::wire
