// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/stages/stages.h"

#include "switch/stages/impair.h"
#include "switch/stages/l2.h"
#include "switch/stages/parse.h"

namespace weft::stages {

void register_all(pipeline::Registry& registry) {
  registry.add(parse_stage_type());
  registry.add(impair_stage_type());
  registry.add(l2_stage_type());
}

}  // namespace weft::stages
