// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/wire/icrc_update.h"

#include <array>

#include "switch/wire/crc_algebra.h"

namespace weft::wire {
namespace crc {
namespace {

constexpr std::array<std::uint32_t, kTableWords> make_powers() noexcept {
  std::array<std::uint32_t, kTableWords> t{};
  std::uint32_t v = kX31;
  for (auto& entry : t) {
    entry = v;
    for (int i = 0; i < 32; ++i) v = times_x(v);
  }
  return t;
}

}  // namespace

constinit const std::array<std::uint32_t, kTableWords> kPower = make_powers();

}  // namespace crc

namespace {

using crc::kPower;
using crc::kTableWords;
using crc::multiply;

/// x^32 mod P: what remains of the highest term of P.
constexpr std::uint32_t kX32 = crc::kPolynomial;

/// kPower for any q.
std::uint32_t any_power(std::uint32_t q) noexcept {
  if (q < kTableWords) return kPower[q];
  std::uint32_t result = crc::kX31;
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

__attribute__((target(WEFT_CLMUL))) inline __m128i product(std::uint32_t a, std::uint32_t b) noexcept {
  return _mm_clmulepi64_si128(_mm_cvtsi32_si128(static_cast<int>(a)), _mm_cvtsi32_si128(static_cast<int>(b)), 0);
}

/// Edits at any distance from the end.
__attribute__((target(WEFT_CLMUL), noinline)) std::uint32_t update_anywhere(std::uint32_t old_icrc,
                                                                            std::span<const FieldEdit> edits) noexcept {
  __m128i sum = _mm_setzero_si128();
  for (const FieldEdit& e : edits) {
    const std::uint32_t q = e.bytes_after / 4;
    const Words w = align(e);
    sum = _mm_xor_si128(sum, _mm_xor_si128(product(w.nearer, any_power(q)), product(w.farther, any_power(q + 1))));
  }
  return old_icrc ^ crc::reduce(sum);
}

/// Edits of whole words within the table's reach. All products are added up before the one reduction.
__attribute__((target(WEFT_CLMUL))) std::uint32_t update_clmul(std::uint32_t old_icrc,
                                                               std::span<const FieldEdit> edits) noexcept {
  __m128i sum = _mm_setzero_si128();
  for (const FieldEdit& e : edits) {
    const bool in_table = e.bytes_after % 4 == 0 && e.bytes_after < kTableWords * 4;
    if (!in_table) [[unlikely]]
      return update_anywhere(old_icrc, edits);
    sum = _mm_xor_si128(sum, product(e.delta, kPower[e.bytes_after / 4]));
  }
  return old_icrc ^ crc::reduce(sum);
}

#endif

}  // namespace

std::uint32_t icrc_update_portable(std::uint32_t old_icrc, std::span<const FieldEdit> edits) noexcept {
  std::uint32_t sum = 0;
  for (const FieldEdit& e : edits) {
    const std::uint32_t q = e.bytes_after / 4;
    const Words w = align(e);
    sum ^= multiply(w.nearer, any_power(q));
    if (w.farther != 0) sum ^= multiply(w.farther, any_power(q + 1));
  }
  return old_icrc ^ crc::times_x(sum);
}

std::uint32_t icrc_update(std::uint32_t old_icrc, std::span<const FieldEdit> edits) noexcept {
#if defined(__x86_64__)
  if (crc::kHasClmul) return update_clmul(old_icrc, edits);
#endif
  return icrc_update_portable(old_icrc, edits);
}

}  // namespace weft::wire
