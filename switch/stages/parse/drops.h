// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#pragma once

#include "switch/pipeline/drop_reason.h"

namespace weft::stages {

#define WEFT_DROPS_STRUCT ParseDrop
#define WEFT_DROPS_MODULE "parse"
#define WEFT_DROPS_BLOCK 2
#define WEFT_DROPS_LIST "switch/stages/parse/drop_reason.def"
#include "switch/pipeline/declare_drops.h"

}  // namespace weft::stages
