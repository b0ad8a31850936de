// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "collectives/engine/checked_loops.h"

#include "switch/wire/crc_fold_loops.h"

namespace weft::inc {

#if defined(__x86_64__)

namespace {

namespace crc = wire::crc;

const std::uint8_t* octets(const std::byte* bytes) noexcept {
  return reinterpret_cast<const std::uint8_t*>(bytes);
}

static_assert(kCheckedStep == crc::kFoldStep);

// --- 256 bits -----------------------------------------------------------------------------------------------------

struct Load256 {
  std::byte* to;
  __attribute__((target(WEFT_FOLD_256))) void operator()(std::size_t at, __m256i packet) const noexcept {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + at), packet);
  }
};
struct SumFloats256 {
  std::byte* to;
  const std::byte* slot;
  __attribute__((target(WEFT_FOLD_256))) void operator()(std::size_t at, __m256i packet) const noexcept {
    const __m256 before = _mm256_loadu_ps(reinterpret_cast<const float*>(slot + at));
    _mm256_storeu_ps(reinterpret_cast<float*>(to + at), _mm256_add_ps(before, _mm256_castsi256_ps(packet)));
  }
};
struct SumWords256 {
  std::byte* to;
  const std::byte* slot;
  __attribute__((target(WEFT_FOLD_256))) void operator()(std::size_t at, __m256i packet) const noexcept {
    const __m256i before = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(slot + at));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + at), _mm256_add_epi32(before, packet));
  }
};

struct Fold256 {
  using Load = Load256;
  using SumFloats = SumFloats256;
  using SumWords = SumWords256;
  template <class Each>
  __attribute__((target(WEFT_FOLD_256))) static std::uint32_t run(const std::byte* packet, std::size_t bytes,
                                                                  Each each) noexcept {
    return crc::finish(crc::fold_each_256(_mm_setzero_si128(), octets(packet), octets(packet) + bytes, each));
  }
};

// --- 512 bits -----------------------------------------------------------------------------------------------------

struct Load512 {
  std::byte* to;
  __attribute__((target(WEFT_FOLD_512))) void operator()(std::size_t at, __m512i packet) const noexcept {
    _mm512_storeu_si512(to + at, packet);
  }
};
struct SumFloats512 {
  std::byte* to;
  const std::byte* slot;
  __attribute__((target(WEFT_FOLD_512))) void operator()(std::size_t at, __m512i packet) const noexcept {
    const __m512 before = _mm512_loadu_ps(slot + at);
    _mm512_storeu_ps(to + at, _mm512_add_ps(before, _mm512_castsi512_ps(packet)));
  }
};
struct SumWords512 {
  std::byte* to;
  const std::byte* slot;
  __attribute__((target(WEFT_FOLD_512))) void operator()(std::size_t at, __m512i packet) const noexcept {
    _mm512_storeu_si512(to + at, _mm512_add_epi32(_mm512_loadu_si512(slot + at), packet));
  }
};

struct Fold512 {
  using Load = Load512;
  using SumFloats = SumFloats512;
  using SumWords = SumWords512;
  template <class Each>
  __attribute__((target(WEFT_FOLD_512))) static std::uint32_t run(const std::byte* packet, std::size_t bytes,
                                                                  Each each) noexcept {
    return crc::finish(crc::fold_each_512(_mm_setzero_si128(), octets(packet), octets(packet) + bytes, each));
  }
};

// --- by type ------------------------------------------------------------------------------------------------------

template <class Fold>
std::uint32_t load(std::byte* to, const std::byte* packet, std::size_t bytes) noexcept {
  return Fold::run(packet, bytes, typename Fold::Load{to});
}
template <class Fold, class Sum>
std::uint32_t combine(std::byte* to, const std::byte* slot, const std::byte* packet, std::size_t bytes) noexcept {
  return Fold::run(packet, bytes, Sum{to, slot});
}

/// Both kinds of sums.
struct Sums {
  CheckedLoops floats, words;
};
template <class Fold>
constexpr Sums kSums{{load<Fold>, combine<Fold, typename Fold::SumFloats>},
                     {load<Fold>, combine<Fold, typename Fold::SumWords>}};

const Sums* sums_of_cpu() noexcept {
  if (crc::fold_run_512() != nullptr) return &kSums<Fold512>;
  return crc::fold_run_256() != nullptr ? &kSums<Fold256> : nullptr;
}
const Sums* const kSumsOfCpu = sums_of_cpu();

}  // namespace

const CheckedLoops* checked_loops(DataType type, Op op, Overflow overflow) noexcept {
  if (op != Op::sum || kSumsOfCpu == nullptr) return nullptr;
  if (type == DataType::fp32) return &kSumsOfCpu->floats;
  const bool words = type == DataType::int32 || type == DataType::uint32;
  return words && overflow == Overflow::wrap ? &kSumsOfCpu->words : nullptr;
}

#else

const CheckedLoops* checked_loops(DataType, Op, Overflow) noexcept {
  return nullptr;
}

#endif

}  // namespace weft::inc
