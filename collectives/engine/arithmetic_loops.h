// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// The loops behind arithmetic.h, compiled once for each instruction set: by arithmetic_baseline.cc,
// arithmetic_avx2.cc and arithmetic_avx512.cc. All is in an unnamed namespace and calls nothing of the standard
// library, because the linker would keep only one copy of an inline function, and that copy may use instructions that
// the CPU does not have.
#pragma once

#include <cstring>
#include <limits>
#include <type_traits>

#include "collectives/engine/arithmetic.h"
#ifdef __F16C__
#include <immintrin.h>
#endif

namespace weft::inc {
namespace {

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "elements are read in the byte order of this machine");

struct Half {
  std::uint16_t bits;
};
struct Brain {
  std::uint16_t bits;
};

template <class T>
inline T read(const std::byte* from) noexcept {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

template <class T>
inline void write(std::byte* to, T value) noexcept {
  std::memcpy(to, &value, sizeof value);
}

inline float widen(Brain x) noexcept {
  return __builtin_bit_cast(float, static_cast<std::uint32_t>(x.bits) << 16);
}

inline void narrow(float from, Brain& to) noexcept {
  const auto bits = __builtin_bit_cast(std::uint32_t, from);
  // To the nearest, ties to even. A NaN stays a NaN, also when only bits that are cut off say that it is one.
  const std::uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
  const std::uint32_t quiet = (bits >> 16) | 0x40;
  to.bits = static_cast<std::uint16_t>((bits & 0x7fffffff) > 0x7f800000 ? quiet : rounded);
}

inline float widen(Half x) noexcept {
  const std::uint32_t sign = static_cast<std::uint32_t>(x.bits & 0x8000) << 16;
  const std::uint32_t rest = x.bits & 0x7fff;
  if (rest >= 0x7c00) {  // infinity, or a NaN, which becomes quiet as the CPU's instruction has it
    const std::uint32_t quiet = rest > 0x7c00 ? 0x400000 : 0;
    return __builtin_bit_cast(float, sign | 0x7f800000 | (rest & 0x3ff) << 13 | quiet);
  }
  // A subnormal is a multiple of 2^-24.
  if (rest < 0x400) return __builtin_bit_cast(float, sign | __builtin_bit_cast(std::uint32_t, rest * 0x1p-24F));
  return __builtin_bit_cast(float, sign | ((rest << 13) + ((127 - 15) << 23)));
}

inline void narrow(float from, Half& to) noexcept {
  const auto bits = __builtin_bit_cast(std::uint32_t, from);
  const std::uint32_t sign = bits >> 16 & 0x8000;
  const std::uint32_t rest = bits & 0x7fffffff;
  std::uint32_t half;
  if (rest > 0x7f800000) {
    half = 0x7e00 | (rest >> 13 & 0x3ff);
  } else if (rest >= 0x47800000) {  // 65536 and more
    half = 0x7c00;
  } else if (rest < 0x38800000) {
    // A subnormal: adding 0.5 leaves the bits that stay at the end of the fraction, rounded to even.
    half = __builtin_bit_cast(std::uint32_t, __builtin_bit_cast(float, rest) + 0.5F) - 0x3f000000;
  } else {
    half = (rest - (112U << 23) + 0xfff + (rest >> 13 & 1)) >> 13;
  }
  to.bits = static_cast<std::uint16_t>(sign | half);
}

// What is on the wire, and what is in the slot.
template <class Wire>
struct Kept {
  using Slot = Wire;
  static Slot widened(Wire x) noexcept { return x; }
  static Wire narrowed(Slot x) noexcept { return x; }
};
template <class Wire>
struct KeptAsFloat {
  using Slot = float;
  static Slot widened(Wire x) noexcept { return widen(x); }
  static Wire narrowed(Slot x) noexcept {
    Wire out;
    narrow(x, out);
    return out;
  }
};
template <>
struct Kept<Half> : KeptAsFloat<Half> {};
template <>
struct Kept<Brain> : KeptAsFloat<Brain> {};

template <class T, bool = std::is_integral_v<T>>
struct Unsigned {
  using type = T;
};
template <class T>
struct Unsigned<T, true> {
  // At least 32 bits: C++ would make a product of two 16-bit numbers signed.
  using type = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;
};

template <class T>
inline T limit_of(bool low) noexcept {
  return low ? std::numeric_limits<T>::min() : std::numeric_limits<T>::max();
}

// Ranges of 8, 16 and 32 bits fit into 64; a comparison with both limits is what a compiler makes vectors of.
template <class T>
inline T clamped(std::int64_t x) noexcept {
  constexpr auto low = static_cast<std::int64_t>(std::numeric_limits<T>::min());
  constexpr auto high = static_cast<std::int64_t>(std::numeric_limits<T>::max());
  return static_cast<T>(x < low ? low : x > high ? high : x);
}

struct Sum {
  template <class T>
  static T of(T a, T b) noexcept {
    using U = typename Unsigned<T>::type;
    return static_cast<T>(static_cast<U>(a) + static_cast<U>(b));
  }
};
struct Prod {
  template <class T>
  static T of(T a, T b) noexcept {
    using U = typename Unsigned<T>::type;
    return static_cast<T>(static_cast<U>(a) * static_cast<U>(b));
  }
};
struct SaturatingSum {
  template <class T>
  static T of(T a, T b) noexcept {
    if constexpr (sizeof(T) < 8) {
      return clamped<T>(static_cast<std::int64_t>(a) + static_cast<std::int64_t>(b));
    } else {
      T out;
      return __builtin_add_overflow(a, b, &out) ? limit_of<T>(a < 0) : out;
    }
  }
};
struct SaturatingProd {
  template <class T>
  static T of(T a, T b) noexcept {
    if constexpr (sizeof(T) < 4) {
      return clamped<T>(static_cast<std::int64_t>(a) * static_cast<std::int64_t>(b));
    } else {
      T out;
      return __builtin_mul_overflow(a, b, &out) ? limit_of<T>((a < 0) != (b < 0)) : out;
    }
  }
};
struct Min {
  template <class T>
  static T of(T a, T b) noexcept {
    return a < b ? a : b;
  }
};
struct Max {
  template <class T>
  static T of(T a, T b) noexcept {
    return a > b ? a : b;
  }
};
struct Band {
  template <class T>
  static T of(T a, T b) noexcept {
    return static_cast<T>(a & b);
  }
};
struct Bor {
  template <class T>
  static T of(T a, T b) noexcept {
    return static_cast<T>(a | b);
  }
};
struct Bxor {
  template <class T>
  static T of(T a, T b) noexcept {
    return static_cast<T>(a ^ b);
  }
};

#ifdef __AVX2__
/// As many numbers as a register holds, which the operations take as they take one.
#ifdef __AVX512F__
typedef float Floats __attribute__((vector_size(64)));
#else
typedef float Floats __attribute__((vector_size(32)));
#endif
inline constexpr std::size_t kFloats = sizeof(Floats) / sizeof(float);
#endif
#ifdef __F16C__
// So many halves at a time: compilers do not make these instructions of a loop.
#ifdef __AVX512F__
inline Floats widened_halves(const std::byte* from) noexcept {
  return static_cast<Floats>(_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from))));
}
inline void write_halves(std::byte* to, Floats from) noexcept {
  const __m256i halves = _mm512_cvtps_ph(static_cast<__m512>(from), _MM_FROUND_TO_NEAREST_INT);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), halves);
}
#else
inline Floats widened_halves(const std::byte* from) noexcept {
  return static_cast<Floats>(_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from))));
}
inline void write_halves(std::byte* to, Floats from) noexcept {
  const __m128i halves = _mm256_cvtps_ph(static_cast<__m256>(from), _MM_FROUND_TO_NEAREST_INT);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), halves);
}
#endif
#endif

