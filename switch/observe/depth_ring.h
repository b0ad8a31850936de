// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>

namespace weft {

/// Samples, each of the same number of values, from the thread that takes them to the one that writes them out. What
/// finds no room is lost and counted: nobody waits.
class DepthRing {
 public:
  /// @param values  of a sample
  /// @param bytes   of memory; there is room for one sample at least
  DepthRing(std::size_t values, std::size_t bytes)
      : values_(values),
        capacity_(std::max<std::size_t>(bytes / sizeof(std::uint64_t) / values, 1)),
        memory_(std::make_unique<std::uint64_t[]>(capacity_ * values)) {}

  // One thread.
  /// Where the next sample belongs; empty, and counted as lost, when there is no room.
  [[nodiscard]] std::span<std::uint64_t> back() noexcept {
    if (pushed_.load(std::memory_order_relaxed) - popped_.load(std::memory_order_acquire) == capacity_) {
      lost_.store(lost_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
      return {};
    }
    return at(pushed_.load(std::memory_order_relaxed));
  }
  /// What back() gave has been filled.
  void push() noexcept { pushed_.store(pushed_.load(std::memory_order_relaxed) + 1, std::memory_order_release); }

  // Another one.
  /// The oldest sample; empty when there is none.
  [[nodiscard]] std::span<const std::uint64_t> front() const noexcept {
    const std::uint64_t first = popped_.load(std::memory_order_relaxed);
    if (first == pushed_.load(std::memory_order_acquire)) return {};
    return at(first);
  }
  /// Undefined when it is empty.
  void pop() noexcept { popped_.store(popped_.load(std::memory_order_relaxed) + 1, std::memory_order_release); }

  [[nodiscard]] std::uint64_t lost() const noexcept { return lost_.load(std::memory_order_relaxed); }

 private:
  [[nodiscard]] std::span<std::uint64_t> at(std::uint64_t number) const noexcept {
    return {&memory_[number % capacity_ * values_], values_};
  }

  std::size_t values_;
  std::uint64_t capacity_;
  std::unique_ptr<std::uint64_t[]> memory_;
  alignas(64) std::atomic<std::uint64_t> pushed_{0};
  std::atomic<std::uint64_t> lost_{0};
  alignas(64) std::atomic<std::uint64_t> popped_{0};
};

}  // namespace weft
