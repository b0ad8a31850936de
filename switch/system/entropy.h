// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#pragma once

#include <cstdint>

namespace weft {

/// 64 bits that nobody can guess, for the seed of an Rng or the name of a session. From the system's random source, so
/// it is slow, and no two calls give the same. Any thread. Throws std::exception where the system has no such source.
[[nodiscard]] std::uint64_t fresh_seed();

}  // namespace weft
