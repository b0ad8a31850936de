// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// What weft-rnic's client and server tell each other in the private data of REQ and REP.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>

#include "nic/rnic/config.h"
#include "switch/wire/types.h"
#include "tools/weft-rnic/options.h"

namespace weft::rnic_tool {

/// Largest buffer that a server gives to a connection.
inline constexpr std::uint32_t kMaxServerBytes = 1u << 28;
/// Largest reorder_window that a server takes: a client could make it keep so many packets for each queue pair.
inline constexpr std::uint32_t kMaxServerWindow = 4096;

/// Client to server.
struct Hello {
  wire::be32 magic;
  std::uint8_t test;
  std::uint8_t loss_recovery;
  std::uint8_t renack;
  std::uint8_t telemetry;  ///< 1: the client has HPCC, and wants to hear what switches tell of their ports
  wire::be32 size;
  wire::be32 depth;
  wire::be32 reorder_window;
  wire::be64 address;  ///< write_lat: where the server writes
  wire::be32 rkey;

  static constexpr std::uint32_t kMagic = 0x77726e31;  // "wrn1"
};
static_assert(sizeof(Hello) == 32);

/// Server to client. At `address`: `size` bytes of data, and at `statistics` a Statistics.
struct Welcome {
  wire::be32 magic;
  wire::be32 rkey;
  wire::be64 address;
  wire::be64 statistics;
};
static_assert(sizeof(Welcome) == 24);

/// What the server's responder has counted, and what it has for `verify`; the client reads it over RDMA.
struct Statistics {
  wire::be64 packets, duplicates, out_of_order, naks_sent, ce_marked, cnps_sent;
  /// A window on the data, which SEND with Invalidate closes; then there is another one with another key.
  wire::be64 window_address;
  wire::be32 window_rkey;
  wire::be32 invalidations;  ///< windows that were closed
  /// An immediate that is not larger than the size of the data asks for hash() of its first so many bytes.
  wire::be64 hash;
  wire::be32 hashes;          ///< times that this was done
  wire::be32 last_immediate;  ///< the last larger one
};
static_assert(sizeof(Statistics) == 80);

/// FNV-1a, 64 bits: small enough to be written a second time for a host with Linux's verbs.
[[nodiscard]] inline std::uint64_t hash(std::span<const std::uint8_t> bytes) noexcept {
  std::uint64_t h = 0xcbf29ce484222325;
  for (const std::uint8_t byte : bytes) h = (h ^ byte) * 0x100000001b3;
  return h;
}

template <class T>
[[nodiscard]] std::span<const std::uint8_t> as_bytes(const T& v) noexcept {
  return {reinterpret_cast<const std::uint8_t*>(&v), sizeof v};
}
/// nullopt when the magic number is missing.
template <class T>
[[nodiscard]] std::optional<T> read_greeting(std::span<const std::uint8_t> bytes) noexcept {
  T v;
  if (bytes.size() < sizeof v) return std::nullopt;
  std::memcpy(&v, bytes.data(), sizeof v);
  if (v.magic.value() != Hello::kMagic) return std::nullopt;
  return v;
}

}  // namespace weft::rnic_tool
