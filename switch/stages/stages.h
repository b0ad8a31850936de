// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#pragma once

#include "switch/pipeline/registry.h"

namespace weft::stages {

/// Adds every stage type of the switch.
void register_all(pipeline::Registry& registry);

}  // namespace weft::stages
