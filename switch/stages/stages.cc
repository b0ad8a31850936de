// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/stages/stages.h"

#include "switch/stages/bicc/stage.h"
#include "switch/stages/impair/stage.h"
#include "switch/stages/l2/stage.h"
#include "switch/stages/l3/stage.h"
#include "switch/stages/lb/stage.h"
#include "switch/stages/lb_tag/stage.h"
#include "switch/stages/nack_filter/stage.h"
#include "switch/stages/parse/stage.h"
#include "switch/stages/pnp/stage.h"
#include "switch/stages/rdma_track/stage.h"
#include "switch/stages/reorder/stage.h"
#include "switch/stages/telemetry/stage.h"
#include "switch/stages/trp/stage.h"

namespace weft::stages {

void register_all(pipeline::Registry& registry) {
  registry.add(parse_stage_type());
  registry.add(impair_stage_type());
  registry.add(lb_tag_stage_type());
  registry.add(rdma_track_stage_type());
  registry.add(trp_stage_type());
  registry.add(bicc_stage_type());
  registry.add(reorder_stage_type());
  registry.add(nack_filter_stage_type());
  registry.add(pnp_stage_type());
  registry.add(telemetry_stage_type());
  registry.add(l2_stage_type());
  registry.add(l3_stage_type());
  registry.add(lb_stage_type());
}

}  // namespace weft::stages
