// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/wire/icrc.h"

#include <isa-l/crc.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "switch/wire/crc_algebra.h"
#include "switch/wire/crc_fold.h"
#include "switch/wire/icrc_update.h"
#include "switch/wire/payload_crc.h"

namespace weft::wire {
namespace {

/// CRC of the eight bytes of ones that stand for the local route header, in the convention of crc32_gzip_refl().
constexpr std::uint32_t kSeed = 0x2144df1c;

#if defined(__x86_64__)
bool has_avx() noexcept {
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx") != 0;
}
const bool kHasAvx = has_avx();
#endif

/// The library's AVX code leaves the upper halves of vector registers in use, after which every SSE instruction of the
/// whole program, ours and the compiler's, runs at about half its speed until they are cleared.
std::uint32_t crc32(std::uint32_t crc, const std::uint8_t* at, std::size_t bytes) noexcept {
  const std::uint32_t result = crc32_gzip_refl(crc, at, bytes);
#if defined(__x86_64__)
  if (kHasAvx) asm volatile("vzeroupper");
#endif
  return result;
}

/// The difference that setting the bits of `mask` in the word at `at` makes. The mask is in wire order.
FieldEdit masking(const std::uint8_t* frame, std::uint32_t at, std::uint32_t mask, std::uint32_t end) noexcept {
  constexpr std::uint32_t kWord = sizeof(be32);
  const std::uint32_t word = header_at<be32>(frame + at).value();
  return {byte_swap(~word & mask), end - at - kWord};
}

/// What masking changes, in portable code and for any layout.
[[gnu::noinline]] std::uint32_t masking_difference_anywhere(const std::uint8_t* frame, const RoceLayout& f) noexcept {
  constexpr std::uint32_t kClassAndFlow = 0x0fffffff, kHopLimit = 0x000000ff;  // IPv6 words 0 and 1
  constexpr std::uint32_t kTos = 0x00ff0000, kTtlAndChecksum = 0xff00ffff;     // IPv4 words 0 and 2
  constexpr std::uint32_t kUdpChecksum = 0x0000ffff, kResv8a = 0xff000000;
  constexpr std::uint32_t kBthWord1 = sizeof(UdpHeader) + offsetof(Bth, fecn_becn);
  const std::array<FieldEdit, 4> edits{
      masking(frame, f.l3, f.ipv6 ? kClassAndFlow : kTos, f.icrc),
      masking(frame, f.l3 + (f.ipv6 ? 4 : 8), f.ipv6 ? kHopLimit : kTtlAndChecksum, f.icrc),
      masking(frame, f.l4 + 4, kUdpChecksum, f.icrc),
      masking(frame, f.l4 + kBthWord1, kResv8a, f.icrc),
  };
  return icrc_update(0, edits);
}

#if defined(__x86_64__)

__attribute__((target(WEFT_CLMUL))) inline __m128i power_vector(std::uint32_t q) noexcept {
  return _mm_loadu_si32(&crc::kPower[q]);
}

/// The same for a covered part of whole words within the table's reach: two words of the IP header, then two of the 16
/// bytes from the UDP length on, each pair in the low halves of a vector's lanes.
__attribute__((target(WEFT_CLMUL))) inline std::uint32_t masking_difference_clmul(const std::uint8_t* frame,
                                                                                  const RoceLayout& f,
                                                                                  std::uint32_t words) noexcept {
  const __m128i ip_mask = f.ipv6 ? _mm_setr_epi32(static_cast<int>(0xffffff0f), static_cast<int>(0xff000000), 0, 0)
                                 : _mm_setr_epi32(0x0000ff00, 0, static_cast<int>(0xffff00ff), 0);
  const __m128i transport_mask = _mm_setr_epi32(static_cast<int>(0xffff0000), 0, 0x000000ff, 0);
  __m128i ip = _mm_loadu_si128(reinterpret_cast<const __m128i*>(frame + f.l3));
  ip = _mm_andnot_si128(ip, ip_mask);
  if (f.ipv6) ip = _mm_unpacklo_epi32(ip, _mm_setzero_si128());
  __m128i transport = _mm_loadu_si128(reinterpret_cast<const __m128i*>(frame + f.l4 + 4));
  transport = _mm_andnot_si128(transport, transport_mask);

  const std::uint32_t ip_at = words - 1;
  const std::uint32_t transport_at = ip_at - (f.l4 + 4 - f.l3) / 4;
  const __m128i a = _mm_clmulepi64_si128(ip, power_vector(ip_at), 0x00);
  const __m128i b = _mm_clmulepi64_si128(ip, power_vector(ip_at - (f.ipv6 ? 1 : 2)), 0x01);
  const __m128i c = _mm_clmulepi64_si128(transport, power_vector(transport_at), 0x00);
  const __m128i d = _mm_clmulepi64_si128(transport, power_vector(transport_at - 2), 0x01);
  return crc::reduce(_mm_xor_si128(_mm_xor_si128(a, b), _mm_xor_si128(c, d)));
}

#endif

/// What masking changes. One pass of the CRC library over the packet as it is, and the differences in parallel to it,
/// are faster than a masked copy of the headers, whose CRC the one of the payload would have to wait for.
std::uint32_t masking_difference(const std::uint8_t* frame, const RoceLayout& f) noexcept {
#if defined(__x86_64__)
  const std::uint32_t bytes = f.icrc - f.l3;
  if (crc::kHasClmul && bytes % 4 == 0 && bytes <= crc::kTableWords * 4) [[likely]] {
    return masking_difference_clmul(frame, f, bytes / 4);
  }
#endif
  return masking_difference_anywhere(frame, f);
}

/// ICRC of a packet of any length.
[[gnu::noinline]] std::uint32_t icrc_by_library(const std::uint8_t* frame, const RoceLayout& f) noexcept {
  const std::uint32_t difference = masking_difference(frame, f);
  return crc32(kSeed, frame + f.l3, f.icrc - f.l3) ^ difference;
}

#if defined(__x86_64__)

/// Folds what is behind the headers, where the CPU has more than carry-less products of 128 bits.
const crc::FoldRun kFoldRun = crc::fold_run();

/// Packets of up to so many bytes are summed here, masked on the way: to the library's time comes what masking changes,
/// which is the time of 100 bytes and too much for packets of less than ten times that. With wider instructions all
/// are.
const std::uint32_t kOwnBytes = kFoldRun != nullptr ? UINT32_MAX : 1536;
constexpr std::uint32_t kBlock = 16;

/// For packets whose first block begins a number of bytes before the covered part.
struct alignas(8 * kBlock) Masks {
  using Bytes = std::array<std::uint8_t, kBlock>;
  Bytes keep{}, set{};          ///< first block: what remains, and then the bits to add, the state's included
  std::array<Bytes, 4> ones{};  ///< the blocks behind it: bits that count as ones
};
constexpr Masks make_masks(bool ipv6, std::uint32_t early) noexcept {
  std::array<std::uint8_t, 5 * kBlock> ones{};
  const std::uint32_t udp = early + (ipv6 ? sizeof(Ipv6Header) : sizeof(Ipv4Header));
  if (ipv6) {
    ones[early] = 0x0f;
    for (const std::uint32_t at : {1U, 2U, 3U, 7U}) ones[early + at] = 0xff;
  } else {
    for (const std::uint32_t at : {1U, 8U, 10U, 11U}) ones[early + at] = 0xff;
  }
  for (const std::uint32_t at : {6U, 7U, 12U}) ones[udp + at] = 0xff;
  Masks m;
  for (std::uint32_t i = early; i < kBlock; ++i) {
    m.keep[i] = static_cast<std::uint8_t>(~ones[i]);
    m.set[i] = ones[i];
    if (i < early + sizeof kSeed) m.set[i] ^= static_cast<std::uint8_t>(~kSeed >> 8 * (i - early));
  }
  for (std::uint32_t i = kBlock; i < ones.size(); ++i) m.ones[i / kBlock - 1][i % kBlock] = ones[i];
  return m;
}
constexpr std::array<std::array<Masks, 4>, 2> kMasks = [] {
  std::array<std::array<Masks, 4>, 2> all;
  for (std::uint32_t i = 0; i < 8; ++i) all[i / 4][i % 4] = make_masks(i / 4 != 0, i % 4 * 4);
  return all;
}();

__attribute__((target(WEFT_CLMUL))) inline __m128i load(const std::uint8_t* at) noexcept {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(at));
}

__attribute__((target(WEFT_CLMUL))) inline __m128i fold_masked(__m128i state, const std::uint8_t* at,
                                                               const Masks::Bytes& ones) noexcept {
  return crc::fold(state, _mm_or_si128(load(at), load(ones.data())));
}

__attribute__((target(WEFT_CLMUL))) inline std::uint32_t finish_in_turn(__m128i state, const std::uint8_t* at,
                                                                        const std::uint8_t* end) noexcept {
  for (; at != end; at += kBlock) state = crc::fold(state, load(at));
  return ~crc::finish(state);
}

/// The same with four sums side by side, as one waits for itself at each block.
constexpr std::uint32_t kSums = 4;
__attribute__((target(WEFT_CLMUL), noinline)) std::uint32_t finish_by_four(__m128i a, const std::uint8_t* at,
                                                                           const std::uint8_t* end) noexcept {
  __m128i b = load(at), c = load(at + kBlock), d = load(at + 2 * kBlock);
  for (at += (kSums - 1) * kBlock; end - at >= kSums * kBlock; at += kSums * kBlock) {
    a = crc::fold<kSums>(a, load(at));
    b = crc::fold<kSums>(b, load(at + kBlock));
    c = crc::fold<kSums>(c, load(at + 2 * kBlock));
    d = crc::fold<kSums>(d, load(at + 3 * kBlock));
  }
  return finish_in_turn(crc::fold(crc::fold(crc::fold(a, b), c), d), at, end);
}

__attribute__((target(WEFT_CLMUL))) std::uint32_t crc_of_blocks(const std::uint8_t* at,
                                                                const std::uint8_t* end) noexcept {
  return crc::finish(kFoldRun(load(at), at + kBlock, end));
}

/// ICRC of a packet of any length. Blocks end where the covered part does, so the first may begin in the Ethernet
/// header, whose bytes count as zeros, which no CRC sees in front.
__attribute__((target(WEFT_CLMUL))) std::uint32_t icrc_clmul(const std::uint8_t* frame, const RoceLayout& f) noexcept {
  const std::uint32_t bytes = f.icrc - f.l3;
  const bool options = f.l4 - f.l3 != (f.ipv6 ? sizeof(Ipv6Header) : sizeof(Ipv4Header));
  if (bytes > kOwnBytes || bytes % 4 != 0 || options || f.l3 < kBlock - 4) return icrc_by_library(frame, f);

  const std::uint32_t early = (f.l3 - f.icrc) % kBlock;
  const Masks& masks = kMasks[f.ipv6 ? 1 : 0][early / 4];
  const std::uint8_t* at = frame + f.l3 - early;
  const std::uint8_t* const end = frame + f.icrc;
  __m128i state = _mm_xor_si128(_mm_and_si128(load(at), load(masks.keep.data())), load(masks.set.data()));
  state = fold_masked(state, at + kBlock, masks.ones[0]);
  state = fold_masked(state, at + 2 * kBlock, masks.ones[1]);
  at += 3 * kBlock;
  if (f.ipv6) {
    state = fold_masked(state, at, masks.ones[2]);
    at += kBlock;
    if (at != end) {
      state = fold_masked(state, at, masks.ones[3]);
      at += kBlock;
    }
  }
  if (end - at >= crc::kFoldStep && kFoldRun != nullptr) return ~crc::finish(kFoldRun(state, at, end));
  if (end - at >= (2 * kSums - 1) * kBlock) return finish_by_four(state, at, end);
  return finish_in_turn(state, at, end);
}

#endif

}  // namespace

