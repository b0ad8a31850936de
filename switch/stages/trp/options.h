// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// The options of trp.
#pragma once

#include <vector>

#include "switch/config/schema/schema.h"
#include "switch/pipeline/switch_info.h"
#include "switch/qos/wred.h"
#include "switch/stages/trp/signals.h"
#include "switch/stages/trp/unit.h"
#include "switch/wire/packet_addresses.h"

namespace weft::stages {

/// What tells of congestion near a receiver.
struct TrpSources {
  bool cnp = true;
  bool telemetry = false;  ///< records that receivers with HPCC send back
  bool rtt = false;        ///< round trips from here to the receiver
};

/// What the loop port does as an egress queue with ECN would.
struct TrpLoopEcn {
  bool enabled = false;
  qos::Curve mark{};              ///< by what waits for the loop port
  bool notify = false;            ///< a mark becomes a CNP to the source at once, and the packet goes on without it
  TimeNs cnp_interval_ns = 7000;  ///< notify: least time between two CNPs of a flow
};

/// The options, read.
struct TrpOptions {
  bool enabled = true;
  TrpSettings settings{};
  TrpSources sources{};
  TrpSignalSettings signals{};
  TrpLoopEcn loop_ecn{};
  bool by_pair = false;       ///< state per pair of hosts
  bool hold_acks = true;      ///< ACKs and NAKs of a flow as well as its data
  bool charge = true;         ///< what is held takes room of the shared buffer
  wire::PrefixList remote{};  ///< what lies in other data centres
};
[[nodiscard]] TrpOptions trp_options(const config::Value& options);
[[nodiscard]] config::Schema trp_options_schema();
void check_trp_options(const config::Value& options, const pipeline::SwitchInfo& info,
                       config::Diagnostics& diagnostics);

}  // namespace weft::stages
