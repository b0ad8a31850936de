// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#pragma once

#include <cstdint>
#include <optional>

#include "switch/base/rng.h"
#include "switch/stages/impair/rule.h"

namespace weft::stages {

/// A bit to flip, as byte offset in the frame * 8 + bit; nullopt when the packet has nothing there (an ACK has no
/// payload). Draws from the source only when it returns a bit.
[[nodiscard]] std::optional<std::uint32_t> pick_corrupt_bit(CorruptWhere where, const ImpairFields& f,
                                                            Rng& rng) noexcept;

}  // namespace weft::stages
