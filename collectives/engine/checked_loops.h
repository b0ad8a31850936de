// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Loops that add a packet to a slot and compute the packet's CRC in one pass. The CRC is bound by the multiplier and
// the addition by what it reads and writes: together they take hardly longer than the CRC alone.
#pragma once

#include <cstddef>
#include <cstdint>

#include "collectives/engine/arithmetic.h"

namespace weft::inc {

/// The loops of one type and operation, for numbers of bytes that are multiples of kCheckedStep, and more than none.
/// Elements are as wide in a slot as on the wire, and results are those of Arithmetic (of two NaNs either may
/// be the result). `to` overlaps neither of the others: it is good only if the CRC is the right one. Both return
/// wire::payload_crc() of the packet.
struct CheckedLoops {
  /// to = packet: the first contribution.
  std::uint32_t (*load)(std::byte* to, const std::byte* packet, std::size_t bytes) noexcept;
  /// to = slot OP packet.
  std::uint32_t (*combine)(std::byte* to, const std::byte* slot, const std::byte* packet, std::size_t bytes) noexcept;
};
inline constexpr std::size_t kCheckedStep = 256;

/// nullptr where there are none: there are for sums of FP32, and of INT32 and UINT32 that wrap, on CPUs with wide
/// carry-less multiplication.
[[nodiscard]] const CheckedLoops* checked_loops(DataType type, Op op, Overflow overflow) noexcept;

}  // namespace weft::inc
