// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#pragma once

#include <bit>
#include <cstdint>

namespace weft {

/// Numbers of workers of a process.
class WorkerSet {
 public:
  /// Most workers of a process.
  static constexpr std::uint16_t kMost = 64;

  constexpr WorkerSet() = default;
  constexpr explicit WorkerSet(std::uint64_t bits) noexcept : bits_(bits) {}
  /// The workers 0 to `count` - 1.
  [[nodiscard]] static constexpr WorkerSet first(std::uint16_t count) noexcept {
    return WorkerSet(count >= kMost ? ~std::uint64_t{0} : bit(count) - 1);
  }

  constexpr void add(std::uint16_t worker) noexcept { bits_ |= bit(worker); }
  constexpr void add(WorkerSet others) noexcept { bits_ |= others.bits_; }
  [[nodiscard]] constexpr bool empty() const noexcept { return bits_ == 0; }
  [[nodiscard]] constexpr bool has(std::uint16_t worker) const noexcept { return (bits_ & bit(worker)) != 0; }
  [[nodiscard]] constexpr std::uint64_t bits() const noexcept { return bits_; }

  /// Calls f(worker) for each, from the lowest on.
  template <typename F>
  constexpr void for_each(F&& f) const {
    for (std::uint64_t left = bits_; left != 0; left &= left - 1) f(static_cast<std::uint16_t>(std::countr_zero(left)));
  }

 private:
  static constexpr std::uint64_t bit(std::uint16_t worker) noexcept { return std::uint64_t{1} << worker; }

  std::uint64_t bits_ = 0;
};

}  // namespace weft
