// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/wire/icrc.h"

#include <isa-l/crc.h>

#include <algorithm>
#include <array>
#include <cstddef>

#include "switch/wire/icrc_update.h"

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

/// What masking changes. One pass of the CRC library over the packet as it is, and the differences in parallel to it,
/// are faster than a masked copy of the headers, whose CRC the one of the payload would have to wait for.
std::uint32_t masking_difference(const std::uint8_t* frame, const RoceLayout& f) noexcept {
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

}  // namespace

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
