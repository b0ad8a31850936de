// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/stages/impair/flip.h"

#include "switch/pipeline/writable.h"

namespace weft::stages {

bool flip_bit(rte_mbuf* m, std::uint32_t bit) noexcept {
  if (!pipeline::has_bytes(m, bit / 8, 1)) return true;
  std::uint8_t* byte = pipeline::writable(m, bit / 8, 1);
  if (byte == nullptr) return false;
  *byte ^= static_cast<std::uint8_t>(1u << (bit % 8));
  return true;
}

}  // namespace weft::stages
