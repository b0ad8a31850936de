// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// The hash that picks the member of an equal-cost group. Nothing in it is hidden or random: whoever knows a switch's
// seed can say which way a flow goes, and which change of the UDP source port sends it elsewhere.
//
// Definition. The key of a packet is a sequence of 64-bit words:
//   IPv4   source << 32 | destination,  P
//   IPv6   the four halves of source and destination (most significant byte first),  P
//   P      source port << 32 | destination port << 16 | protocol (the last IPv6 next header)
// Ports are those of UDP or TCP, else 0; fragments have none, so that all fragments of a packet go the same way.
// A switch may leave fields out (they are 0 in the key then), or add the BTH's: behind P stands one more word
//   R      destination QP << 8 | opcode, 0 for packets that are not RoCEv2
// and psn's changes of the source port (port_delta()) hold for switches without it.
//   c(key)    = CRC-32C (reflected polynomial 0x82f63b78) over the words, each least significant byte first, with
//               initial value 0 and no final inversion
//   hash(key) = M * c(key) over GF(2), where M is the switch's own invertible 32 x 32 matrix: column i, which belongs
//               to bit i of c, is the upper half of the i-th number of Rng(seed). Should those columns be
//               linearly dependent, the next 32 numbers are taken, and so on.
//   member    = hash * n >> 32 of n members, counted from 0 in the order of the configuration
//
// Linearity. Both steps are linear over GF(2): hash(a ^ b) = hash(a) ^ hash(b). Hence a change d of the source port
// changes the hash by hash(d << 32), the same for every flow (port_delta()), and where n is a power of two it changes
// the member by xor with the upper bits of that. This is what relative path control rests on (Zhang et al., "Hashing
// Linearity Enables Relative Path Control in Data Centers", USENIX ATC 2021; Themis, 3.2).
//
// Why a matrix and not only an initial value: with the latter, all flows that one switch sends to the same member would
// agree in the upper bits of the next switch's hash too, and use only a part of its members. Why scaling and not the
// remainder: it costs a multiplication instead of a division, is just as uniform, and leaves in the lower half of the
// product a number that is independent of the choice, for a second choice.
#pragma once

#include <nmmintrin.h>

#include <array>
#include <cstdint>
#include <memory>
#include <span>

namespace weft::tables {

class EcmpHash {
 public:
  explicit EcmpHash(std::uint64_t seed);

  /// The last word of a key.
  static constexpr std::uint64_t ports_word(std::uint16_t source_port, std::uint16_t destination_port,
                                            std::uint8_t protocol) noexcept {
    return std::uint64_t{source_port} << 32 | std::uint64_t{destination_port} << 16 | protocol;
  }

  /// @param addresses source << 32 | destination in host order
  [[nodiscard]] std::uint32_t v4(std::uint64_t addresses, std::uint64_t ports) const noexcept {
    return mix(crc(crc(0, addresses), ports));
  }
  /// @param addresses source and destination in wire order, 32 bytes
  [[nodiscard]] std::uint32_t v6(const std::uint8_t* addresses, std::uint64_t ports) const noexcept;

  /// Of a key as it is defined above.
  [[nodiscard]] std::uint32_t words(std::span<const std::uint64_t> key) const noexcept {
    std::uint32_t c = 0;
    for (const std::uint64_t word : key) c = crc(c, word);
    return mix(c);
  }

  /// By how much a change of the source port, given as old xor new, changes the hash of any flow (xor).
  [[nodiscard]] std::uint32_t port_delta(std::uint16_t change) const noexcept {
    return mix(crc(0, ports_word(change, 0, 0)));
  }

  /// The member out of `count`, 0 for none.
  static constexpr std::uint32_t member(std::uint32_t hash, std::uint32_t count) noexcept {
    return static_cast<std::uint32_t>(std::uint64_t{hash} * count >> 32);
  }
  /// A hash that is uniform among the flows that member() sent to the same one of `count`.
  static constexpr std::uint32_t second_choice(std::uint32_t hash, std::uint32_t count) noexcept {
    return hash * count;
  }

 private:
  static std::uint32_t crc(std::uint32_t state, std::uint64_t word) noexcept {
    return static_cast<std::uint32_t>(_mm_crc32_u64(state, word));
  }
  /// M * c, one byte of c at a time.
  [[nodiscard]] std::uint32_t mix(std::uint32_t c) const noexcept {
    const auto& t = *table_;
    return t[0][c & 0xff] ^ t[1][c >> 8 & 0xff] ^ t[2][c >> 16 & 0xff] ^ t[3][c >> 24];
  }

  using Table = std::array<std::array<std::uint32_t, 256>, 4>;
  std::unique_ptr<Table> table_;
};

}  // namespace weft::tables
