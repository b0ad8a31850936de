// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Vectors of any type added up on hosts, with the loops of the switch.
#pragma once

#include <cstddef>

#include "collectives/engine/arithmetic.h"

namespace weft::inc::comm {

/// into = into OP from, element by element; `bytes` is a multiple of the element's size. Sums of fp16 and bf16 are made
/// in fp32 and rounded once. The operation exists for the type.
void combine(DataType type, Op op, void* into, const void* from, std::size_t bytes) noexcept;

}  // namespace weft::inc::comm
