// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#pragma once

#include "switch/pipeline/drop_reason.h"

namespace weft::inc {

#define WEFT_DROPS_STRUCT IncDrop
#define WEFT_DROPS_MODULE "inc"
#define WEFT_DROPS_BLOCK 8
#define WEFT_DROPS_LIST "collectives/stage/drop_reason.def"
#include "switch/pipeline/declare_drops.h"

}  // namespace weft::inc
