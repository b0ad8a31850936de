// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

struct rte_mbuf;

namespace weft {

/// A bounded ring of packets with one sending and one receiving thread, which may be the same.
class SpscRing {
 public:
  static constexpr std::uint32_t kCapacity = 1024;

  /// Takes packets from the front of the array; returns how many found room.
  std::uint16_t push(rte_mbuf** packets, std::uint16_t count) noexcept {
    const std::uint32_t tail = tail_.load(std::memory_order_relaxed);
    const std::uint32_t room = kCapacity - (tail - head_.load(std::memory_order_acquire));
    if (count > room) count = static_cast<std::uint16_t>(room);
    for (std::uint16_t i = 0; i < count; ++i) items_[(tail + i) % kCapacity] = packets[i];
    tail_.store(tail + count, std::memory_order_release);
    return count;
  }

  /// Up to `max` packets; returns how many.
  std::uint16_t pop(rte_mbuf** packets, std::uint16_t max) noexcept {
    const std::uint32_t head = head_.load(std::memory_order_relaxed);
    const std::uint32_t ready = tail_.load(std::memory_order_acquire) - head;
    const auto count = static_cast<std::uint16_t>(ready < max ? ready : max);
    for (std::uint16_t i = 0; i < count; ++i) packets[i] = items_[(head + i) % kCapacity];
    head_.store(head + count, std::memory_order_release);
    return count;
  }

  /// Exact for either user of the ring, a moment's value for others.
  [[nodiscard]] std::uint32_t size() const noexcept {
    // head first: it can only grow towards tail, so the difference is never negative.
    const std::uint32_t head = head_.load(std::memory_order_acquire);
    return tail_.load(std::memory_order_acquire) - head;
  }

 private:
  alignas(64) std::atomic<std::uint32_t> head_{0};
  alignas(64) std::atomic<std::uint32_t> tail_{0};
  alignas(64) std::array<rte_mbuf*, kCapacity> items_{};
};

}  // namespace weft
