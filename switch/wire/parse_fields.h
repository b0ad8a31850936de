// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// What the parser's fast path needs to know of a RoCEv2 frame over IPv4, as data: what must be in it, and which of its
// bytes become which of Parsed. The path makes its vectors of this.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "switch/wire/headers.h"
#include "switch/wire/parsed.h"

namespace weft::wire::detail {

/// A byte of a frame or of a record.
struct At {
  std::size_t position;
  std::uint8_t value;
};

/// What must be in a byte of the frame, under a mask.
struct Rule {
  std::size_t at;
  std::uint8_t mask, value;
};

/// Sixteen bytes of a frame or a record.
using FieldVector = std::array<std::uint8_t, 16>;

/// A field in network order, to its place in Parsed in host order.
struct Move {
  std::size_t to;
  std::uint8_t from, bytes;
};

/// Of a frame whose IPv4 header has no options and begins at kL3.
template <std::uint8_t kL3>
struct RoceV4Fields {
  static constexpr std::uint8_t kIp = kL3, kUdp = kIp + sizeof(Ipv4Header);
  static constexpr std::uint8_t kBth = kUdp + sizeof(UdpHeader), kAeth = kBth + sizeof(Bth);
  /// Bytes that are read: all headers, and the four bytes behind the BTH, which are an AETH, other headers, payload or
  /// the ICRC.
  static constexpr std::uint32_t kBytes = kAeth + 4;

  static constexpr Rule kRules[] = {
      {6, 1, 0},  // no group as the source
      {kIp - 2, 0xff, EtherType::ipv4 >> 8},
      {kIp - 1, 0xff, EtherType::ipv4 & 0xff},
      {kIp, 0xff, 0x45},
      {kIp + 6, 0x3f, 0},  // no fragment; DF is free
      {kIp + 7, 0xff, 0},
      {kIp + 9, 0xff, IpProtocol::udp},
      {kUdp + 2, 0xff, kRoceUdpPort >> 8},
      {kUdp + 3, 0xff, kRoceUdpPort & 0xff},
      {kBth + 1, 0x0f, 0},  // transport version
  };

  static constexpr Move kMoves[] = {
      {offsetof(Parsed, opcode), kBth, 1},      {offsetof(Parsed, tos), kIp + 1, 1},
      {offsetof(Parsed, ttl), kIp + 8, 1},      {offsetof(Parsed, l3_length), kIp + 2, 2},
      {offsetof(Parsed, syndrome), kAeth, 1},  // unless the opcode says that it is none
      {offsetof(Parsed, protocol), kIp + 9, 1}, {offsetof(Parsed, dest_qp), kBth + 5, 3},
      {offsetof(Parsed, psn), kBth + 9, 3},     {offsetof(Parsed, address_key), kIp + 12, 8},
      {offsetof(Parsed, source_port), kUdp, 2}, {offsetof(Parsed, destination_port), kUdp + 2, 2},
  };

  static constexpr At kFixed[] = {
      {offsetof(Parsed, kind), static_cast<std::uint8_t>(FrameKind::roce)},
      {offsetof(Parsed, l3_offset), kIp},
      {offsetof(Parsed, l4_offset), kUdp},
  };
};

/// The same in vectors of sixteen bytes: of the frame from byte `from` on, of the record from byte `to` on.
template <typename Fields>
struct FieldWindow {
  using Vector = FieldVector;

  /// The rules' masks or values.
  static constexpr Vector rules(std::uint8_t Rule::*field, std::size_t from) {
    Vector v{};
    for (const Rule& r : Fields::kRules) {
      if (r.at >= from && r.at < from + v.size()) v[r.at - from] = r.*field;
    }
    return v;
  }
  /// Control of a byte shuffle: what has no source becomes 0.
  static constexpr Vector moves(std::size_t from, std::size_t to) {
    Vector v{};
    for (std::uint8_t& control : v) control = 0x80;
    for (const Move& m : Fields::kMoves) {
      for (std::size_t i = 0; i < m.bytes; ++i) {
        const std::size_t source = m.from + m.bytes - 1u - i, target = m.to + i;
        const bool inside = source >= from && source < from + v.size() && target >= to && target < to + v.size();
        if (inside) v[target - to] = static_cast<std::uint8_t>(source - from);
      }
    }
    return v;
  }
  template <std::size_t kCount>
  static constexpr Vector record(const At (&bytes)[kCount], std::size_t to) {
    Vector v{};
    for (const At& b : bytes) {
      if (b.position >= to && b.position < to + v.size()) v[b.position - to] = b.value;
    }
    return v;
  }
};

}  // namespace weft::wire::detail
