// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#pragma once

#include <algorithm>
#include <cassert>
#include <cstdint>

#include "switch/pipeline/packet.h"

namespace weft::pipeline {

/// Packets that leave through the same port.
struct Departure {
  PortIndex port = kNoPort;
  std::uint32_t longest = 0;  ///< bytes of the longest one
  std::uint64_t bytes = 0;    ///< of all

  void add(const rte_mbuf* m) noexcept {
    longest = std::max(longest, m->pkt_len);
    bytes += m->pkt_len;
  }
};

/// A burst of packets on its way through the stages. A burst of one is the scalar case. A stage that takes a packet out
/// (dropped, consumed, held) says so with `remove(i)`; the pipeline closes the gaps after the stage.
struct Batch {
  static constexpr std::uint16_t kCapacity = 64;

  rte_mbuf* packet[kCapacity];
  std::uint16_t size = 0;
  bool departs = false;       ///< `departure` is all of the batch
  std::uint64_t removed = 0;  ///< bit i: packet[i] has left the batch and must not be touched any more
  Departure departure;

  [[nodiscard]] bool full() const noexcept { return size == kCapacity; }
  /// Bit i: there is a packet[i].
  [[nodiscard]] std::uint64_t all() const noexcept {
    return full() ? ~std::uint64_t{0} : (std::uint64_t{1} << size) - 1;
  }
  void push(rte_mbuf* m) noexcept {
    assert(size < kCapacity);
    packet[size++] = m;
    departs = false;
  }
  void remove(std::uint16_t i) noexcept {
    assert(i < size && (removed >> i & 1) == 0);
    removed |= std::uint64_t{1} << i;
    departs = false;
  }
  /// A stage that has decided where all packets go, and reads each of them anyway, adds them up: if it was the last
  /// one, admission need not read them again.
  void depart(const Departure& all) noexcept {
    departure = all;
    departs = true;
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
