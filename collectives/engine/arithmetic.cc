// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "collectives/engine/arithmetic.h"

#if defined(__x86_64__)
#include <cpuid.h>

#include "collectives/engine/arithmetic_avx2.h"
#include "collectives/engine/arithmetic_avx512.h"
#endif

namespace weft::inc {
namespace {

constexpr std::array<std::string_view, kDataTypes> kTypeNames{"fp32",  "fp16",  "bf16",  "fp64",   "int8",   "int16",
                                                              "int32", "int64", "uint8", "uint16", "uint32", "uint64"};
constexpr std::array<std::size_t, kDataTypes> kTypeBytes{4, 2, 2, 8, 1, 2, 4, 8, 1, 2, 4, 8};
constexpr std::array<std::string_view, kOps> kOpNames{"sum", "min", "max", "prod", "band", "bor", "bxor"};

template <class Enum, std::size_t N>
std::string_view name_of(Enum value, const std::array<std::string_view, N>& names) noexcept {
  const auto at = static_cast<std::size_t>(value);
  return at < N ? names[at] : "?";
}

template <class Enum, std::size_t N>
std::optional<Enum> value_of(std::string_view name, const std::array<std::string_view, N>& names) noexcept {
  for (std::size_t i = 0; i < N; ++i) {
    if (names[i] == name) return static_cast<Enum>(i);
  }
  return std::nullopt;
}

#if defined(__x86_64__)

/// Of x86-64, as its psABI names them.
enum class Level : std::uint8_t { v2, v3, v4 };
Level level_of_cpu() noexcept {
  __builtin_cpu_init();
  // Clang's __builtin_cpu_supports() does not know all of x86-64-v3 by name.
  unsigned a = 0, b = 0, c = 0, d = 0, extended = 0;
  const bool known = __get_cpuid(1, &a, &b, &c, &d) != 0 && __get_cpuid(0x80000001, &a, &b, &extended, &d) != 0;
  if (!known || (c & bit_F16C) == 0 || (extended & bit_LZCNT) == 0 || __builtin_cpu_supports("avx2") == 0 ||
      __builtin_cpu_supports("bmi2") == 0 || __builtin_cpu_supports("fma") == 0) {
    return Level::v2;
  }
  const bool v4 = __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
                  __builtin_cpu_supports("avx512cd") != 0 && __builtin_cpu_supports("avx512dq") != 0 &&
                  __builtin_cpu_supports("avx512vl") != 0;
  return v4 ? Level::v4 : Level::v3;
}
const Level kLevel = level_of_cpu();

#endif

}  // namespace

std::string_view to_string(DataType type) noexcept {
  return name_of(type, kTypeNames);
}
std::string_view to_string(Op op) noexcept {
  return name_of(op, kOpNames);
}
std::optional<DataType> data_type_from(std::string_view name) noexcept {
  return value_of<DataType>(name, kTypeNames);
}
std::optional<Op> op_from(std::string_view name) noexcept {
  return value_of<Op>(name, kOpNames);
}

std::size_t element_bytes(DataType type) noexcept {
  const auto at = static_cast<std::size_t>(type);
  return at < kTypeBytes.size() ? kTypeBytes[at] : 0;
}

std::size_t accumulator_bytes(DataType type) noexcept {
  return type == DataType::fp16 || type == DataType::bf16 ? sizeof(float) : element_bytes(type);
}

const Arithmetic* arithmetic(DataType type, Op op, Overflow overflow) noexcept {
#if defined(__x86_64__)
  if (kLevel == Level::v4) return avx512_arithmetic(type, op, overflow);
  if (kLevel == Level::v3) return avx2_arithmetic(type, op, overflow);
#endif
  return baseline_arithmetic(type, op, overflow);
}

std::array<const Arithmetic*, 3> all_arithmetics(DataType type, Op op, Overflow overflow) noexcept {
  std::array<const Arithmetic*, 3> all{};
  std::size_t count = 0;
#if defined(__x86_64__)
  if (kLevel >= Level::v4) all[count++] = avx512_arithmetic(type, op, overflow);
  if (kLevel >= Level::v3) all[count++] = avx2_arithmetic(type, op, overflow);
#endif
  all[count] = baseline_arithmetic(type, op, overflow);
  return all;
}

}  // namespace weft::inc
