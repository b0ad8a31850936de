// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "collectives/stage/stages.h"

#include "collectives/stage/stage.h"

namespace weft::inc {

void register_stages(pipeline::Registry& registry) {
  registry.add(inc_stage_type());
}

}  // namespace weft::inc
