// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// PAUSE and PFC frames on their way between two workers.
#pragma once

#include <rte_mbuf.h>

#include <cstdint>

#include "switch/base/spsc_ring.h"
#include "switch/pipeline/packet.h"

namespace weft {

/// PAUSE and PFC frames from the worker that received them to the owner of their ports. However many come while that
/// one stands still, it learns in the end what the last of them said of each port and priority: frames that find no
/// room in the ring wait with the sender, one PAUSE and one PFC frame per port, which says what later ones say.
class ControlRing {
 public:
  static constexpr std::uint32_t kCapacity = 64;

  // The sending worker.

  /// False when the frame stays the caller's, who needs not keep it: what it says has been written into one that waits,
  /// or there is no room and it says nothing (neither PAUSE nor PFC, too short, no class enabled).
  [[nodiscard]] bool push(rte_mbuf* m) noexcept;
  /// Moves frames that wait into the ring as far as it has room; returns how many.
  std::uint32_t retry() noexcept;
  /// Whether frames wait for room.
  [[nodiscard]] bool waits() const noexcept { return first_ != nullptr; }

  // The receiving worker.

  /// Up to `max` of the oldest frames in the ring; returns how many.
  std::uint32_t pop(rte_mbuf** frames, std::uint32_t max) noexcept { return ring_.pop(frames, max); }

  // While no other thread uses it: reloads.

  /// Takes everything out, oldest first, and calls f with each.
  template <typename F>
  void drain(F&& f) {
    ring_.drain(f);
    while (rte_mbuf* m = first_) {
      take_first();
      f(m);
    }
  }
  /// Puts frames of drain() back, in their order.
  void push(rte_mbuf* const* frames, std::uint32_t count) noexcept;

 private:
  static rte_mbuf* next(rte_mbuf* m) noexcept { return reinterpret_cast<rte_mbuf*>(pipeline::scratch(m)); }
  void wait(rte_mbuf* m) noexcept;
  void take_first() noexcept { first_ = next(first_); }

  SpscRing<rte_mbuf*, kCapacity> ring_;
  // Frames that wait, linked by their scratch(). The sender's.
  rte_mbuf* first_ = nullptr;
  rte_mbuf* last_ = nullptr;  ///< undefined while none waits
};

}  // namespace weft
