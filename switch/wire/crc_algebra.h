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
inline const bool kHasClmul = [] {
  __builtin_cpu_init();
  return __builtin_cpu_supports("pclmul") != 0;
}();

/// P(x) with x^32, reflected in 33 bits.
inline constexpr std::uint64_t kWholePolynomial = std::uint64_t{kPolynomial} << 1 | 1;

/// 1 / kWholePolynomial modulo x^64, bits taken for coefficients in rising order.
inline constexpr std::uint64_t kInverse = [] {
  std::uint64_t inverse = 0, rest = 1;
  for (std::uint32_t i = 0; i < 64; ++i) {
    if ((rest >> i & 1) == 0) continue;
    inverse |= std::uint64_t{1} << i;
    rest ^= kWholePolynomial << i;
  }
  return inverse;
}();

/// What both reductions multiply with. Reflected, a word's low bits are its highest terms; the multiple of P that has
/// the same low n bits is P times the quotient, which is the word times the inverse modulo x^n.
__attribute__((target(WEFT_CLMUL))) inline __m128i polynomial_and_inverse() noexcept {
  return _mm_set_epi64x(static_cast<long long>(kInverse), static_cast<long long>(kWholePolynomial));
}

/// V mod P, of 64 bits.
__attribute__((target(WEFT_CLMUL))) inline std::uint32_t reduce(__m128i v) noexcept {
  const __m128i constants = polynomial_and_inverse();
  const __m128i low = _mm_set_epi64x(0, 0xffffffff);
  const __m128i quotient = _mm_and_si128(_mm_clmulepi64_si128(v, constants, 0x10), low);
  const __m128i multiple = _mm_clmulepi64_si128(quotient, constants, 0x00);
  return static_cast<std::uint32_t>(_mm_cvtsi128_si32(_mm_srli_epi64(_mm_xor_si128(v, multiple), 32)));
}

/// V * x^(128 * blocks), in 128 bits again, plus the 128 bits that lie so many blocks behind V.
template <std::uint32_t blocks = 1>
__attribute__((target(WEFT_CLMUL))) inline __m128i fold(__m128i v, __m128i next) noexcept {
  constexpr std::uint32_t kLow = power(4 * blocks - 2), kHigh = power(4 * blocks);
  const __m128i powers = _mm_set_epi64x(kLow, kHigh);
  const __m128i high = _mm_clmulepi64_si128(v, powers, 0x00);
  const __m128i low = _mm_clmulepi64_si128(v, powers, 0x11);
  return _mm_xor_si128(_mm_xor_si128(high, next), low);
}

/// V * x^32 mod P, of 128 bits.
__attribute__((target(WEFT_CLMUL))) inline std::uint32_t finish(__m128i v) noexcept {
  constexpr std::uint32_t kX95 = power(2);
  const __m128i constants = polynomial_and_inverse();
  const __m128i v96 = _mm_xor_si128(_mm_clmulepi64_si128(v, _mm_set_epi64x(0, kX95), 0x00), _mm_srli_si128(v, 8));
  const __m128i quotient = _mm_clmulepi64_si128(v96, constants, 0x10);
  const __m128i multiple = _mm_clmulepi64_si128(quotient, constants, 0x00);
  return static_cast<std::uint32_t>(_mm_cvtsi128_si32(_mm_srli_si128(_mm_xor_si128(v96, multiple), 8)));
}

#endif

}  // namespace weft::wire::crc
