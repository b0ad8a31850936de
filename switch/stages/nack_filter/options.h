// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// The options of nack_filter.
#pragma once

#include <cstdint>
#include <vector>

#include "switch/config/schema/schema.h"
#include "switch/pipeline/switch_info.h"
#include "switch/stages/nack_filter/unit.h"

namespace weft::stages {

/// What becomes of a blocked NACK.
enum class OnBlock : std::uint8_t { drop, ack };

/// The options, read.
struct NackOptions {
  bool enabled = true;
  NackRules rules{};
  OnBlock on_block = OnBlock::drop;
  std::uint32_t max_qps = 4096;
  std::vector<std::uint8_t> uplink_of_port{};  ///< by PortIndex; kNoUplink for ports to hosts

  static constexpr std::uint8_t kNoUplink = 0xff;
};
[[nodiscard]] NackOptions nack_options(const config::Value& options, const pipeline::SwitchInfo& info);
[[nodiscard]] config::Schema nack_options_schema();
void check_nack_options(const config::Value& options, const pipeline::SwitchInfo& info,
                        config::Diagnostics& diagnostics);

}  // namespace weft::stages
