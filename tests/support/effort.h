// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#pragma once

#include <cstdint>

namespace weft::testing {

/// Compiled with AddressSanitizer, under which loops of tests take twenty to forty times as long.
#if defined(__SANITIZE_ADDRESS__)
inline constexpr bool kSanitized = true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif
#else
inline constexpr bool kSanitized = false;
#endif

/// Rounds of a test that repeats itself with other random numbers, or for a longer time. The sanitizer sees the same
/// code in a tenth of them.
/// @param plain  without sanitizer, at least 10
[[nodiscard]] constexpr std::uint64_t rounds(std::uint64_t plain) noexcept {
  return kSanitized ? plain / 10 : plain;
}

}  // namespace weft::testing
