// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#pragma once

#include <cstdint>

#include "switch/pipeline/packet.h"
#include "switch/qos/gauge.h"

namespace weft::pipeline {

class Pipeline;

/// Bytes of frames, without FCS, that wait in the egress queues of each port: PortView::bytes() without the rest, for
/// who asks with every packet or for many ports. One load, but where every worker sends through the port itself: there
/// it is a sum over the workers. As old and as exact as that: of the ports that this worker owns, as they are; of other
/// ports without qos, as their owners last said; with qos, as their owners last left the queues. Packets on their way
/// to the port's owner, on the emulated line or in the device do not count.
///
/// Good for as long as the call of the stage that asked the Context for it.
class QueuedBytes {
 public:
  QueuedBytes() = default;
  /// @param gauges  by port; nullptr where it takes a sum
  QueuedBytes(const Pipeline& pipeline, const qos::Gauge* const* gauges) noexcept
      : pipeline_(&pipeline), gauges_(gauges) {}

  [[nodiscard]] std::uint64_t of(PortIndex port) const noexcept {
    const qos::Gauge* const gauge = gauges_[port];
    return gauge != nullptr ? gauge->value() : sum(port);
  }

 private:
  [[nodiscard]] std::uint64_t sum(PortIndex port) const noexcept;

  const Pipeline* pipeline_ = nullptr;
  const qos::Gauge* const* gauges_ = nullptr;
};

}  // namespace weft::pipeline
