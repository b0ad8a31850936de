// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/tables/ecmp_hash.h"

#include <cstddef>
#include <utility>

#include "switch/base/rng.h"
#include "switch/wire/types.h"

namespace weft::tables {
namespace {

using Matrix = std::array<std::uint32_t, 32>;  // columns

// Gaussian elimination: each column must bring a leading bit of its own.
bool invertible(Matrix columns) noexcept {
  for (std::size_t i = 0; i < columns.size(); ++i) {
    if (columns[i] == 0) return false;
    const std::uint32_t lowest = columns[i] & -columns[i];
    for (std::size_t k = i + 1; k < columns.size(); ++k) {
      if ((columns[k] & lowest) != 0) columns[k] ^= columns[i];
    }
  }
  return true;
}

Matrix draw(std::uint64_t seed) noexcept {
  Rng rng(seed);
  Matrix columns;
  do {
    for (auto& column : columns) column = static_cast<std::uint32_t>(rng.next() >> 32);
  } while (!invertible(columns));
  return columns;
}

}  // namespace

EcmpHash::EcmpHash(std::uint64_t seed) : table_(std::make_unique<Table>()) {
  const Matrix columns = draw(seed);
  for (std::size_t bit = 0; bit < columns.size(); ++bit) {
    auto& of_byte = (*table_)[bit / 8];
    for (std::size_t value = 0; value < of_byte.size(); ++value) {
      if ((value >> bit % 8 & 1) != 0) of_byte[value] ^= columns[bit];
    }
  }
}

std::uint32_t EcmpHash::v6(const std::uint8_t* addresses, std::uint64_t ports) const noexcept {
  std::uint32_t c = 0;
  for (std::size_t at = 0; at < 32; at += sizeof(wire::be64)) {
    wire::be64 half;
    __builtin_memcpy(&half, addresses + at, sizeof half);
    c = crc(c, half.value());
  }
  return mix(crc(c, ports));
}

}  // namespace weft::tables
