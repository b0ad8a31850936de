// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#pragma once

#include "switch/pipeline/drop_reason.h"

namespace weft::stages {

#define WEFT_DROPS_STRUCT L2Drop
#define WEFT_DROPS_MODULE "l2"
#define WEFT_DROPS_BLOCK 3
#define WEFT_DROPS_LIST "switch/stages/l2/drop_reason.def"
#include "switch/pipeline/declare_drops.h"

}  // namespace weft::stages
