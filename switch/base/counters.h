// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Counters with one writer (the worker) and any reader.
#pragma once

#include <atomic>
#include <cstdint>

namespace weft {

/// A 64-bit counter that exactly one thread increments and any thread may read without tearing. Who sees an increment
/// also sees every increment that happened before it.
class Counter {
 public:
  void add(std::uint64_t n) noexcept {
    value_.store(value_.load(std::memory_order_relaxed) + n, std::memory_order_release);
  }
  [[nodiscard]] std::uint64_t value() const noexcept { return value_.load(std::memory_order_acquire); }
  /// Goes on where another counter stands.
  void carry(const Counter& from) noexcept { add(from.value()); }

 private:
  std::atomic<std::uint64_t> value_{0};
};

/// Packets inside of something whose workers go on meanwhile, from counters. What left is read before what came:
/// nothing leaves without having come before, so the result is at least what was inside between both readings.
/// @param left, came  functions that read and sum up
template <typename Left, typename Came>
[[nodiscard]] std::uint64_t count_inside(Left&& left, Came&& came) {
  const std::uint64_t gone = left();
  return came() - gone;
}

}  // namespace weft
