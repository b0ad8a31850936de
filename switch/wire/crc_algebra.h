// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Polynomials over GF(2), modulo that of CRC-32, for the sources that compute the ICRC.
//
// They are bit-reflected, as CRC-32 has them: bit i of a 32-bit word is the coefficient of x^(31-i), bit i of a 64-bit
// word that of x^(63-i). The carry-less product of two reflected words, read as a reflected word of 64 bits, is the
// product times x; the table makes up for that.
#pragma once

#include <array>
#include <cstdint>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace weft::wire::crc {

/// P(x) of CRC-32 without x^32, reflected.
inline constexpr std::uint32_t kPolynomial = 0xedb88320;

constexpr std::uint32_t times_x(std::uint32_t v) noexcept {
  return v >> 1 ^ ((v & 1) != 0 ? kPolynomial : 0);
}

/// a * b mod P, one bit of a at a time.
constexpr std::uint32_t multiply(std::uint32_t a, std::uint32_t b) noexcept {
  std::uint32_t product = 0;
  for (std::uint32_t bit = 0x80000000; bit != 0; bit >>= 1) {
    if ((a & bit) != 0) product ^= b;
    b = times_x(b);
  }
  return product;
}

inline constexpr std::uint32_t kX31 = 1;

/// x^(32 q + 31) mod P: with the factor x from above, what a word with q words behind it gets.
constexpr std::uint32_t power(std::uint32_t q) noexcept {
  std::uint32_t v = kX31;
  for (std::uint32_t i = 0; i < 32 * q; ++i) v = times_x(v);
  return v;
}

/// Words of four bytes behind a difference that the table reaches: more than a jumbo frame.
inline constexpr std::uint32_t kTableWords = 4096;

/// kPower[q] = power(q).
extern const std::array<std::uint32_t, kTableWords> kPower;

#if defined(__x86_64__)

/// Instructions that the functions below need: the argument of the attribute `target`.
#define WEFT_CLMUL "pclmul"

/// Whether this CPU has them.
[[nodiscard]] inline bool has_clmul() noexcept {
  __builtin_cpu_init();
  return __builtin_cpu_supports("pclmul") != 0;
}

/// V mod P by Barrett reduction: with Q = floor(x^64 / P), both reflected in 33 bits, the quotient is the low word of
/// V.low * Q, and the remainder the high word of V + quotient * P.
__attribute__((target(WEFT_CLMUL))) inline std::uint32_t reduce(__m128i v) noexcept {
  constexpr long long kP = 0x1db710641;
  constexpr long long kQ = 0x1f7011641;
  const __m128i low = _mm_set_epi64x(0, 0xffffffff);
  const __m128i constants = _mm_set_epi64x(kQ, kP);
  const __m128i quotient = _mm_clmulepi64_si128(_mm_and_si128(v, low), constants, 0x10);
  const __m128i multiple = _mm_clmulepi64_si128(_mm_and_si128(quotient, low), constants, 0x00);
  return static_cast<std::uint32_t>(_mm_cvtsi128_si32(_mm_srli_epi64(_mm_xor_si128(v, multiple), 32)));
}

/// V * x^128, in 128 bits again, plus the next 128 bits.
__attribute__((target(WEFT_CLMUL))) inline __m128i fold(__m128i v, __m128i next) noexcept {
  constexpr std::uint32_t kX95 = power(2), kX159 = power(4);
  const __m128i powers = _mm_set_epi64x(kX95, kX159);
  const __m128i high = _mm_clmulepi64_si128(v, powers, 0x00);
  const __m128i low = _mm_clmulepi64_si128(v, powers, 0x11);
  return _mm_xor_si128(_mm_xor_si128(high, next), low);
}

/// V * x^32 mod P, of 128 bits.
__attribute__((target(WEFT_CLMUL))) inline std::uint32_t finish(__m128i v) noexcept {
  constexpr std::uint32_t kX63 = power(1), kX95 = power(2);
  const __m128i powers = _mm_set_epi64x(kX63, kX95);
  const __m128i low = _mm_set_epi64x(0, 0xffffffff);
  const __m128i v96 = _mm_xor_si128(_mm_clmulepi64_si128(v, powers, 0x00), _mm_srli_si128(v, 8));
  const __m128i v64 =
      _mm_xor_si128(_mm_clmulepi64_si128(_mm_and_si128(v96, low), powers, 0x10), _mm_srli_si128(v96, 4));
  return reduce(v64);
}

#endif

}  // namespace weft::wire::crc
