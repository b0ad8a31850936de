// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#pragma once

#include <string>
#include <vector>

#include "switch/pipeline/stage.h"

namespace weft::stages {

/// `weftctl set impair RULE on|off|KEY=VALUE...`: RULE is a name or an index; keys are those of a rule in the
/// configuration, `match.dest_qp` for those inside others, and an empty value takes a key away. What the words would
/// make of the options is checked as a configuration is. The counts of all rules, and the state of the others, go on.
[[nodiscard]] pipeline::OptionChange set_impair(const config::Value& options, const pipeline::SwitchInfo& info,
                                                const std::vector<std::string>& words, std::uint16_t workers);

}  // namespace weft::stages
