// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Groups and packets for the tests of the engine.
#pragma once

#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "collectives/engine/context.h"
#include "collectives/engine/control_message.h"
#include "collectives/engine/group.h"
#include "nic/rnic/packet.h"

namespace weft::inc::testing {

inline constexpr std::uint32_t kGroupId = 77;
inline constexpr std::uint32_t kMtu = 256;

/// So many ranks around one switch. PSNs begin just in front of the wrap, another one at each endpoint and direction.
inline GroupConfig star(std::uint32_t ranks) {
  GroupConfig g;
  g.id = kGroupId;
  g.mtu = kMtu;
  for (std::uint32_t r = 0; r < ranks; ++r) {
    EndpointConfig e;
    e.rank = static_cast<std::uint16_t>(r);
    e.first_rx = wire::Psn(0xfffffd + r);
    e.first_tx = wire::Psn(0x800000 + 16 * r);
    e.address = 0x10000 * (r + 1);
    e.rkey = 100 + r;
    g.endpoints.push_back(e);
    g.way.push_back(static_cast<EndpointIndex>(r));
  }
  return g;
}

/// A leaf of Tree-3-2: ranks 0 and 1 are its own, 2 and 3 are behind its parent, endpoint 2.
inline GroupConfig leaf() {
  GroupConfig g = star(2);
  g.parent = 2;
  g.endpoints.push_back({.rank = {}, .first_rx = wire::Psn(500), .first_tx = wire::Psn(700)});
  g.way.push_back(2);
  g.way.push_back(2);
  return g;
}

inline constexpr std::uint32_t kSmallWindow = 2;
/// A leaf for Mode II with so few slots that they are used again at once.
inline GroupConfig small_leaf() {
  GroupConfig g = leaf();
  g.window = kSmallWindow;
  g.slots = 2 * kSmallWindow;
  g.rnr_timer = 1;
  return g;
}

/// The payload of a packet, which must live as long as it.
using Bytes = std::vector<std::uint8_t>;

inline ControlMessage message(Primitive primitive, std::uint16_t sequence, std::uint64_t bytes,
                              std::uint16_t root = 0) {
  ControlMessage m;
  m.primitive = primitive;
  m.type = primitive == Primitive::barrier ? DataType{} : DataType::uint32;
  m.sequence = sequence;
  m.root = root;
  m.group = kGroupId;
  m.bytes = bytes;
  return m;
}

/// A control message; its payload is put into `kept`.
inline nic::Packet control(wire::Psn psn, const ControlMessage& m, Bytes& kept) {
  const auto payload = control_payload(m);
  kept.assign(payload.begin(), payload.end());
  nic::Packet p;
  p.opcode = wire::Opcode::RC_SEND_ONLY_IMM;
  p.psn = psn;
  p.ack_req = true;
  p.immediate = control_immediate(m);
  p.payload.set(kept.data(), static_cast<std::uint32_t>(kept.size()));
  return p;
}

inline nic::Packet data(wire::Psn psn, wire::Opcode opcode, const Bytes& payload) {
  nic::Packet p;
  p.opcode = opcode;
  p.psn = psn;
  p.payload.set(payload.data(), static_cast<std::uint32_t>(payload.size()));
  return p;
}

/// An answer of the other end of an endpoint.
inline nic::Packet answer(wire::Psn psn, wire::Syndrome syndrome, std::uint32_t msn = 0) {
  nic::Packet p;
  p.opcode = wire::Opcode::RC_ACKNOWLEDGE;
  p.psn = psn;
  p.syndrome = syndrome.raw();
  p.msn = msn;
  return p;
}

/// Keeps what a group sends, without payload.
struct Sent final : Sink {
  void send(EndpointIndex to, const nic::Packet& p, bool) override { packets.emplace_back(to, p); }
  /// The PSNs of requests to an endpoint since the last call.
  std::vector<std::uint32_t> requests(EndpointIndex to) {
    std::vector<std::uint32_t> psns;
    for (const auto& [endpoint, p] : packets) {
      if (endpoint == to && p.info().is_request()) psns.push_back(p.psn.value());
    }
    packets.clear();
    return psns;
  }
  /// RNR NAKs to an endpoint since the last call.
  std::size_t rnr_naks(EndpointIndex to) {
    std::size_t count = 0;
    for (const auto& [endpoint, p] : packets) {
      count += endpoint == to && p.opcode == wire::Opcode::RC_ACKNOWLEDGE && wire::Syndrome(p.syndrome).is_rnr_nak();
    }
    packets.clear();
    return count;
  }
  std::vector<std::pair<EndpointIndex, nic::Packet>> packets;
};

/// The bytes of some numbers, as hosts have them.
template <class T>
Bytes bytes_of(const std::vector<T>& values) {
  Bytes out(values.size() * sizeof(T));
  if (!out.empty()) std::memcpy(out.data(), values.data(), out.size());
  return out;
}

}  // namespace weft::inc::testing
