// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// The options of pnp.
#pragma once

#include <cstdint>
#include <vector>

#include "switch/config/schema/schema.h"
#include "switch/pipeline/switch_info.h"
#include "switch/stages/pnp/qcn.h"
#include "switch/stages/pnp/unit.h"
#include "switch/wire/ip.h"
#include "switch/wire/packet_addresses.h"

namespace weft::stages {

/// How the handshake monitor finds hosts that talk through this switch.
enum class PnpMonitor : std::uint8_t { off, passive, cookie };

/// What makes a CNP. mark: a packet leaves with a CE mark; qcn: one is sampled while its port is congested.
enum class PnpTrigger : std::uint8_t { mark, qcn };

/// The options, read.
struct PnpOptions {
  bool enabled = true;
  TimeNs cnp_interval_ns = 5'000;
  PnpTrigger trigger = PnpTrigger::mark;
  QcnSettings qcn{};
  bool qcn_feedback = true;  ///< CNPs of trigger qcn say how congested the queue is (switch/wire/qcn_cnp.h)
  std::uint32_t max_flows = 16'384;
  wire::PrefixList remote{};  ///< what lies in other data centres
  bool any_source = false;    ///< also flows that come from a remote prefix
  wire::Ecn clear_to = wire::Ecn::ect0;
  std::uint8_t cnp_dscp = 48;
  PnpMonitor monitor = PnpMonitor::off;
  std::uint32_t max_pairs = 1024;
  bool telemetry = false;  ///< what telemetry has collected so far is sent back to sources with HPCC
  bool rtt_echo = false;   ///< requests that ask for an echo are answered, for sources with TIMELY
};
[[nodiscard]] PnpOptions pnp_options(const config::Value& options);
[[nodiscard]] config::Schema pnp_options_schema();
void check_pnp_options(const config::Value& options, const pipeline::SwitchInfo& info,
                       config::Diagnostics& diagnostics);

}  // namespace weft::stages
