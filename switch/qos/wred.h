// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Weighted random early detection, and marking by the same kind of curve (RFC 3168, DCQCN's RED). Thresholds of marks
// and of drops are independent.
#pragma once

#include <cstdint>

#include "switch/qos/settings.h"

namespace weft::qos {

/// A probability by the depth of a queue, without a division per packet.
class Curve {
 public:
  /// Never.
  Curve() = default;
  explicit Curve(const CurveSettings& settings) noexcept;

  /// The probability in units of 2^-64; all ones: certain.
  [[nodiscard]] std::uint64_t at(std::uint64_t bytes) const noexcept {
    // Without branches, which depend on the depth in a way that no predictor knows.
    const std::uint64_t above_min = std::uint64_t{0} - (bytes > min_ ? 1 : 0);
    const std::uint64_t above_max = std::uint64_t{0} - (bytes > max_ ? 1 : 0);
    return ((bytes - min_) * slope_ & above_min) | above_max;
  }
  /// How often the highest probability before max_bytes can be doubled: 2 when it is 0.25 or a little less. Few times
  /// suffice.
  [[nodiscard]] unsigned halvings() const noexcept { return halvings_; }
  /// One trial with 64 uniform bits, and with 2^coins times the probability. `coins` is at most halvings(), and 0
  /// beyond max_bytes.
  [[nodiscard]] bool hit(std::uint64_t bytes, unsigned coins, std::uint64_t random) const noexcept {
    const std::uint64_t p = at(bytes);
    return (static_cast<unsigned>(random < p << coins) | static_cast<unsigned>(p == kCertain)) != 0;
  }
  /// One trial with 64 uniform bits.
  [[nodiscard]] bool hit(std::uint64_t bytes, std::uint64_t random) const noexcept {
    const std::uint64_t p = at(bytes);
    return (static_cast<unsigned>(random < p) | static_cast<unsigned>(p == kCertain)) != 0;
  }
  /// Up to here it never hits.
  [[nodiscard]] std::uint64_t min_bytes() const noexcept { return min_; }
  /// Beyond it always hits.
  [[nodiscard]] std::uint64_t max_bytes() const noexcept { return max_; }

 private:
  static constexpr std::uint64_t kCertain = ~std::uint64_t{0};
  std::uint64_t min_ = kCertain;
  std::uint64_t max_ = kCertain;
  std::uint64_t slope_ = 0;  ///< 2^-64 per byte
  unsigned halvings_ = 0;
};

/// WRED of one queue. Without settings it does nothing.
struct Wred {
  Wred() = default;
  explicit Wred(const WredSettings& settings) noexcept
      : mark(settings.ecn ? Curve(settings.mark) : Curve()),
        drop(settings.drop_by_curve ? Curve(settings.drop) : Curve()),
        ecn(settings.ecn),
        mark_on_arrival(settings.ecn && settings.mark_at == WredSettings::Point::enqueue) {}

  Curve mark, drop;
  bool ecn = false;
  bool mark_on_arrival = false;
};

}  // namespace weft::qos
