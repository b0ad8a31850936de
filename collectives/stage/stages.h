// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#pragma once

#include "switch/pipeline/registry.h"

namespace weft::inc {

/// Adds the stages of in-network collectives.
void register_stages(pipeline::Registry& registry);

}  // namespace weft::inc
