// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Address value types: parse, format, compare. Used by headers, configuration and tables.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace weft::wire {

/// A 48-bit MAC address in wire order.
struct MacAddress {
  std::array<std::uint8_t, 6> bytes{};

  /// From the low 48 bits, most significant byte first on the wire.
  static constexpr MacAddress from_u64(std::uint64_t v) noexcept {
    MacAddress m;
    for (int i = 0; i < 6; ++i) m.bytes[static_cast<std::size_t>(i)] = static_cast<std::uint8_t>(v >> (40 - 8 * i));
    return m;
  }
  [[nodiscard]] constexpr std::uint64_t to_u64() const noexcept {
    std::uint64_t v = 0;
    for (const auto b : bytes) v = v << 8 | b;
    return v;
  }
  [[nodiscard]] constexpr bool is_multicast() const noexcept { return (bytes[0] & 1) != 0; }
  [[nodiscard]] constexpr bool is_broadcast() const noexcept { return to_u64() == 0xffffffffffffull; }
  [[nodiscard]] constexpr bool is_zero() const noexcept { return to_u64() == 0; }

  /// "aa:bb:cc:dd:ee:ff", either case; nullopt otherwise.
  static std::optional<MacAddress> parse(std::string_view text);
  [[nodiscard]] std::string to_string() const;
  friend constexpr auto operator<=>(const MacAddress&, const MacAddress&) noexcept = default;
};
static_assert(sizeof(MacAddress) == 6 && alignof(MacAddress) == 1);

/// An IPv4 or IPv6 address. IPv4 addresses are kept in the last four bytes behind ::ffff:0:0/96 and remember that
/// they are IPv4.
class IpAddress {
 public:
  constexpr IpAddress() = default;  ///< 0.0.0.0
  static constexpr IpAddress v4(std::uint32_t host_order) noexcept {
    IpAddress a;
    for (int i = 0; i < 4; ++i) {
      a.bytes_[static_cast<std::size_t>(12 + i)] = static_cast<std::uint8_t>(host_order >> (24 - 8 * i));
    }
    return a;
  }
  static constexpr IpAddress v6(const std::array<std::uint8_t, 16>& wire) noexcept {
    IpAddress a;
    a.bytes_ = wire;
    a.v6_ = true;
    return a;
  }

  [[nodiscard]] constexpr bool is_v6() const noexcept { return v6_; }
  /// Host order; only for IPv4.
  [[nodiscard]] constexpr std::uint32_t v4_value() const noexcept {
    return std::uint32_t{bytes_[12]} << 24 | std::uint32_t{bytes_[13]} << 16 | std::uint32_t{bytes_[14]} << 8 |
           bytes_[15];
  }
  /// All 16 bytes in wire order (IPv4-mapped for IPv4).
  [[nodiscard]] constexpr const std::array<std::uint8_t, 16>& bytes() const noexcept { return bytes_; }

  [[nodiscard]] bool is_multicast() const noexcept;
  [[nodiscard]] bool is_link_local() const noexcept;   ///< 169.254/16, fe80::/10
  [[nodiscard]] bool is_loopback() const noexcept;     ///< 127/8, ::1
  [[nodiscard]] bool is_unspecified() const noexcept;  ///< 0.0.0.0, ::

  /// Textual forms of inet_pton(3); nullopt otherwise.
  static std::optional<IpAddress> parse(std::string_view text);
  [[nodiscard]] std::string to_string() const;
  friend constexpr auto operator<=>(const IpAddress&, const IpAddress&) noexcept = default;

 private:
  std::array<std::uint8_t, 16> bytes_{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 0, 0};
  bool v6_ = false;
};

/// An address and a prefix length (0-32 or 0-128). Host bits are kept: "10.0.0.1/24" is an interface address in a
/// subnet; network() clears them.
struct IpPrefix {
  IpAddress address{};
  std::uint8_t length = 0;

  /// "address/length"; nullopt when malformed or the length is out of range.
  static std::optional<IpPrefix> parse(std::string_view text);
  [[nodiscard]] std::string to_string() const;
  [[nodiscard]] IpPrefix network() const noexcept;
  [[nodiscard]] bool contains(const IpAddress& a) const noexcept;
  friend constexpr auto operator<=>(const IpPrefix&, const IpPrefix&) noexcept = default;
};

}  // namespace weft::wire
