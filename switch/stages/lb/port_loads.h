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
  explicit PortLoads(std::size_t ports) : loads_(ports) {}

  void begin_burst() noexcept { ++burst_; }
  [[nodiscard]] std::uint64_t bytes(const pipeline::Context& context, pipeline::PortIndex port) noexcept {
    return load(context, port).bytes;
  }
  /// A packet of the burst will wait there.
  void add(const pipeline::Context& context, pipeline::PortIndex port, std::uint32_t frame_bytes) noexcept {
    load(context, port).bytes += frame_bytes;
  }

 private:
  struct Load {
    std::uint64_t burst = 0;
    std::uint64_t bytes = 0;
  };
  [[nodiscard]] Load& load(const pipeline::Context& context, pipeline::PortIndex port) noexcept {
    Load& load = loads_[port];
    if (load.burst != burst_) load = {burst_, context.occupancy(port).bytes()};
    return load;
  }

  std::vector<Load> loads_;
  std::uint64_t burst_ = 0;
};

}  // namespace weft::stages
