// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#pragma once

#include <rte_mbuf.h>

#include <cstdint>

namespace weft::stages {

/// Flips one bit of a packet, at byte offset * 8 + bit, in whatever segment it lies; bits behind the last byte are left
/// alone. Other packets that share the byte do not see it.
/// @return false when no packet buffer was left for a byte of its own; the packet is as it was
[[nodiscard]] bool flip_bit(rte_mbuf* m, std::uint32_t bit) noexcept;

}  // namespace weft::stages
