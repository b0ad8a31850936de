// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Whole numbers as elements of any type: what test data is made of, because sums of them are exact.
#pragma once

#include <bit>
#include <cstdint>

#include "collectives/engine/arithmetic.h"

namespace weft::inc {

/// Whole numbers up to this, of either sign, are exact in the type; for an integer type, which wraps, the most of
/// int64.
[[nodiscard]] constexpr std::int64_t largest_exact(DataType type) noexcept {
  switch (type) {
    case DataType::bf16:
      return std::int64_t{1} << 8;
    case DataType::fp16:
      return std::int64_t{1} << 11;
    case DataType::fp32:
      return std::int64_t{1} << 24;
    case DataType::fp64:
      return std::int64_t{1} << 53;
    default:
      return INT64_MAX;
  }
}

/// The bits of an IEEE 754 binary16. |number| is at most largest_exact(fp16).
[[nodiscard]] constexpr std::uint64_t half_bits(std::int64_t number) noexcept {
  constexpr int kBias = 15, kFractionBits = 10;
  const std::uint64_t sign = number < 0 ? 0x8000 : 0;
  const auto size = static_cast<std::uint64_t>(number < 0 ? -number : number);
  if (size == 0) return 0;
  const int exponent = std::bit_width(size) - 1;
  const std::uint64_t fraction = (size << kFractionBits >> exponent) & 0x3ff;
  return sign | static_cast<std::uint64_t>(exponent + kBias) << kFractionBits | fraction;
}

/// The bits of an element; the low element_bytes(type) bytes of them count. An integer type takes what its bits hold.
/// @param number  at most largest_exact(type), of either sign
[[nodiscard]] constexpr std::uint64_t element_bits(DataType type, std::int64_t number) noexcept {
  switch (type) {
    case DataType::fp32:
      return std::bit_cast<std::uint32_t>(static_cast<float>(number));
    case DataType::bf16:
      return std::bit_cast<std::uint32_t>(static_cast<float>(number)) >> 16;
    case DataType::fp16:
      return half_bits(number);
    case DataType::fp64:
      return std::bit_cast<std::uint64_t>(static_cast<double>(number));
    default:
      return static_cast<std::uint64_t>(number);
  }
}

}  // namespace weft::inc