template <class Wire>
void load(std::byte* __restrict slot, const std::byte* __restrict packet, std::size_t elements) noexcept {
  using Slot = typename Kept<Wire>::Slot;
  if constexpr (std::is_same_v<Slot, Wire>) {
    if (elements != 0) std::memcpy(slot, packet, elements * sizeof(Wire));  // memcpy wants pointers even for 0 bytes
    return;
  }
  std::size_t i = 0;
#ifdef __F16C__
  if constexpr (std::is_same_v<Wire, Half>) {
    for (; i + kFloats <= elements; i += kFloats) write(slot + i * sizeof(float), widened_halves(packet + 2 * i));
  }
#endif
  for (; i < elements; ++i) {
    write(slot + i * sizeof(Slot), Kept<Wire>::widened(read<Wire>(packet + i * sizeof(Wire))));
  }
}

template <class Wire, class How>
void combine(std::byte* __restrict slot, const std::byte* __restrict packet, std::size_t elements) noexcept {
  using Slot = typename Kept<Wire>::Slot;
  std::size_t i = 0;
#ifdef __AVX2__
  if constexpr (std::is_same_v<Wire, float>) {
    // Four vectors at a time: the loop that compilers make of one depends on where they put it.
    for (; i + 4 * kFloats <= elements; i += 4 * kFloats) {
      const auto one = [&](std::size_t k) {
        std::byte* const a = slot + (i + kFloats * k) * sizeof(float);
        write(a, How::of(read<Floats>(a), read<Floats>(packet + (i + kFloats * k) * sizeof(float))));
      };
      one(0), one(1), one(2), one(3);
    }
  }
#endif
#ifdef __F16C__
  if constexpr (std::is_same_v<Wire, Half>) {
    for (; i + kFloats <= elements; i += kFloats) {
      std::byte* const a = slot + i * sizeof(float);
      write(a, How::of(read<Floats>(a), widened_halves(packet + 2 * i)));
    }
  }
#endif
  for (; i < elements; ++i) {
    std::byte* const a = slot + i * sizeof(Slot);
    write<Slot>(a, How::of(read<Slot>(a), Kept<Wire>::widened(read<Wire>(packet + i * sizeof(Wire)))));
  }
}

