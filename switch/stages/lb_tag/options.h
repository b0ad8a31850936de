// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// The options of lb_tag.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "switch/config/schema/schema.h"
#include "switch/pipeline/switch_info.h"
#include "switch/stages/lb/congestion.h"
#include "switch/wire/addresses.h"

namespace weft::stages {

/// The options, read.
struct LbTagOptions {
  struct Leaf {
    std::uint16_t id;
    std::vector<wire::IpPrefix> prefixes;
  };

  std::optional<std::uint16_t> leaf{};  ///< this switch's own id; nullopt: it is no leaf
  std::vector<pipeline::PortIndex> uplinks{};
  std::vector<Leaf> leaves{};
  std::uint64_t link_mbps = 0;  ///< of ports without a rate_mbps; 0: not said
  CongestionRules rules{};
};
/// @param info  has the ports; names that it does not have are left out
[[nodiscard]] LbTagOptions lb_tag_options(const config::Value& options, const pipeline::SwitchInfo& info);
[[nodiscard]] config::Schema lb_tag_options_schema();
void check_lb_tag_options(const config::Value& options, const pipeline::SwitchInfo& info,
                          config::Diagnostics& diagnostics);

}  // namespace weft::stages
