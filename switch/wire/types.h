// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Integer types of the wire: big-endian fields that convert only when asked, and 24-bit serial numbers and queue
// pair numbers that cannot be mistaken for plain integers or for each other.
#pragma once

#include <bit>
#include <compare>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace weft::wire {

/// Reverses the bytes of an unsigned integer of 1, 2, 4 or 8 bytes.
template <std::unsigned_integral T>
[[nodiscard]] constexpr T byte_swap(T v) noexcept {
  if constexpr (sizeof(T) == 1)
    return v;
  else if constexpr (sizeof(T) == 2)
    return __builtin_bswap16(v);
  else if constexpr (sizeof(T) == 4)
    return __builtin_bswap32(v);
  else
    return __builtin_bswap64(v);
}

/// An unsigned integer stored most significant byte first, at any alignment. There is no implicit conversion in
/// either direction: read with value(), write with set() or the explicit constructor.
template <std::unsigned_integral T>
class BigEndian {
 public:
  BigEndian() = default;
  constexpr explicit BigEndian(T host) noexcept { set(host); }

  /// The value in host order.
  [[nodiscard]] constexpr T value() const noexcept {
    return std::endian::native == std::endian::little ? byte_swap(std::bit_cast<T>(bytes_)) : std::bit_cast<T>(bytes_);
  }
  constexpr void set(T host) noexcept {
    bytes_ = std::bit_cast<Bytes>(std::endian::native == std::endian::little ? byte_swap(host) : host);
  }
  friend constexpr bool operator==(const BigEndian&, const BigEndian&) noexcept = default;

 private:
  struct Bytes {
    std::uint8_t b[sizeof(T)];
    friend constexpr bool operator==(const Bytes&, const Bytes&) noexcept = default;
  };
  Bytes bytes_;
};

using be16 = BigEndian<std::uint16_t>;
using be32 = BigEndian<std::uint32_t>;
using be64 = BigEndian<std::uint64_t>;

static_assert(sizeof(be16) == 2 && alignof(be16) == 1 && std::is_trivial_v<be16>);
static_assert(sizeof(be32) == 4 && alignof(be32) == 1 && std::is_trivial_v<be32>);
static_assert(sizeof(be64) == 8 && alignof(be64) == 1 && std::is_trivial_v<be64>);
static_assert(!std::is_convertible_v<be16, std::uint16_t> && !std::is_convertible_v<std::uint16_t, be16>);
static_assert(!std::is_convertible_v<be32, std::uint32_t> && !std::is_convertible_v<std::uint32_t, be32>);
static_assert(be32(0x01020304).value() == 0x01020304);

/// A 24-bit big-endian field (BTH QPN and PSN, AETH MSN).
class be24 {
 public:
  be24() = default;
  /// Bits above the 24th are discarded.
  constexpr explicit be24(std::uint32_t host) noexcept { set(host); }
  [[nodiscard]] constexpr std::uint32_t value() const noexcept {
    return std::uint32_t{b_[0]} << 16 | std::uint32_t{b_[1]} << 8 | b_[2];
  }
  constexpr void set(std::uint32_t host) noexcept {
    b_[0] = static_cast<std::uint8_t>(host >> 16);
    b_[1] = static_cast<std::uint8_t>(host >> 8);
    b_[2] = static_cast<std::uint8_t>(host);
  }
  friend constexpr bool operator==(const be24&, const be24&) noexcept = default;

 private:
  std::uint8_t b_[3];
};
static_assert(sizeof(be24) == 3 && alignof(be24) == 1 && std::is_trivial_v<be24>);

/// A packet sequence number: 24-bit serial arithmetic (IBTA 9.7.1, in the manner of RFC 1982). It has no `<`, because
/// order is only defined between numbers less than half the space apart; use distance_from() or in_window().
class Psn {
 public:
  static constexpr std::uint32_t kMask = 0xffffff;
  static constexpr std::uint32_t kHalf = 0x800000;

  constexpr Psn() = default;
  /// Bits above the 24th are discarded.
  constexpr explicit Psn(std::uint32_t v) noexcept : v_(v & kMask) {}

  [[nodiscard]] constexpr std::uint32_t value() const noexcept { return v_; }
  [[nodiscard]] constexpr Psn operator+(std::uint32_t n) const noexcept { return Psn(v_ + n); }
  [[nodiscard]] constexpr Psn operator-(std::uint32_t n) const noexcept { return Psn(v_ - n); }
  constexpr Psn& operator++() noexcept {
    v_ = (v_ + 1) & kMask;
    return *this;
  }
  /// Signed distance this - from, in [-2^23, 2^23). Positive: this is later than `from`.
  [[nodiscard]] constexpr std::int32_t distance_from(Psn from) const noexcept {
    return static_cast<std::int32_t>((v_ - from.v_) << 8) >> 8;
  }
  /// True when this lies in [first, first + count), count up to 2^24.
  [[nodiscard]] constexpr bool in_window(Psn first, std::uint32_t count) const noexcept {
    return ((v_ - first.v_) & kMask) < count;
  }
  friend constexpr bool operator==(Psn, Psn) noexcept = default;
  auto operator<=>(const Psn&) const = delete;

 private:
  std::uint32_t v_ = 0;
};
static_assert(Psn(0).distance_from(Psn(0xffffff)) == 1 && Psn(0xffffff).distance_from(Psn(0)) == -1);
static_assert(Psn(0xffffff) + 1 == Psn(0));

/// A queue pair number, 24 bits. QPN 1 is the general service interface (CM).
class Qpn {
 public:
  constexpr Qpn() = default;
  constexpr explicit Qpn(std::uint32_t v) noexcept : v_(v & 0xffffff) {}
  [[nodiscard]] constexpr std::uint32_t value() const noexcept { return v_; }
  friend constexpr auto operator<=>(Qpn, Qpn) noexcept = default;

 private:
  std::uint32_t v_ = 0;
};

}  // namespace weft::wire
