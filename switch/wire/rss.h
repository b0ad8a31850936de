// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// How a card with RSS chooses the receive queue of a packet between two IPv4 addresses, with the key that weft gives
// it: the Toeplitz hash of source and destination, of which the lowest bits choose an entry of the card's table.
//
// The key repeats after 32 bits, so that both directions of a connection have one hash: it is a hash of source XOR
// destination. Any such hash sends pairs of hosts with the same XOR to the same queue. The key has few bits set, so
// that software has the lowest seven bits of the hash with four shifts; these depend on all 32 bits of the XOR.
#pragma once

#include <array>
#include <cstdint>

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

/// What rss_flow_v4() is of the packets that an entry of a card's table is for.
/// @param entry  its index; tables with more than kRssEntries repeat
[[nodiscard]] constexpr std::uint32_t rss_flow_of_entry(std::uint32_t entry) noexcept {
  std::uint32_t flow = 0;
  for (std::uint32_t bit = 0; bit < 7; ++bit) flow |= (entry >> bit & 1) << (6 - bit);
  return flow;
}

}  // namespace weft::wire
