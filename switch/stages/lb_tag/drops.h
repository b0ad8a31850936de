// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#pragma once

#include "switch/pipeline/drop_reason.h"

namespace weft::stages {

#define WEFT_DROPS_STRUCT LbTagDrop
#define WEFT_DROPS_MODULE "lb_tag"
#define WEFT_DROPS_BLOCK 9
#define WEFT_DROPS_LIST "switch/stages/lb_tag/drop_reason.def"
#include "switch/pipeline/declare_drops.h"

}  // namespace weft::stages
