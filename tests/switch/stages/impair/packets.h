// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Packets for tests of the impair stage's units, without packet buffers.
#pragma once

#include <cstdint>
#include <vector>

#include "switch/stages/impair/unit.h"
#include "switch/wire/builder.h"
#include "switch/wire/parse.h"

namespace weft::stages {

/// A parsed frame and where it came from.
struct TestPacket {
  wire::FrameBuilder::Bytes bytes;
  wire::Parsed parsed{};
  std::uint16_t in_port = 0;
  std::uint16_t out_port = 0xffff;

  explicit TestPacket(wire::FrameBuilder::Bytes frame) : bytes(std::move(frame)) { parse(); }
  explicit TestPacket(const wire::FrameBuilder& builder) : TestPacket(builder.build()) {}

  void parse() {
    const auto size = static_cast<std::uint32_t>(bytes.size());
    wire::parse_frame(bytes.data(), size, size, parsed);
  }
  void flip(std::uint32_t bit) {
    bytes.at(bit / 8) = static_cast<std::uint8_t>(bytes.at(bit / 8) ^ 1u << bit % 8);
    parse();
  }
  [[nodiscard]] ImpairFields fields() const {
    return {parsed, bytes.data(), static_cast<std::uint32_t>(bytes.size()), in_port, out_port};
  }
};

inline wire::FrameBuilder write_middle(std::uint32_t qp, std::uint32_t psn, std::size_t payload = 64) {
  return wire::FrameBuilder().bth(wire::Opcode::RC_RDMA_WRITE_MIDDLE, wire::Qpn(qp), wire::Psn(psn)).payload(payload);
}

inline wire::FrameBuilder acknowledge(std::uint32_t qp, std::uint32_t psn, wire::Syndrome syndrome) {
  return wire::FrameBuilder().bth(wire::Opcode::RC_ACKNOWLEDGE, wire::Qpn(qp), wire::Psn(psn)).aeth(syndrome, 1);
}

/// A frame of exactly this size, at least 14 bytes.
inline wire::FrameBuilder::Bytes frame_of(std::size_t bytes) {
  return wire::FrameBuilder().ethertype(wire::EtherType::lldp).payload(bytes - sizeof(wire::EthernetHeader)).build();
}

/// Every decision on a packet until it passes, is lost, or is held; corruption is carried out on the packet.
inline std::vector<ImpairStep> decide(ImpairUnit& unit, TimeNs now, TestPacket& packet, Rng& rng, ImpairPlace at = {}) {
  std::vector<ImpairStep> steps;
  while (true) {
    const ImpairStep step = unit.on_packet(now, packet.fields(), rng, at);
    steps.push_back(step);
    if (step.what == ImpairStep::What::corrupt) packet.flip(step.bit);
    if (step.what != ImpairStep::What::corrupt && step.what != ImpairStep::What::duplicate) return steps;
    at = step.next;
  }
}

}  // namespace weft::stages
