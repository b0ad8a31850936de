// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// What an emulated link keeps under way.
#pragma once

#include <cstdint>

#include "switch/pipeline/wire_framing.h"

namespace weft::pipeline {

/// Packets that an emulated link takes at once, at most. Others wait in front of it.
inline constexpr std::uint64_t kMostUnderWay = 1'000'000;

/// Frames of this size that are on a link at once when its rate is used up.
[[nodiscard]] constexpr std::uint64_t frames_under_way(std::uint64_t rate_mbps, std::uint64_t delay_ns,
                                                       const WireFraming& framing, std::uint32_t frame_bytes) noexcept {
  return rate_mbps * delay_ns / 1000 / (framing.bytes_of(frame_bytes) * 8);
}

}  // namespace weft::pipeline
