// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Collectives whose result everybody can compute alone: what a rank gives follows from its number, so that programs
// that measure can compare all that they receive. Elements are uint32, little endian, and are summed up modulo 2^32.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/comm/rank_progress.h"

namespace weft::inc {

inline constexpr std::uint32_t kTestElementBytes = sizeof(std::uint32_t);

/// A sequence of collectives over vectors of `bytes`.
/// @param name        a primitive's, or "all": allreduce, reduce, broadcast, barrier in turn
/// @param iterations  how often
/// @param root        of Reduce and Broadcast; nullopt: another rank each time
/// @return empty when no primitive has the name
[[nodiscard]] std::vector<ControlMessage> test_program(std::string_view name, std::uint64_t iterations,
                                                       std::uint64_t bytes, std::optional<std::uint32_t> root,
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
