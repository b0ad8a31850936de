// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Time on the data path: integer nanoseconds that the host of a pipeline passes in.
#pragma once

#include <cstdint>

namespace weft {

/// Nanoseconds since an arbitrary start that is the same for all workers of a process. Never goes back.
using TimeNs = std::uint64_t;

/// A deadline that never comes.
inline constexpr TimeNs kNever = ~TimeNs{0};

inline constexpr TimeNs kUs = 1'000;
inline constexpr TimeNs kMs = 1'000'000;
inline constexpr TimeNs kSecond = 1'000'000'000;

}  // namespace weft
