// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// The parser's short way for most of what is not RoCE.
#pragma once

#include <cstdint>

#include "switch/wire/parsed.h"

namespace weft::wire {

/// As parse_frame(), for TCP, and UDP but RoCEv2, over untagged IPv4 without options, in one piece and valid.
/// @return false, with `out` untouched, for everything else
[[nodiscard]] bool parse_plain_ipv4(const std::uint8_t* data, std::uint32_t contiguous, std::uint32_t frame_length,
                                    Parsed& out) noexcept;

}  // namespace weft::wire
