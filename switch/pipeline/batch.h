// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#pragma once

#include <cassert>
#include <cstdint>

#include "switch/pipeline/packet.h"

namespace weft::pipeline {

/// A burst of packets on its way through the stages. A burst of one is the scalar case. A stage that takes a packet out
/// (dropped, consumed, held) says so with `remove(i)`; the pipeline closes the gaps after the stage.
struct Batch {
  static constexpr std::uint16_t kCapacity = 64;

  rte_mbuf* packet[kCapacity];
  std::uint16_t size = 0;
  std::uint64_t removed = 0;  ///< bit i: packet[i] has left the batch and must not be touched any more

  [[nodiscard]] bool full() const noexcept { return size == kCapacity; }
  /// Bit i: there is a packet[i].
  [[nodiscard]] std::uint64_t all() const noexcept {
    return full() ? ~std::uint64_t{0} : (std::uint64_t{1} << size) - 1;
  }
  void push(rte_mbuf* m) noexcept {
    assert(size < kCapacity);
    packet[size++] = m;
  }
  void remove(std::uint16_t i) noexcept {
    assert(i < size && (removed >> i & 1) == 0);
    removed |= std::uint64_t{1} << i;
  }

  /// Closes the gaps that remove() left, keeping order.
  void compact() noexcept {
    std::uint16_t kept = 0;
    for (std::uint16_t i = 0; i < size; ++i) {
      if ((removed >> i & 1) == 0) packet[kept++] = packet[i];
    }
    size = kept;
    removed = 0;
  }
};

}  // namespace weft::pipeline
