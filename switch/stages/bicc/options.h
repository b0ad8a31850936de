// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// The options of bicc.
#pragma once

#include "switch/config/schema/schema.h"
#include "switch/pipeline/switch_info.h"
#include "switch/stages/bicc/unit.h"
#include "switch/wire/packet_addresses.h"

namespace weft::stages {

/// The options, read.
struct BiccOptions {
  bool enabled = true;
  BiccSettings settings{};
  bool charge = true;         ///< what is held takes room of the shared buffer
  wire::PrefixList remote{};  ///< what lies in other data centres
};
[[nodiscard]] BiccOptions bicc_options(const config::Value& options);
[[nodiscard]] config::Schema bicc_options_schema();
void check_bicc_options(const config::Value& options, const pipeline::SwitchInfo& info,
                        config::Diagnostics& diagnostics);

}  // namespace weft::stages
