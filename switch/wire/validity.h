// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Names and explanations of the rules that parse_frame() checks, for counters, captures and `weftctl`.
#pragma once

#include <string_view>

#include "switch/wire/parsed.h"

namespace weft::wire {

/// The enumerator as spelled, e.g. "roce_truncated".
[[nodiscard]] std::string_view name(Validity v) noexcept;
/// One sentence that says what is wrong with the frame.
[[nodiscard]] std::string_view description(Validity v) noexcept;
/// The enumerator as spelled, e.g. "ipv4_fragment".
[[nodiscard]] std::string_view name(FrameKind k) noexcept;

/// Number of FrameKind values, for tables indexed by it.
inline constexpr std::uint8_t kFrameKindCount = static_cast<std::uint8_t>(FrameKind::roce) + 1;

}  // namespace weft::wire
