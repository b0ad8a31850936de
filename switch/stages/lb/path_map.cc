// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/stages/lb/path_map.h"

#include <array>
#include <bit>
#include <memory>

#include "switch/tables/ecmp_hash.h"

namespace weft::stages {

HashTier ecmp_tier(std::uint64_t seed, std::uint32_t members) {
  auto hash = std::make_shared<const tables::EcmpHash>(seed);
  return {members, [hash, members](std::uint16_t change) {
            return tables::EcmpHash::member(hash->port_delta(change), members);
          }};
}

std::optional<PathMap> PathMap::build(std::span<const HashTier> tiers) {
  unsigned bits = 0;
  for (const HashTier& tier : tiers) bits += static_cast<unsigned>(std::countr_zero(tier.members));
  if (bits > kPortBits) return std::nullopt;
  const auto path_change = [&](std::uint16_t change) {
    std::uint32_t path = 0;
    unsigned at = 0;
    for (const HashTier& tier : tiers) {
      path |= tier.choice_change(change) << at;
      at += static_cast<unsigned>(std::countr_zero(tier.members));
    }
    return path;
  };
  // Gaussian elimination: for every bit of a path a change of the port that has it as its highest one.
  struct Row {
    std::uint32_t path = 0;
    std::uint16_t change = 0;
  };
  std::array<Row, 32> with_top{};
  for (unsigned bit = 0; bit < kPortBits; ++bit) {
    const auto change = static_cast<std::uint16_t>(1u << bit);
    Row row{path_change(change), change};
    while (row.path != 0) {
      Row& other = with_top[static_cast<std::size_t>(std::bit_width(row.path) - 1)];
      if (other.path == 0) {
        other = row;
        break;
      }
      row.path ^= other.path;
      row.change ^= other.change;
    }
  }
  PathMap map;
  for (std::uint32_t path = 0; path < 1u << bits; ++path) {
    Row left{path, 0};
    while (left.path != 0) {
      const Row& row = with_top[static_cast<std::size_t>(std::bit_width(left.path) - 1)];
      if (row.path == 0) return std::nullopt;
      left.path ^= row.path;
      left.change ^= row.change;
    }
    map.deltas_.push_back(left.change);
  }
  return map;
}

}  // namespace weft::stages
