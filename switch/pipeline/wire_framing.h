// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// What a frame takes on an emulated wire.
#pragma once

#include <algorithm>
#include <cstdint>

namespace weft::pipeline {

/// What a frame takes on a wire beyond its own bytes, as `overhead` and `mpu` of Linux's tc-cake(8) say it.
struct WireFraming {
  std::int16_t overhead_bytes = 24;  ///< added to each frame: preamble and start 8, FCS 4, gap 12 (IEEE 802.3)
  std::uint16_t mpu_bytes = 84;      ///< the least that a frame takes, all of that included: 802.3 pads to 60

  /// Bytes that a frame takes, at least one.
  [[nodiscard]] constexpr std::uint64_t bytes_of(std::uint32_t frame_bytes) const noexcept {
    const std::int64_t bytes = std::int64_t{frame_bytes} + overhead_bytes;
    return static_cast<std::uint64_t>(std::max<std::int64_t>(bytes, std::max<std::int64_t>(mpu_bytes, 1)));
  }

  friend bool operator==(const WireFraming&, const WireFraming&) = default;
};

}  // namespace weft::pipeline
