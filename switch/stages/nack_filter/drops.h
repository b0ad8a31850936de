// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#pragma once

#include "switch/pipeline/drop_reason.h"

namespace weft::stages {

#define WEFT_DROPS_STRUCT NackDrop
#define WEFT_DROPS_MODULE "nack_filter"
#define WEFT_DROPS_BLOCK 6
#define WEFT_DROPS_LIST "switch/stages/nack_filter/drop_reason.def"
#include "switch/pipeline/declare_drops.h"

}  // namespace weft::stages
