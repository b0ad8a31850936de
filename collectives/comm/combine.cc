// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "collectives/comm/combine.h"

#include <algorithm>
#include <array>

namespace weft::inc::comm {

void combine(DataType type, Op op, void* into, const void* from, std::size_t bytes) noexcept {
  const Arithmetic& loops = *arithmetic(type, op);
  auto* to = static_cast<std::byte*>(into);
  const auto* other = static_cast<const std::byte*>(from);
  const std::size_t elements = bytes / loops.element_bytes;
  if (loops.accumulator_bytes == loops.element_bytes) return loops.combine(to, other, elements);
  constexpr std::size_t kPiece = 512;
  alignas(64) std::array<std::byte, kPiece * 8> slot;
  for (std::size_t done = 0; done < elements; done += kPiece) {
    const std::size_t n = std::min(kPiece, elements - done), at = done * loops.element_bytes;
    loops.load(slot.data(), to + at, n);
    loops.combine(slot.data(), other + at, n);
    loops.store(to + at, slot.data(), n);
  }
}

}  // namespace weft::inc::comm
