// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#pragma once

#include <atomic>
#include <cstdint>

namespace weft::qos {

/// A number of bytes or packets that goes up and down and that any thread may read. With kShared several threads change
/// it, and no change is lost; without, one does, at the price of a load and a store.
class Gauge {
 public:
  [[nodiscard]] std::uint64_t value() const noexcept { return value_.load(std::memory_order_relaxed); }
  void set(std::uint64_t v) noexcept { value_.store(v, std::memory_order_relaxed); }

  /// Both return what it was before.
  template <bool kShared>
  std::uint64_t add(std::uint64_t n) noexcept {
    if constexpr (kShared) return value_.fetch_add(n, std::memory_order_relaxed);
    const std::uint64_t before = value();
    set(before + n);
    return before;
  }
  template <bool kShared>
  std::uint64_t subtract(std::uint64_t n) noexcept {
    return add<kShared>(std::uint64_t{0} - n);
  }

  /// Takes up to `n` away and returns how much it was.
  template <bool kShared>
  std::uint64_t take(std::uint64_t n) noexcept {
    std::uint64_t before = value();
    while (before != 0) {
      const std::uint64_t taken = before < n ? before : n;
      if constexpr (kShared) {
        if (!value_.compare_exchange_weak(before, before - taken, std::memory_order_relaxed)) continue;
      } else {
        set(before - taken);
      }
      return taken;
    }
    return 0;
  }

  /// A watermark: becomes n where it was less. Threads that meet may leave the smaller of two new peaks.
  void raise(std::uint64_t n) noexcept {
    if (n > value()) [[unlikely]]
      set(n);
  }

 private:
  std::atomic<std::uint64_t> value_{0};
};

}  // namespace weft::qos
