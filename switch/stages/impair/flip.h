// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#pragma once

#include <rte_mbuf.h>

#include <cstdint>

namespace weft::stages {

/// Flips one bit of a packet, at byte offset * 8 + bit, in whatever segment it lies; bits behind the last byte are left
/// alone. When another packet shares the bytes, the packet is replaced by a copy of its own first.
/// @return the packet, or its replacement; nullptr when no buffer was left: then the packet is as it was.
[[nodiscard]] rte_mbuf* flip_bit(rte_mbuf* m, std::uint32_t bit) noexcept;

}  // namespace weft::stages
