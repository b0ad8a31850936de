// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#pragma once

#include <cstdint>
#include <vector>

#include "switch/pipeline/context.h"

namespace weft::stages {

/// Bytes in the egress queues of ports, all classes together, as packets of one burst see them one after the other:
/// what earlier ones of the burst were given counts as waiting. A port is looked at once per burst.
class PortLoads {
 public:
  /// @param ports  of the switch
  explicit PortLoads(std::size_t ports) : loads_(ports) {}

  void begin_burst(const pipeline::Context& context) noexcept {
    ++burst_;
    queued_ = context.queued_bytes();
  }
  /// The bytes of a port, to which packets of this burst that will wait there are added.
  [[nodiscard]] std::uint64_t& bytes(pipeline::PortIndex port) noexcept {
    Load& load = loads_[port];
    if (load.burst != burst_) load = {burst_, queued_.of(port)};
    return load.bytes;
  }
  /// The same before any packet of this burst.
  [[nodiscard]] std::uint64_t before(pipeline::PortIndex port) const noexcept { return queued_.of(port); }

 private:
  struct Load {
    std::uint64_t burst = 0;
    std::uint64_t bytes = 0;
  };

  std::vector<Load> loads_;
  pipeline::QueuedBytes queued_{};
  std::uint64_t burst_ = 0;
};

}  // namespace weft::stages