std::uint32_t icrc_full(const std::uint8_t* frame, const RoceLayout& layout) noexcept {
#if defined(__x86_64__)
  if (crc::kHasClmul) return icrc_clmul(frame, layout);
#endif
  return icrc_by_library(frame, layout);
}

std::uint32_t payload_crc(std::span<const std::uint8_t> bytes) noexcept {
#if defined(__x86_64__)
  if (kFoldRun != nullptr && bytes.size() >= kBlock + crc::kFoldStep && bytes.size() % kBlock == 0) {
    return crc_of_blocks(bytes.data(), bytes.data() + bytes.size());
  }
#endif
  return ~crc32(~std::uint32_t{0}, bytes.data(), bytes.size());
}

std::uint32_t icrc_of_head(const std::uint8_t* head, const RoceLayout& layout, std::uint32_t payload) noexcept {
  RoceLayout headers = layout;
  headers.icrc -= payload;
  // Their register, moved over the payload.
  const FieldEdit moved{~icrc_full(head, headers), payload - static_cast<std::uint32_t>(sizeof(be32))};
  return ~icrc_update(0, {&moved, 1});
}

IcrcCalculator::IcrcCalculator(std::span<const std::uint8_t> head, const RoceLayout& layout) noexcept
    : crc_(kSeed), remaining_(layout.icrc - layout.l3), difference_(masking_difference(head.data(), layout)) {
  add(head.subspan(layout.l3));
}

void IcrcCalculator::add(std::span<const std::uint8_t> piece) noexcept {
  const std::size_t bytes = std::min<std::size_t>(piece.size(), remaining_);
  if (bytes == 0) return;
  crc_ = crc32(crc_, piece.data(), bytes);
  remaining_ -= static_cast<std::uint32_t>(bytes);
}

}  // namespace weft::wire
