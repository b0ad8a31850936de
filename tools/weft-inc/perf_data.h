// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Vectors for measurements whose results every rank can compute alone, in every type and operation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "collectives/comm/weft_inc.h"

namespace weft::inc_tool {

/// Most ranks with which all results are exact: elements are at most 3, and bf16 holds whole numbers up to 256.
inline constexpr std::uint32_t kMaxCheckedRanks = 85, kMaxCheckedProdRanks = 8;

/// Names of nccl-tests (float, half, bfloat16, double, int32...) and of weft (fp32, fp16...).
[[nodiscard]] std::optional<weft_inc_type> perf_type(std::string_view name);
[[nodiscard]] std::optional<weft_inc_op> perf_op(std::string_view name);
[[nodiscard]] std::optional<weft_inc_primitive> perf_primitive(std::string_view name);
/// As nccl-tests prints it.
[[nodiscard]] std::string_view nccl_name(weft_inc_type type);

/// What a rank gives: `count` elements, from number `first` of its vector on.
void fill(weft_inc_type type, std::uint32_t rank, std::uint64_t first, std::uint64_t count, void* out);
/// How many elements are not what the collective makes of all ranks' vectors.
/// @param first  number of the first element in the vector that is reduced
[[nodiscard]] std::uint64_t wrong_reduced(weft_inc_type type, weft_inc_op op, std::uint32_t ranks, std::uint64_t first,
                                          std::uint64_t count, const void* got);
/// How many elements are not those of a rank.
[[nodiscard]] std::uint64_t wrong_copied(weft_inc_type type, std::uint32_t from, std::uint64_t count, const void* got);

}  // namespace weft::inc_tool
