// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// What a sweep of tools/experiment has to know of weft-sim.
#pragma once

#include <string>

#include "switch/pipeline/registry.h"
#include "tools/experiment/sweep.h"

namespace weft::sim {

/// @param text  what the file holds
/// @param registry  outlives the result
[[nodiscard]] experiment::SweepProgram sweep_program(const std::string& text, const std::string& file,
                                                     const pipeline::Registry& registry);

}  // namespace weft::sim
