// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// The Internet checksum (RFC 1071) of IPv4, UDP, TCP and ICMP headers, and its incremental update (RFC 1624).
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include "switch/wire/headers.h"

namespace weft::wire {

/// Sum of 16-bit words in wire order, not folded. Add pieces of one message with add_bytes(); all pieces but the last
/// must have an even length.
class ChecksumSum {
 public:
  constexpr void add_word(std::uint16_t v) noexcept { sum_ += v; }
  constexpr void add_word32(std::uint32_t v) noexcept { sum_ += (v >> 16) + (v & 0xffff); }
  void add_bytes(std::span<const std::uint8_t> bytes) noexcept;

  /// Takes back a word that add_word() once added, by adding its complement.
  constexpr void remove_word(std::uint16_t v) noexcept { sum_ += static_cast<std::uint16_t>(~v); }

  /// Sum folded to 16 bits, not complemented.
  [[nodiscard]] constexpr std::uint16_t folded() const noexcept {
    // A fixed number of folds: whether one is needed depends on the packet, which no branch predictor knows.
    std::uint64_t s = (sum_ & 0xffffffff) + (sum_ >> 32);
    for (int i = 0; i < 3; ++i) s = (s & 0xffff) + (s >> 16);
    return static_cast<std::uint16_t>(s);
  }
  /// The checksum field: complement of the folded sum.
  [[nodiscard]] constexpr std::uint16_t checksum() const noexcept { return static_cast<std::uint16_t>(~folded()); }

 private:
  std::uint64_t sum_ = 0;
};

/// Checksum of an IPv4 header of ihl() words, computed as if its checksum field were 0.
[[nodiscard]] std::uint16_t ipv4_checksum(const Ipv4Header& header) noexcept;
/// True when the checksum of the header of ihl() words at `header` is right.
[[nodiscard]] bool ipv4_checksum_ok(const Ipv4Header& header) noexcept;

/// New checksum field after one 16-bit word changed (RFC 1624 equation 3: HC' = ~(~HC + ~m + m')).
[[nodiscard]] constexpr std::uint16_t checksum_update(std::uint16_t checksum, std::uint16_t old_word,
                                                      std::uint16_t new_word) noexcept {
  std::uint32_t s =
      std::uint32_t{static_cast<std::uint16_t>(~checksum)} + static_cast<std::uint16_t>(~old_word) + new_word;
  for (int i = 0; i < 2; ++i) s = (s & 0xffff) + (s >> 16);
  return static_cast<std::uint16_t>(~s);
}
/// The same for a 32-bit word that lies on an even offset.
[[nodiscard]] constexpr std::uint16_t checksum_update32(std::uint16_t checksum, std::uint32_t old_word,
                                                        std::uint32_t new_word) noexcept {
  const auto first =
      checksum_update(checksum, static_cast<std::uint16_t>(old_word >> 16), static_cast<std::uint16_t>(new_word >> 16));
  return checksum_update(first, static_cast<std::uint16_t>(old_word), static_cast<std::uint16_t>(new_word));
}

/// Decrements the TTL, which must not be 0, and updates the checksum (RFC 1624): it grows by 0x100, carries included,
/// and is never 0xffff. One's complement sums do not depend on the byte order (RFC 1071 2B), so that is 1 as it lies in
/// memory of a little-endian machine.
constexpr void decrement_ttl(Ipv4Header& header) noexcept {
  static_assert(std::endian::native == std::endian::little);
  --header.ttl;
  const std::uint32_t sum = std::bit_cast<std::uint16_t>(header.checksum) + 1u;
  header.checksum = std::bit_cast<be16>(static_cast<std::uint16_t>(sum + (sum >= 0xffff ? 1 : 0)));
}

/// Sets the TOS byte and updates the checksum.
constexpr void rewrite_tos(Ipv4Header& header, std::uint8_t tos) noexcept {
  const auto old_word = static_cast<std::uint16_t>(header.version_ihl << 8 | header.tos);
  header.tos = tos;
  header.checksum.set(
      checksum_update(header.checksum.value(), old_word, static_cast<std::uint16_t>(header.version_ihl << 8 | tos)));
}

/// Sum over the pseudo header that UDP, TCP and ICMPv6 checksums begin with. `length` is that of the transport header
/// and its payload.
[[nodiscard]] ChecksumSum pseudo_header_sum(const Ipv4Header& ip, std::uint8_t protocol, std::uint32_t length) noexcept;
[[nodiscard]] ChecksumSum pseudo_header_sum(const Ipv6Header& ip, std::uint8_t protocol, std::uint32_t length) noexcept;

/// Checksum of a UDP datagram, TCP segment or ICMPv6 message at `l4`, whose own checksum field must be 0. A UDP
/// checksum that comes out as 0 is sent as 0xffff, because 0 says that there is none.
template <class IpHeader>
[[nodiscard]] std::uint16_t l4_checksum(const IpHeader& ip, std::uint8_t protocol,
                                        std::span<const std::uint8_t> l4) noexcept {
  ChecksumSum s = pseudo_header_sum(ip, protocol, static_cast<std::uint32_t>(l4.size()));
  s.add_bytes(l4);
  const std::uint16_t c = s.checksum();
  return c == 0 && protocol == IpProtocol::udp ? 0xffff : c;
}

/// Checksum over plain bytes, for example an ICMP message whose checksum field is 0.
[[nodiscard]] inline std::uint16_t internet_checksum(std::span<const std::uint8_t> bytes) noexcept {
  ChecksumSum s;
  s.add_bytes(bytes);
  return s.checksum();
}

}  // namespace weft::wire
