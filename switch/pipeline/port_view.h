// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#pragma once

#include <array>
#include <cstdint>
#include <numeric>

#include "switch/base/time.h"
#include "switch/qos/types.h"

namespace weft::pipeline {

/// What waits in the egress of a port and what has left through it, for stages that decide by it.
///
/// A port's owner sees its own ports as they are: `as_of` is the time of the call. Of other ports a worker sees what
/// their owners last said, which they do every time that they serve a port: `as_of` is then. No value is older than
/// that; queue_bytes of a switch with qos may be newer. The owner serves a port in every loop, after at most one burst
/// from each of its ports; while it naps, nothing is in its queues, and what is handed to it ends the nap.
/// Packets on their way to the port's owner are in no queue yet and do not count.
///
/// Where every worker sends through the port itself (SwitchState::tx_per_worker()), values are the sum of what this
/// worker sees and the others last said; `as_of` is the time of the call, and what the others said may be older by one
/// of their loops.
struct PortView {
  /// Bytes of frames, without FCS, in each queue of the port. Without qos a port has one queue: number 0.
  std::array<std::uint64_t, qos::kClasses> queue_bytes{};
  std::uint64_t tx_bytes = 0;   ///< that the device has taken since the start, without FCS
  std::uint64_t ce_marked = 0;  ///< packets that this switch marked with CE on their way to the port, since the start
  TimeNs as_of = 0;             ///< ns, as Context::now

  [[nodiscard]] std::uint64_t bytes() const noexcept {
    return std::accumulate(queue_bytes.begin(), queue_bytes.end(), std::uint64_t{0});
  }
};

}  // namespace weft::pipeline
