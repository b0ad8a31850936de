// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Deterministic, unkeyed hashes of addresses, built on the high and low halves of a 64 x 64 bit product.
#pragma once

#include <cstdint>
#include <cstring>

#include "switch/wire/types.h"

namespace weft::wire {

namespace detail {
/// Odd constants with about as many ones as zeros (fractions of the square roots of 2, 3, 5 and 7).
inline constexpr std::uint64_t kMix0 = 0x6a09e667f3bcc909;
inline constexpr std::uint64_t kMix1 = 0xbb67ae8584caa73b;
inline constexpr std::uint64_t kMix2 = 0x3c6ef372fe94f82b;
inline constexpr std::uint64_t kMix3 = 0xa54ff53a5f1d36f1;

/// Spreads every bit of v over all bits of the result: up, then down, then up again.
[[nodiscard]] constexpr std::uint32_t spread32(std::uint64_t v) noexcept {
  v *= kMix2;
  v ^= v >> 32;
  v *= kMix1;
  return static_cast<std::uint32_t>(v >> 32);
}
[[nodiscard]] inline std::uint64_t load_be64(const std::uint8_t* at) noexcept {
  be64 v;
  std::memcpy(&v, at, sizeof v);
  return v.value();
}
}  // namespace detail

/// Both halves of the 128-bit product, folded together.
[[nodiscard]] constexpr std::uint64_t mix64(std::uint64_t a, std::uint64_t b) noexcept {
  __extension__ using Wide = unsigned __int128;
  const Wide product = static_cast<Wide>(a) * b;
  return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
}

/// Hash of an unordered pair of IPv4 addresses, both in wire order. The product does not depend on their order.
[[nodiscard]] constexpr std::uint32_t pair_hash_v4_wire(std::uint64_t a, std::uint64_t b) noexcept {
  return detail::spread32(a * b);
}

/// The same for one << 32 | other in host order.
[[nodiscard]] constexpr std::uint32_t pair_hash_v4(std::uint64_t pair) noexcept {
  const std::uint64_t wire = byte_swap(pair);
  return pair_hash_v4_wire(wire >> 32, wire & 0xffffffff);
}

/// Hash of an unordered pair of MAC addresses, 48 bits each.
[[nodiscard]] constexpr std::uint32_t pair_hash_mac(std::uint64_t a, std::uint64_t b) noexcept {
  const std::uint64_t low = a < b ? a : b;
  const std::uint64_t high = a < b ? b : a;
  return detail::spread32(mix64(low ^ detail::kMix0, high ^ detail::kMix1));
}

/// Hashes of two IPv6 addresses of 16 bytes in wire order.
struct Ipv6Hashes {
  std::uint64_t ordered;    ///< of (source, destination)
  std::uint32_t unordered;  ///< of the pair
};
[[nodiscard]] inline Ipv6Hashes hash_v6(const std::uint8_t* source, const std::uint8_t* destination) noexcept {
  using detail::load_be64;
  const std::uint64_t s = mix64(load_be64(source) ^ detail::kMix0, load_be64(source + 8) ^ detail::kMix1);
  const std::uint64_t d = mix64(load_be64(destination) ^ detail::kMix0, load_be64(destination + 8) ^ detail::kMix1);
  return {mix64(s ^ detail::kMix2, d ^ detail::kMix3),
          detail::spread32(mix64((s + d) ^ detail::kMix2, (s ^ d) ^ detail::kMix3))};
}

}  // namespace weft::wire
