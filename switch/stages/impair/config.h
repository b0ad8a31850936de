// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// The YAML of the impair stage.
#pragma once

#include <vector>

#include "switch/config/schema/schema.h"
#include "switch/pipeline/stage.h"
#include "switch/pipeline/switch_info.h"
#include "switch/stages/impair/rule.h"

namespace weft::stages {

/// Options of the stage: `rules` and `max_held`.
[[nodiscard]] config::Schema impair_options();

/// What the schema cannot say: port names, jitter within the delay, a burst that lets every frame through.
void check_impair_options(const config::Value& options, const pipeline::SwitchInfo& info,
                          config::Diagnostics& diagnostics);

/// StageType::option_order: out_ports needs the stages that choose the port before this one.
[[nodiscard]] std::vector<pipeline::OptionOrder> impair_order(const config::Value& options);

/// The rules of options that passed both.
[[nodiscard]] std::vector<ImpairRule> make_impair_rules(const config::Value& options, const pipeline::SwitchInfo& info);

}  // namespace weft::stages
