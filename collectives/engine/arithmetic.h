// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// What a switch adds up: types of elements, operations, and the loops over packets (EPIC section 4, module
// AggregateData). Elements are in the byte order of the hosts, little endian, as RDMA moves memory as it is.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace weft::inc {

/// The type of an element. The numbers go into the control message and never change.
enum class DataType : std::uint8_t {
  fp32 = 0,
  fp16 = 1,  ///< IEEE 754 binary16
  bf16 = 2,  ///< the upper half of an fp32
  fp64 = 3,
  int8 = 4,
  int16 = 5,
  int32 = 6,
  int64 = 7,
  uint8 = 8,
  uint16 = 9,
  uint32 = 10,
  uint64 = 11,
};
inline constexpr std::size_t kDataTypes = 12;

/// The operation. The numbers go into the control message and never change. `band`, `bor` and `bxor` are MPI_BAND,
/// MPI_BOR and MPI_BXOR: integers only.
enum class Op : std::uint8_t { sum = 0, min = 1, max = 2, prod = 3, band = 4, bor = 5, bxor = 6 };
inline constexpr std::size_t kOps = 7;

/// What an integer SUM or PROD does beyond its range: `wrap` as MPI and C's unsigned types, `saturate` as Tofino's
/// ALUs.
enum class Overflow : std::uint8_t { wrap, saturate };

/// "fp32", "uint16"...; "?" for a value that is no DataType.
[[nodiscard]] std::string_view to_string(DataType type) noexcept;
/// "sum", "band"...; "?" for a value that is no Op.
[[nodiscard]] std::string_view to_string(Op op) noexcept;
[[nodiscard]] std::optional<DataType> data_type_from(std::string_view name) noexcept;
[[nodiscard]] std::optional<Op> op_from(std::string_view name) noexcept;

/// Bytes of one element on the wire; 0 for a value that is no DataType.
[[nodiscard]] std::size_t element_bytes(DataType type) noexcept;
/// Bytes of one element in a slot: 4 for fp16 and bf16, whose sums are kept in fp32 within a switch and rounded once
/// (to nearest, ties to even) when they leave; the element's own size otherwise.
[[nodiscard]] std::size_t accumulator_bytes(DataType type) noexcept;

/// The loops of one type and operation. All take a number of elements, and pointers of any alignment; source and
/// destination may not overlap. Floating point follows IEEE 754 in its default mode. MIN and MAX are the loop that MPI
/// libraries run, `a < b ? a : b` with what is in the slot for a: where one of the two is a NaN, the result is the
/// packet's element.
struct Arithmetic {
  /// slot = packet: the first contribution.
  void (*load)(std::byte* slot, const std::byte* packet, std::size_t elements) noexcept;
  /// slot = slot OP packet.
  void (*combine)(std::byte* slot, const std::byte* packet, std::size_t elements) noexcept;
  /// packet = slot: the result, in the type of the wire.
  void (*store)(std::byte* packet, const std::byte* slot, std::size_t elements) noexcept;
  std::uint8_t element_bytes;
  std::uint8_t accumulator_bytes;
};

/// The fastest loops that this CPU has. nullptr where the operation does not exist for the type (bits of floating
/// point) or a value is no type or operation. `overflow` matters to SUM and PROD of integers only.
[[nodiscard]] const Arithmetic* arithmetic(DataType type, Op op, Overflow overflow = Overflow::wrap) noexcept;

/// The same for every CPU of the baseline; what the faster ones are compared with.
[[nodiscard]] const Arithmetic* baseline_arithmetic(DataType type, Op op, Overflow overflow = Overflow::wrap) noexcept;

/// All that this CPU can run, the fastest first. nullptr: no more of them.
[[nodiscard]] std::array<const Arithmetic*, 3> all_arithmetics(DataType type, Op op,
                                                               Overflow overflow = Overflow::wrap) noexcept;

}  // namespace weft::inc
