// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#pragma once

#include "collectives/engine/arithmetic.h"

namespace weft::inc {

/// The loops compiled for AVX-512 (x86-64-v4): to be called only on a CPU that has it.
[[nodiscard]] const Arithmetic* avx512_arithmetic(DataType type, Op op, Overflow overflow) noexcept;

}  // namespace weft::inc
