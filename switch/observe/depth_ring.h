// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>

#include "switch/base/spsc_ring.h"

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
    if (at_.room(capacity_, 1) == 0) {
      at_.lose(1);
      return {};
    }
    return sample(at_.tail());
  }
  /// What back() gave has been filled.
  void push() noexcept { at_.publish(at_.tail() + 1); }

  // Another one.
  /// The oldest sample; empty when there is none.
  [[nodiscard]] std::span<const std::uint64_t> front() noexcept {
    if (at_.ready(1) == 0) return {};
    return sample(at_.head());
  }
  /// Undefined when it is empty.
  void pop() noexcept { at_.release(at_.head() + 1); }

  [[nodiscard]] std::uint64_t lost() const noexcept { return at_.lost(); }

 private:
  [[nodiscard]] std::span<std::uint64_t> sample(std::uint64_t number) const noexcept {
    return {&memory_[number % capacity_ * values_], values_};
  }

  std::size_t values_;
  std::uint64_t capacity_;
  std::unique_ptr<std::uint64_t[]> memory_;
  SpscPositions at_;
};

}  // namespace weft
