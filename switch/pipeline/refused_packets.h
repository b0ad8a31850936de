// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#pragma once

#include <array>
#include <cstdint>

#include "switch/pipeline/batch.h"
#include "switch/pipeline/packet.h"
#include "switch/qos/class_map.h"

namespace weft::pipeline {

/// Packets of a port with class queues that have been through the egress half and that its busy device did not take.
/// Pauses hold them back as they hold back what is still in the queues. Packets of one queue stay in order.
///
/// No more are put in while there are some that may be sent. So each time they are of queues of which none is in yet,
/// and a burst for every queue is room enough.
class RefusedPackets {
 public:
  static constexpr std::uint32_t kCapacity = qos::kClasses * Batch::kCapacity;

  [[nodiscard]] bool empty() const noexcept { return size_ == 0; }
  [[nodiscard]] std::uint32_t size() const noexcept { return size_; }
  /// Room for another burst.
  [[nodiscard]] bool has_room() const noexcept { return size_ + Batch::kCapacity <= kCapacity; }

  /// Undefined without room.
  void push(rte_mbuf* const* packets, std::uint32_t count) noexcept {
    for (std::uint32_t i = 0; i < count; ++i) packets_[size_++] = packets[i];
  }

  /// Up to `max` packets of other queues than `blocked`, bit i for queue i; they stay until settle().
  [[nodiscard]] std::uint16_t ready(std::uint8_t blocked, rte_mbuf** out, std::uint16_t max) const noexcept {
    std::uint16_t count = 0;
    for (std::uint32_t i = 0; i < size_ && count < max; ++i) {
      if (is_of(packets_[i], blocked)) continue;
      out[count++] = packets_[i];
    }
    return count;
  }
  /// What became of the packets that ready() has just given: the first `sent` are gone, and `offered` holds what the
  /// others are now, because a device may have rearranged their buffers.
  void settle(std::uint8_t blocked, rte_mbuf* const* offered, std::uint16_t count, std::uint16_t sent) noexcept {
    std::uint32_t kept = 0;
    std::uint16_t seen = 0;
    for (std::uint32_t i = 0; i < size_; ++i) {
      if (seen >= count || is_of(packets_[i], blocked)) {
        packets_[kept++] = packets_[i];
      } else if (seen++ >= sent) {
        packets_[kept++] = offered[seen - 1];
      }
    }
    size_ = kept;
  }

  /// Queues of which there is a packet.
  [[nodiscard]] std::uint8_t queues() const noexcept {
    std::uint32_t queues = 0;
    for (std::uint32_t i = 0; i < size_; ++i) queues |= 1u << queue_of(packets_[i]);
    return static_cast<std::uint8_t>(queues);
  }

  /// Takes a packet of one of `queues`; nullptr when there is none.
  [[nodiscard]] rte_mbuf* take(std::uint8_t queues) noexcept {
    rte_mbuf* m = nullptr;
    if (ready(static_cast<std::uint8_t>(~queues), &m, 1) == 0) return nullptr;
    settle(static_cast<std::uint8_t>(~queues), &m, 1, 1);
    return m;
  }

  /// Calls f with every packet.
  template <typename F>
  void for_each(F&& f) {
    for (std::uint32_t i = 0; i < size_; ++i) f(packets_[i]);
  }

 private:
  static unsigned queue_of(const rte_mbuf* m) noexcept {
    return qos::PacketClass{meta(m).queue_class}.queue();
  }
  static bool is_of(const rte_mbuf* m, std::uint8_t queues) noexcept { return (queues >> queue_of(m) & 1) != 0; }

  std::uint32_t size_ = 0;
  std::array<rte_mbuf*, kCapacity> packets_;
};

}  // namespace weft::pipeline
