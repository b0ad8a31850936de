// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Polynomials over GF(2) are bit-reflected, as CRC-32 has them: bit i of a 32-bit word is the coefficient of x^(31-i),
// bit i of a 64-bit word that of x^(63-i). The carry-less product of two reflected words, read as a reflected word of
// 64 bits, is the product times x; the table makes up for that.
#include "switch/wire/icrc_update.h"

#include <array>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace weft::wire {
namespace {

/// P(x) of CRC-32 without x^32, reflected.
constexpr std::uint32_t kPolynomial = 0xedb88320;

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

constexpr std::uint32_t kX31 = 1;
/// x^32 mod P: what remains of the highest term of P.
constexpr std::uint32_t kX32 = kPolynomial;

/// Words of four bytes behind an edit that the table reaches: more than a jumbo frame.
constexpr std::uint32_t kTableWords = 4096;

/// kPower[q] = x^(32 q + 31) mod P: with the factor x from above, what a difference with q words behind it gets.
constexpr std::array<std::uint32_t, kTableWords> make_powers() noexcept {
  std::array<std::uint32_t, kTableWords> t{};
  std::uint32_t v = kX31;
  for (auto& entry : t) {
    entry = v;
    for (int i = 0; i < 32; ++i) v = times_x(v);
  }
  return t;
}
constexpr std::array<std::uint32_t, kTableWords> kPower = make_powers();

/// kPower for any q.
std::uint32_t power(std::uint32_t q) noexcept {
  if (q < kTableWords) return kPower[q];
  std::uint32_t result = kX31;
  for (std::uint32_t square = kX32; q != 0; q >>= 1, square = multiply(square, square)) {
    if ((q & 1) != 0) result = multiply(result, square);
  }
  return result;
}

/// The difference as one or two words that end on a multiple of four bytes before the end of the covered part.
struct Words {
  std::uint32_t farther;  ///< one word farther from the end than `nearer`
  std::uint32_t nearer;
};
Words align(const FieldEdit& e) noexcept {
  const std::uint32_t odd = e.bytes_after % 4;
  const std::uint64_t both = std::uint64_t{e.delta} << 8 * (4 - odd);
  return {static_cast<std::uint32_t>(both), static_cast<std::uint32_t>(both >> 32)};
}

#if defined(__x86_64__)

bool has_pclmul() noexcept {
  __builtin_cpu_init();
  return __builtin_cpu_supports("pclmul") != 0;
}
const bool kHasPclmul = has_pclmul();

__attribute__((target("pclmul"))) inline __m128i product(std::uint32_t a, std::uint32_t b) noexcept {
  return _mm_clmulepi64_si128(_mm_cvtsi32_si128(static_cast<int>(a)), _mm_cvtsi32_si128(static_cast<int>(b)), 0);
}

/// V mod P by Barrett reduction: with Q = floor(x^64 / P), both reflected in 33 bits, the quotient is the low word of
/// V.low * Q, and the remainder the high word of V + quotient * P.
__attribute__((target("pclmul"))) inline std::uint32_t reduce(__m128i v) noexcept {
  constexpr long long kP = 0x1db710641;
  constexpr long long kQ = 0x1f7011641;
  const __m128i low = _mm_set_epi64x(0, 0xffffffff);
  const __m128i constants = _mm_set_epi64x(kQ, kP);
  const __m128i quotient = _mm_clmulepi64_si128(_mm_and_si128(v, low), constants, 0x10);
  const __m128i multiple = _mm_clmulepi64_si128(_mm_and_si128(quotient, low), constants, 0x00);
  return static_cast<std::uint32_t>(_mm_cvtsi128_si32(_mm_srli_epi64(_mm_xor_si128(v, multiple), 32)));
}

/// Edits at any distance from the end.
__attribute__((target("pclmul"), noinline)) std::uint32_t update_anywhere(std::uint32_t old_icrc,
                                                                          std::span<const FieldEdit> edits) noexcept {
  __m128i sum = _mm_setzero_si128();
  for (const FieldEdit& e : edits) {
    const std::uint32_t q = e.bytes_after / 4;
    const Words w = align(e);
    sum = _mm_xor_si128(sum, _mm_xor_si128(product(w.nearer, power(q)), product(w.farther, power(q + 1))));
  }
  return old_icrc ^ reduce(sum);
}

/// Edits of whole words within the table's reach. All products are added up before the one reduction.
__attribute__((target("pclmul"))) std::uint32_t update_pclmul(std::uint32_t old_icrc,
                                                              std::span<const FieldEdit> edits) noexcept {
  __m128i sum = _mm_setzero_si128();
  for (const FieldEdit& e : edits) {
    const bool in_table = e.bytes_after % 4 == 0 && e.bytes_after < kTableWords * 4;
    if (!in_table) [[unlikely]]
      return update_anywhere(old_icrc, edits);
    sum = _mm_xor_si128(sum, product(e.delta, kPower[e.bytes_after / 4]));
  }
  return old_icrc ^ reduce(sum);
}

#endif

}  // namespace

std::uint32_t icrc_update_portable(std::uint32_t old_icrc, std::span<const FieldEdit> edits) noexcept {
  std::uint32_t sum = 0;
  for (const FieldEdit& e : edits) {
    const std::uint32_t q = e.bytes_after / 4;
    const Words w = align(e);
    sum ^= multiply(w.nearer, power(q));
    if (w.farther != 0) sum ^= multiply(w.farther, power(q + 1));
  }
  return old_icrc ^ times_x(sum);
}

std::uint32_t icrc_update(std::uint32_t old_icrc, std::span<const FieldEdit> edits) noexcept {
#if defined(__x86_64__)
  if (kHasPclmul) return update_pclmul(old_icrc, edits);
#endif
  return icrc_update_portable(old_icrc, edits);
}

}  // namespace weft::wire
