// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/stages/stages.h"

namespace weft::stages {

// Each is defined in its stage's folder. No header of theirs is included, so that the list alone names them.
#define WEFT_STAGE(name) pipeline::StageType name##_stage_type();
#include "switch/stages/stages.def"
#undef WEFT_STAGE

void register_all(pipeline::Registry& registry) {
#define WEFT_STAGE(name) registry.add(name##_stage_type());
#include "switch/stages/stages.def"
#undef WEFT_STAGE
}

}  // namespace weft::stages
