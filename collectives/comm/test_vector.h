// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Collectives whose result everybody can compute alone: what a rank gives follows from its number, so that programs
// that measure can compare all that they receive. Elements are little endian and are summed up: integers modulo 2^bits,
// floating point in whole numbers, which are exact.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/comm/rank_progress.h"

namespace weft::inc {

/// Most ranks whose sums are exact in every type of floating point. Integers wrap, with any number of ranks.
inline constexpr std::uint32_t kMostRanksOfExactSums = 85;

/// The invocations of one collective by name. ReduceScatter and AllGather are a Reduce or a Broadcast for each rank,
/// which is its root, of a fragment of the vector (EPIC appendix A).
struct TestCollective {
  std::string_view name;    ///< a primitive's, reducescatter, allgather; or all: allreduce, reduce, broadcast, barrier
  std::uint64_t bytes = 0;  ///< of the vector; of reducescatter and allgather all fragments, for each rank one
  DataType type = DataType::uint32;
  std::optional<std::uint32_t> root = std::nullopt;  ///< of Reduce and Broadcast; nullopt: another rank each time
};

/// Bytes of which `collective.bytes` is a multiple: an element, or one for each rank.
[[nodiscard]] std::uint64_t test_granule(const TestCollective& collective, std::uint32_t ranks) noexcept;

/// @param iterations  how often
/// @return empty when no collective has the name
[[nodiscard]] std::vector<ControlMessage> test_program(const TestCollective& collective, std::uint64_t iterations,
                                                       std::uint32_t ranks, std::uint32_t group);

/// Writes what a rank sends, from byte `offset` of its vector on. Both sizes are multiples of the element's.
void fill_test_vector(std::uint32_t rank, const ControlMessage& collective, std::uint64_t offset,
                      std::span<std::uint8_t> out) noexcept;

/// Compares a message that a rank has received with what all `ranks` together must have given.
/// @param immediate  nullopt when it came without one
/// @return what differs, in words; empty when nothing does
[[nodiscard]] std::string test_difference(const std::vector<ControlMessage>& program, std::uint32_t ranks,
                                          const RankMessage& message, std::optional<std::uint32_t> immediate,
                                          std::span<const std::uint8_t> payload);

}  // namespace weft::inc
