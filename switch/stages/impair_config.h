// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// The YAML of the impair stage.
#pragma once

#include <vector>

#include "switch/pipeline/schema.h"
#include "switch/pipeline/switch_info.h"
#include "switch/stages/impair_rule.h"

namespace weft::stages {

/// Options of the stage: `rules` and `max_held`.
[[nodiscard]] pipeline::Schema impair_options();

/// What the schema cannot say: port names, jitter within the delay, a burst that lets every frame through, and that
/// out_ports needs a stage that chose the port.
void check_impair_options(const pipeline::Value& options, const pipeline::SwitchInfo& info,
                          pipeline::Diagnostics& diagnostics);

/// The rules of options that passed both.
[[nodiscard]] std::vector<ImpairRule> make_impair_rules(const pipeline::Value& options,
                                                        const pipeline::SwitchInfo& info);

}  // namespace weft::stages
