// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// The counters of a process on DPDK's telemetry socket, for dpdk-telemetry.py and what else reads it.
#pragma once

#include "switch/api/backend.h"

namespace weft {

/// While it lives, /weft/... commands answer from a Backend; before and after they answer null. One at a time: DPDK
/// keeps commands for the whole process. Calls come on DPDK's telemetry threads.
class Telemetry {
 public:
  /// @param backend outlives the object
  explicit Telemetry(api::Backend& backend);
  ~Telemetry();  ///< waits for a call in progress
  Telemetry(const Telemetry&) = delete;
  Telemetry& operator=(const Telemetry&) = delete;
};

}  // namespace weft
