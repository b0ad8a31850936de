// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// An ICRC in two parts, of which one depends on the headers alone and one on the payload alone. Their exclusive or is
// the ICRC.
#pragma once

#include <cstdint>
#include <span>

#include "switch/wire/icrc.h"

namespace weft::wire {

/// The ICRC that a frame has when its payload is nothing but zeros.
/// @param head     Ethernet to the last header
/// @param layout   of the whole frame
/// @param payload  bytes of payload, pad included: a multiple of four, and more than none
[[nodiscard]] std::uint32_t icrc_of_head(const std::uint8_t* head, const RoceLayout& layout,
                                         std::uint32_t payload) noexcept;

/// What the payload, pad included, changes of that: the register of the CRC behind these bytes with nothing in front.
[[nodiscard]] std::uint32_t payload_crc(std::span<const std::uint8_t> payload) noexcept;

}  // namespace weft::wire
