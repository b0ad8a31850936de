// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "collectives/engine/arithmetic_avx2.h"

#include "collectives/engine/arithmetic_loops.h"

namespace weft::inc {

const Arithmetic* avx2_arithmetic(DataType type, Op op, Overflow overflow) noexcept {
  return find_loops(type, op, overflow);
}

}  // namespace weft::inc
