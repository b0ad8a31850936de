// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "collectives/engine/arithmetic_avx512.h"

#if !defined(__clang__)
// GCC 12 takes the undefined vectors within its own intrinsics for ours.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

#include "collectives/engine/arithmetic_loops.h"

namespace weft::inc {

const Arithmetic* avx512_arithmetic(DataType type, Op op, Overflow overflow) noexcept {
  return find_loops(type, op, overflow);
}

}  // namespace weft::inc
