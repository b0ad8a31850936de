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
#include "switch/stages/lb/conweave_destination.h"
#include "switch/stages/lb/conweave_source.h"
#include "switch/stages/lb/downlink_table.h"
#include "switch/stages/lb/gemma_reporter.h"
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

  struct Conweave {
    ConweaveSourceRules source{};
    ConweaveDestinationRules destination{};
    std::uint64_t max_port_bytes = 0;  ///< that came in by one uplink and wait
    TimeNs pause_ns = 0;               ///< how long a path is avoided after a NOTIFY
    TimeNs notify_ns = 0;              ///< between two NOTIFYs about a path
    std::uint8_t reply_dscp = 0;
  };
  std::optional<Conweave> conweave{};  ///< of a leaf

  struct Gemma {
    struct Downlink {
      pipeline::PortIndex port;
      std::vector<std::uint16_t> leaves;  ///< ids of those behind it
    };
    GemmaReporterRules reporter{};
    DownlinkRules table{};
    std::uint8_t report_dscp = 0;
    std::vector<Downlink> downlinks{};
    bool up = true;  ///< a switch with uplinks tells those above of its downlinks, too
  };
  std::optional<Gemma> gemma{};
};
/// @param info  has the ports; names that it does not have are left out
[[nodiscard]] LbTagOptions lb_tag_options(const config::Value& options, const pipeline::SwitchInfo& info);
[[nodiscard]] config::Schema lb_tag_options_schema();
void check_lb_tag_options(const config::Value& options, const pipeline::SwitchInfo& info,
                          config::Diagnostics& diagnostics);

}  // namespace weft::stages
