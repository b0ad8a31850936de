// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// A RoCE packet as the protocol units see it: fields in host order, and payload as references.
#pragma once

#include <algorithm>
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

  friend bool operator==(const Memory&, const Memory&) = default;
};

/// Payload in pieces. A null piece has a length and no values.
struct Payload {
  struct Piece {
    const std::uint8_t* data;
    std::uint32_t bytes;

    friend bool operator==(const Piece&, const Piece&) = default;
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
  /// Equal when the same memory is referred to; what is in it is not compared.
  friend bool operator==(const Payload& a, const Payload& b) noexcept {
    return a.bytes == b.bytes && a.count == b.count &&
           std::equal(a.pieces.begin(), a.pieces.begin() + a.count, b.pieces.begin());
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

  friend bool operator==(const Packet&, const Packet&) = default;
};

/// Feeds to `h(std::uint64_t)` what is on the wire of a packet, but for its payload: fields that the opcode has no
/// header for, and `retransmission`, are left out.
template <class Hash>
void hash_headers(const Packet& p, Hash&& h) {
  const wire::OpcodeInfo& info = p.info();
  h(static_cast<std::uint64_t>(p.opcode) << 32 | std::uint64_t{p.psn.value()} << 2 | (p.ack_req ? 2u : 0u) |
    (p.solicited ? 1u : 0u));
  h(p.payload.bytes);
  if (info.has(wire::HeaderMask::reth)) {
    h(p.remote_address);
    h(std::uint64_t{p.rkey} << 32 | p.dma_length);
  }
  if (info.has(wire::HeaderMask::atomic_eth)) {
    h(p.remote_address);
    h(p.rkey);
    h(p.swap_add);
    h(p.compare);
  }
  if (info.has(wire::HeaderMask::aeth)) h(std::uint64_t{p.msn} << 8 | p.syndrome);
  if (info.has(wire::HeaderMask::atomic_ack_eth)) h(p.compare);
  if (info.has(wire::HeaderMask::immdt) || info.has(wire::HeaderMask::ieth)) h(p.immediate);
}

/// What an atomic reads and writes (IBTA 9.4.5).
inline constexpr std::uint32_t kAtomicBytes = 8;

/// Packets that a message of so many bytes takes; one at least.
[[nodiscard]] constexpr std::uint32_t packets_of(std::uint32_t bytes, std::uint32_t mtu) noexcept {
  return bytes == 0 ? 1 : (bytes - 1) / mtu + 1;
}

}  // namespace weft::nic
