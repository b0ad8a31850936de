// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// CRC-32 of long runs of bytes with carry-less multiplications of 256 and 512 bits (VPCLMULQDQ, since Ice Lake and
// Zen 3). ISA-L 2.30 has only the wider ones, so CPUs without AVX-512 get half of what they can from it.
// (Gopal et al.: Fast CRC Computation for Generic Polynomials Using PCLMULQDQ Instruction, Intel, 2009.)
#pragma once

#include "switch/wire/crc_algebra.h"

#if defined(__x86_64__)

namespace weft::wire::crc {

/// Folds the bytes from `at` to `end` into the 128 bits in front of them, as fold() does block by block.
/// @param at, end  of any alignment, kFoldStep bytes apart at least, and a multiple of 16
using FoldRun = __m128i (*)(__m128i state, const std::uint8_t* at, const std::uint8_t* end) noexcept;

inline constexpr std::ptrdiff_t kFoldStep = 256;

/// Instruction sets by name; none of them can run on every CPU.
[[nodiscard]] FoldRun fold_run_256() noexcept;  ///< AVX2 and VPCLMULQDQ; nullptr when this CPU lacks them
[[nodiscard]] FoldRun fold_run_512() noexcept;  ///< AVX-512 and VPCLMULQDQ; nullptr when this CPU lacks them

/// The widest that this CPU has, nullptr when it has none.
[[nodiscard]] inline FoldRun fold_run() noexcept {
  const FoldRun wide = fold_run_512();
  return wide != nullptr ? wide : fold_run_256();
}

}  // namespace weft::wire::crc

#endif
