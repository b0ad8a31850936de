// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#pragma once

#include "collectives/engine/arithmetic.h"

namespace weft::inc {

/// The loops compiled for AVX2, F16C and BMI (x86-64-v3): to be called only on a CPU that has them.
[[nodiscard]] const Arithmetic* avx2_arithmetic(DataType type, Op op, Overflow overflow) noexcept;

}  // namespace weft::inc
