// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Which of N equal-cost paths a packet takes by its PSN (Themis, eq. 1 and 2): Path = (PSN mod N + P_base) mod N. The
// sender's ToR chooses by it (`lb: psn`), the receiver's judges by it (`nack_filter`), so that both take it from here.
#pragma once

#include <cstdint>

#include "switch/wire/types.h"

namespace weft::stages {

/// A number of paths N, 1 to 65535, and remainders by it without a division (Lemire, Kaser and Kurz, "Faster remainder
/// by direct computation", 2019).
class PathCount {
 public:
  constexpr PathCount() = default;
  constexpr explicit PathCount(std::uint32_t paths) noexcept : paths_(paths), inverse_(~std::uint64_t{0} / paths + 1) {}

  [[nodiscard]] constexpr std::uint32_t value() const noexcept { return paths_; }
  /// number mod N, exact for 32 bits.
  [[nodiscard]] constexpr std::uint32_t remainder(std::uint32_t number) const noexcept {
    return static_cast<std::uint32_t>(static_cast<unsigned __int128>(inverse_ * number) * paths_ >> 64);
  }
  /// number / N, exact for 32 bits.
  [[nodiscard]] constexpr std::uint32_t quotient(std::uint32_t number) const noexcept {
    return paths_ == 1 ? number : static_cast<std::uint32_t>(static_cast<unsigned __int128>(inverse_) * number >> 64);
  }
  /// PSN mod N. Packets of one queue pair with equal remainders take the same path.
  [[nodiscard]] constexpr std::uint32_t class_of(wire::Psn psn) const noexcept { return remainder(psn.value()); }
  /// The next PSN of the same class. Where PSNs wrap and N does not divide 2^24 it is less than N further on, or more.
  [[nodiscard]] constexpr wire::Psn next(wire::Psn psn) const noexcept {
    const std::uint32_t sum = psn.value() + paths_;
    return wire::Psn(sum <= wire::Psn::kMask ? sum : class_of(psn));
  }

 private:
  std::uint32_t paths_ = 1;
  std::uint64_t inverse_ = 0;  ///< ceil(2^64 / N), which for N = 1 is 0: every remainder is
};

}  // namespace weft::stages
