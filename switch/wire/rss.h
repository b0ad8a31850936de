// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// How a card with RSS chooses the receive queue of a packet between two IP addresses, with the key that weft gives it:
// the Toeplitz hash of source and destination, of which the lowest bits choose an entry of the card's table.
//
// The key repeats after 32 bits, so that both directions of a connection have one hash: it is a hash of the XOR of all
// 32-bit words of the two addresses, which is source XOR destination with IPv4. Any such hash sends pairs of hosts with
// the same XOR to the same queue. The key has few bits set, so that software has the lowest seven bits of the hash with
// four shifts; these depend on all 32 bits of the XOR.
#pragma once

#include <array>
#include <cstdint>

#include "switch/wire/hash.h"

namespace weft::wire {

/// The four bytes that the key consists of, over and over.
inline constexpr std::array<std::uint8_t, 4> kRssKey{0x10, 0x20, 0x40, 0x88};

/// Entries of a card's table that software tells apart. Tables have so many, or a multiple of it.
inline constexpr std::uint32_t kRssEntries = 128;

/// Of the packets between two IPv4 addresses: the lowest seven bits of the hash, the lowest one first.
/// @param pair  one << 32 | other in host order
[[nodiscard]] constexpr std::uint32_t rss_flow_v4(std::uint64_t pair) noexcept {
  const auto x = static_cast<std::uint32_t>(pair >> 32 ^ pair);
  return (x ^ x >> 7 ^ x >> 14 ^ x >> 21 ^ (x >> 28 | x << 4)) % kRssEntries;
}

/// The same of the packets between two IPv6 addresses of 16 bytes in wire order.
[[nodiscard]] inline std::uint32_t rss_flow_v6(const std::uint8_t* source, const std::uint8_t* destination) noexcept {
  using detail::load_be64;
  return rss_flow_v4(load_be64(source) ^ load_be64(source + 8) ^ load_be64(destination) ^ load_be64(destination + 8));
}

/// A hash of the unordered pair of IPv6 addresses whose lowest seven bits are rss_flow_v6(): both ways to choose a
/// worker in one word, because whoever has no cards chooses by the highest bits.
/// @param unordered  Ipv6Hashes::unordered of the same
[[nodiscard]] inline std::uint32_t pair_hash_v6(std::uint32_t unordered, const std::uint8_t* source,
                                                const std::uint8_t* destination) noexcept {
  return unordered - unordered % kRssEntries + rss_flow_v6(source, destination);
}

/// What the flow is of the packets that an entry of a card's table is for.
/// @param entry  its index; tables with more than kRssEntries repeat
[[nodiscard]] constexpr std::uint32_t rss_flow_of_entry(std::uint32_t entry) noexcept {
  std::uint32_t flow = 0;
  for (std::uint32_t bit = 0; bit < 7; ++bit) flow |= (entry >> bit & 1) << (6 - bit);
  return flow;
}

}  // namespace weft::wire
