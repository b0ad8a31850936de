// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#pragma once

#include "switch/pipeline/drop_reason.h"

namespace weft::stages {

#define WEFT_DROPS_STRUCT KernelDrop
#define WEFT_DROPS_MODULE "kernel_punt"
#define WEFT_DROPS_BLOCK 7
#define WEFT_DROPS_LIST "switch/stages/kernel_punt/drop_reason.def"
#include "switch/pipeline/declare_drops.h"

}  // namespace weft::stages