template <class Wire>
void store(std::byte* __restrict packet, const std::byte* __restrict slot, std::size_t elements) noexcept {
  using Slot = typename Kept<Wire>::Slot;
  if constexpr (std::is_same_v<Slot, Wire>) {
    if (elements != 0) std::memcpy(packet, slot, elements * sizeof(Wire));
    return;
  }
  std::size_t i = 0;
#ifdef __F16C__
  if constexpr (std::is_same_v<Wire, Half>) {
    for (; i + kFloats <= elements; i += kFloats) write_halves(packet + 2 * i, read<Floats>(slot + i * sizeof(float)));
  }
#endif
  for (; i < elements; ++i) {
    write(packet + i * sizeof(Wire), Kept<Wire>::narrowed(read<Slot>(slot + i * sizeof(Slot))));
  }
}

template <class Wire, class How>
const Arithmetic* loops() noexcept {
  static constexpr Arithmetic all{load<Wire>, combine<Wire, How>, store<Wire>, sizeof(Wire),
                                  sizeof(typename Kept<Wire>::Slot)};
  return &all;
}

template <class Wire>
const Arithmetic* of_type(Op op, Overflow overflow) noexcept {
  constexpr bool integer = std::is_integral_v<Wire>;
  switch (op) {
    case Op::sum:
      if constexpr (integer) {
        if (overflow == Overflow::saturate) return loops<Wire, SaturatingSum>();
      }
      return loops<Wire, Sum>();
    case Op::prod:
      if constexpr (integer) {
        if (overflow == Overflow::saturate) return loops<Wire, SaturatingProd>();
      }
      return loops<Wire, Prod>();
    case Op::min:
      return loops<Wire, Min>();
    case Op::max:
      return loops<Wire, Max>();
    case Op::band:
      if constexpr (integer) return loops<Wire, Band>();
      break;
    case Op::bor:
      if constexpr (integer) return loops<Wire, Bor>();
      break;
    case Op::bxor:
      if constexpr (integer) return loops<Wire, Bxor>();
      break;
  }
  return nullptr;
}

inline const Arithmetic* find_loops(DataType type, Op op, Overflow overflow) noexcept {
  switch (type) {
    case DataType::fp32:
      return of_type<float>(op, overflow);
    case DataType::fp16:
      return of_type<Half>(op, overflow);
    case DataType::bf16:
      return of_type<Brain>(op, overflow);
    case DataType::fp64:
      return of_type<double>(op, overflow);
    case DataType::int8:
      return of_type<std::int8_t>(op, overflow);
    case DataType::int16:
      return of_type<std::int16_t>(op, overflow);
    case DataType::int32:
      return of_type<std::int32_t>(op, overflow);
    case DataType::int64:
      return of_type<std::int64_t>(op, overflow);
    case DataType::uint8:
      return of_type<std::uint8_t>(op, overflow);
    case DataType::uint16:
      return of_type<std::uint16_t>(op, overflow);
    case DataType::uint32:
      return of_type<std::uint32_t>(op, overflow);
    case DataType::uint64:
      return of_type<std::uint64_t>(op, overflow);
  }
  return nullptr;
}

}  // namespace
}  // namespace weft::inc
