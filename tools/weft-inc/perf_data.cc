// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "tools/weft-inc/perf_data.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "collectives/comm/whole_number.h"

namespace weft::inc_tool {
namespace {

constexpr std::uint64_t kPeriod = 3;
constexpr std::array<std::string_view, 12> kNcclNames{"float", "half",  "bfloat16", "double", "int8",   "int16",
                                                      "int32", "int64", "uint8",    "uint16", "uint32", "uint64"};

/// 1, 2 or 3.
std::int64_t value(std::uint32_t rank, std::uint64_t element) {
  return static_cast<std::int64_t>(1 + (element + rank) % kPeriod);
}

/// The bits of a small whole number, or of an integer that has wrapped.
std::uint64_t element(weft_inc_type type, std::int64_t v) {
  return inc::element_bits(static_cast<inc::DataType>(type), v);
}

std::int64_t reduced(weft_inc_op op, std::uint32_t ranks, std::uint64_t number) {
  std::int64_t all = value(0, number);
  for (std::uint32_t r = 1; r < ranks; ++r) {
    const std::int64_t v = value(r, number);
    switch (op) {
      case WEFT_INC_SUM:
        all += v;
        break;
      case WEFT_INC_PROD:
        all *= v;
        break;
      case WEFT_INC_MIN:
        all = std::min(all, v);
        break;
      case WEFT_INC_MAX:
        all = std::max(all, v);
        break;
      case WEFT_INC_BAND:
        all &= v;
        break;
      case WEFT_INC_BOR:
        all |= v;
        break;
      case WEFT_INC_BXOR:
        all ^= v;
        break;
    }
  }
  return all;
}

std::uint64_t differences(weft_inc_type type, const std::array<std::uint64_t, kPeriod>& right, std::uint64_t first,
                          std::uint64_t count, const void* got) {
  const std::size_t bytes = weft_inc_type_bytes(type);
  const auto* p = static_cast<const std::uint8_t*>(got);
  std::uint64_t wrong = 0;
  // Little endian: the low bytes come first.
  for (std::uint64_t i = 0; i < count; ++i)
    wrong += std::memcmp(p + i * bytes, &right[(first + i) % kPeriod], bytes) != 0;
  return wrong;
}

}  // namespace

std::string_view nccl_name(weft_inc_type type) {
  return kNcclNames[static_cast<std::size_t>(type)];
}

std::optional<weft_inc_type> perf_type(std::string_view name) {
  for (std::size_t i = 0; i < kNcclNames.size(); ++i) {
    const auto type = static_cast<weft_inc_type>(i);
    if (kNcclNames[i] == name || weft_inc_type_name(type) == name) return type;
  }
  return std::nullopt;
}

std::optional<weft_inc_op> perf_op(std::string_view name) {
  for (int i = WEFT_INC_SUM; i <= WEFT_INC_BXOR; ++i) {
    if (weft_inc_op_name(static_cast<weft_inc_op>(i)) == name) return static_cast<weft_inc_op>(i);
  }
  return std::nullopt;
}

std::optional<weft_inc_primitive> perf_primitive(std::string_view name) {
  for (int i = WEFT_INC_ALLREDUCE; i <= WEFT_INC_ALLGATHER; ++i) {
    if (weft_inc_primitive_name(static_cast<weft_inc_primitive>(i)) == name) return static_cast<weft_inc_primitive>(i);
  }
  return std::nullopt;
}

void fill(weft_inc_type type, std::uint32_t rank, std::uint64_t first, std::uint64_t count, void* out) {
  const std::size_t bytes = weft_inc_type_bytes(type);
  std::array<std::uint64_t, kPeriod> all{};
  for (std::uint64_t i = 0; i < kPeriod; ++i) all[i] = element(type, value(rank, i));
  auto* p = static_cast<std::uint8_t*>(out);
  for (std::uint64_t i = 0; i < count; ++i) std::memcpy(p + i * bytes, &all[(first + i) % kPeriod], bytes);
}

std::uint64_t wrong_reduced(weft_inc_type type, weft_inc_op op, std::uint32_t ranks, std::uint64_t first,
                            std::uint64_t count, const void* got) {
  std::array<std::uint64_t, kPeriod> right{};
  for (std::uint64_t i = 0; i < kPeriod; ++i) right[i] = element(type, reduced(op, ranks, i));
  return differences(type, right, first, count, got);
}

std::uint64_t wrong_copied(weft_inc_type type, std::uint32_t from, std::uint64_t count, const void* got) {
  std::array<std::uint64_t, kPeriod> right{};
  for (std::uint64_t i = 0; i < kPeriod; ++i) right[i] = element(type, value(from, i));
  return differences(type, right, 0, count, got);
}

}  // namespace weft::inc_tool
