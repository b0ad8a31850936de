// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// The loops behind crc_fold.h, for whoever has something else to do with the bytes that they read: the multiplier
// bounds them, and what needs other parts of the CPU costs next to nothing beside it.
#pragma once

#include "switch/wire/crc_fold.h"

#if defined(__x86_64__)

#if !defined(__clang__)
#pragma GCC diagnostic push
// GCC 12 takes the undefined vectors within its own intrinsics for ours.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif

namespace weft::wire::crc {

/// Instructions that the loops need: arguments of the attribute `target`, also of what is called within them.
#define WEFT_FOLD_256 "avx2,pclmul,vpclmulqdq"
#define WEFT_FOLD_512 "avx512f,avx512dq,avx512vl,pclmul,vpclmulqdq"

namespace detail {

/// What fold<blocks>() multiplies with.
template <std::uint32_t blocks>
__attribute__((target(WEFT_CLMUL))) inline __m128i powers() noexcept {
  constexpr std::uint32_t kLow = power(4 * blocks - 2), kHigh = power(4 * blocks);
  return _mm_set_epi64x(kLow, kHigh);
}

__attribute__((target(WEFT_CLMUL))) inline __m128i fold_rest(__m128i state, const std::uint8_t* at,
                                                             const std::uint8_t* end) noexcept {
  for (; at != end; at += 16) state = fold(state, _mm_loadu_si128(reinterpret_cast<const __m128i*>(at)));
  return state;
}

__attribute__((target(WEFT_FOLD_256))) inline __m256i load_256(const std::uint8_t* at) noexcept {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at));
}

/// Both halves of `v`, each folded over so many blocks.
template <std::uint32_t blocks>
__attribute__((target(WEFT_FOLD_256))) inline __m256i fold_256(__m256i v, __m256i next) noexcept {
  const __m256i by = _mm256_broadcastsi128_si256(powers<blocks>());
  const __m256i high = _mm256_clmulepi64_epi128(v, by, 0x00), low = _mm256_clmulepi64_epi128(v, by, 0x11);
  return _mm256_xor_si256(_mm256_xor_si256(high, next), low);
}

__attribute__((target(WEFT_FOLD_512))) inline __m512i load_512(const std::uint8_t* at) noexcept {
  return _mm512_loadu_si512(at);
}

/// All quarters of `v`, each folded over so many blocks.
template <std::uint32_t blocks>
__attribute__((target(WEFT_FOLD_512))) inline __m512i fold_512(__m512i v, __m512i next) noexcept {
  constexpr int kXor = 0x96;
  const __m512i by = _mm512_broadcast_i32x4(powers<blocks>());
  return _mm512_ternarylogic_epi64(_mm512_clmulepi64_epi128(v, by, 0x00), _mm512_clmulepi64_epi128(v, by, 0x11), next,
                                   kXor);
}

}  // namespace detail

/// A FoldRun that calls `each(std::size_t offset, __m256i bytes)` for every 32 bytes of each whole kFoldStep, in order.
template <class Each>
__attribute__((target(WEFT_FOLD_256))) inline __m128i fold_each_256(__m128i state, const std::uint8_t* at,
                                                                    const std::uint8_t* end, Each each) noexcept {
  using namespace detail;
  constexpr std::size_t kSums = 8, kBytes = 32;
  static_assert(kSums * kBytes == kFoldStep);
  __m256i sum[kSums];
  std::size_t done = 0;
#pragma GCC unroll 8
  for (std::size_t i = 0; i < kSums; ++i) {
    sum[i] = load_256(at + i * kBytes);
    each(i * kBytes, sum[i]);
  }
  sum[0] = _mm256_xor_si256(sum[0], _mm256_zextsi128_si256(fold(state, _mm_setzero_si128())));
  for (at += kFoldStep, done += kFoldStep; end - at >= kFoldStep; at += kFoldStep, done += kFoldStep) {
#pragma GCC unroll 8
    for (std::size_t i = 0; i < kSums; ++i) {
      const __m256i bytes = load_256(at + i * kBytes);
      sum[i] = fold_256<2 * kSums>(sum[i], bytes);
      each(done + i * kBytes, bytes);
    }
  }
#pragma GCC unroll 8
  for (std::size_t i = 0; i < 4; ++i) sum[i] = fold_256<8>(sum[i], sum[i + 4]);
#pragma GCC unroll 8
  for (std::size_t i = 0; i < 2; ++i) sum[i] = fold_256<4>(sum[i], sum[i + 2]);
  __m256i one = fold_256<2>(sum[0], sum[1]);
  for (; end - at >= static_cast<std::ptrdiff_t>(kBytes); at += kBytes) one = fold_256<2>(one, load_256(at));
  return fold_rest(fold(_mm256_castsi256_si128(one), _mm256_extracti128_si256(one, 1)), at, end);
}

/// A FoldRun that calls `each(std::size_t offset, __m512i bytes)` for every 64 bytes of each whole kFoldStep, in order.
template <class Each>
__attribute__((target(WEFT_FOLD_512))) inline __m128i fold_each_512(__m128i state, const std::uint8_t* at,
                                                                    const std::uint8_t* end, Each each) noexcept {
  using namespace detail;
  constexpr std::size_t kSums = 4, kBytes = 64;
  static_assert(kSums * kBytes == kFoldStep);
  __m512i sum[kSums];
  std::size_t done = 0;
#pragma GCC unroll 8
  for (std::size_t i = 0; i < kSums; ++i) {
    sum[i] = load_512(at + i * kBytes);
    each(i * kBytes, sum[i]);
  }
  sum[0] = _mm512_xor_si512(sum[0], _mm512_zextsi128_si512(fold(state, _mm_setzero_si128())));
  for (at += kFoldStep, done += kFoldStep; end - at >= kFoldStep; at += kFoldStep, done += kFoldStep) {
#pragma GCC unroll 8
    for (std::size_t i = 0; i < kSums; ++i) {
      const __m512i bytes = load_512(at + i * kBytes);
      sum[i] = fold_512<4 * kSums>(sum[i], bytes);
      each(done + i * kBytes, bytes);
    }
  }
#pragma GCC unroll 8
  for (std::size_t i = 0; i < 2; ++i) sum[i] = fold_512<8>(sum[i], sum[i + 2]);
  __m512i one = fold_512<4>(sum[0], sum[1]);
  for (; end - at >= static_cast<std::ptrdiff_t>(kBytes); at += kBytes) one = fold_512<4>(one, load_512(at));
  // Its quarters at once, each over those behind it: they wait for each other otherwise.
  constexpr std::uint32_t k1 = power(4), k2 = power(8), k3 = power(12), l1 = power(2), l2 = power(6), l3 = power(10);
  const __m512i by = _mm512_set_epi64(0, 0, l1, k1, l2, k2, l3, k3);
  const __m512i moved =
      _mm512_xor_si512(_mm512_clmulepi64_epi128(one, by, 0x00), _mm512_clmulepi64_epi128(one, by, 0x11));
  const __m256i half = _mm256_xor_si256(_mm512_castsi512_si256(moved), _mm512_extracti64x4_epi64(moved, 1));
  const __m128i front = _mm_xor_si128(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
  return fold_rest(_mm_xor_si128(front, _mm512_extracti32x4_epi32(one, 3)), at, end);
}

}  // namespace weft::wire::crc

#if !defined(__clang__)
#pragma GCC diagnostic pop
#endif

#endif
