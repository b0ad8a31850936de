// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// How programs that run experiments end, told apart from a crash: 128 and more are the shell's.
#pragma once

namespace weft::experiment {

inline constexpr int kWrongUsage = 2;  ///< wrong arguments, or mistakes in the experiment
inline constexpr int kCannotRun = 3;   ///< no memory, or results that cannot be written
inline constexpr int kUnbalanced = 4;  ///< the run contradicts itself, as with packets unaccounted for
inline constexpr int kIncomplete = 5;  ///< not all transfers ended

}  // namespace weft::experiment
