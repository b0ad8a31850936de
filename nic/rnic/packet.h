// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// A RoCE packet as the protocol units see it: fields in host order, and payload as references.
#pragma once

#include <array>
#include <cstdint>

#include "nic/rnic/config.h"
#include "switch/wire/ib.h"
#include "switch/wire/opcodes.h"
#include "switch/wire/types.h"

namespace weft::nic {

/// Memory that work is done in; null when its bytes are not kept (see MemoryTable).
struct Memory {
  std::uint8_t* data = nullptr;
};

/// Payload in pieces. A null piece has a length and no values.
struct Payload {
  struct Piece {
    const std::uint8_t* data;
    std::uint32_t bytes;
  };
  std::array<Piece, kMaxSge> pieces;
  std::uint8_t count = 0;
  std::uint32_t bytes = 0;

  /// For received packets, whose payload is in one piece: the first byte, or null.
  [[nodiscard]] const std::uint8_t* data() const noexcept { return count == 0 ? nullptr : pieces[0].data; }
  void set(const std::uint8_t* data, std::uint32_t length) noexcept {
    pieces[0] = {data, length};
    count = length == 0 ? 0 : 1;
    bytes = length;
  }
};

/// What the units need of a packet. Which fields count beyond psn follows from the opcode.
struct Packet {
  wire::Opcode opcode = wire::Opcode::RC_ACKNOWLEDGE;
  bool ack_req = false;
  bool solicited = false;
  bool retransmission = false;  ///< sent packets: was on the wire before
  std::uint8_t syndrome = 0;    ///< AETH
  wire::Psn psn{};
  std::uint32_t msn = 0;             ///< AETH
  std::uint64_t remote_address = 0;  ///< RETH, AtomicETH
  std::uint32_t rkey = 0;
  std::uint32_t dma_length = 0;
  std::uint64_t swap_add = 0;
  std::uint64_t compare = 0;    ///< AtomicETH; the original value of AtomicAckETH
  std::uint32_t immediate = 0;  ///< ImmDt or IETH
  Payload payload;

  [[nodiscard]] const wire::OpcodeInfo& info() const noexcept { return wire::opcode_info(opcode); }
};

/// Packets that a message of so many bytes takes; one at least.
[[nodiscard]] constexpr std::uint32_t packets_of(std::uint32_t bytes, std::uint32_t mtu) noexcept {
  return bytes == 0 ? 1 : (bytes - 1) / mtu + 1;
}

}  // namespace weft::nic
