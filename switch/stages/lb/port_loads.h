// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#pragma once

#include <cstdint>
#include <vector>

#include "switch/pipeline/context.h"
#include "switch/pipeline/switch_info.h"

namespace weft::stages {

/// Bytes in the egress queues of ports, all classes together, as packets of one burst see them one after the other:
/// what earlier ones of the burst were given counts as waiting. A port is looked at once per burst.
class PortLoads {
 public:
  explicit PortLoads(const pipeline::SwitchInfo& info) : loads_(info.ports.size()), by_class_(info.qos.has_value()) {}

  void begin_burst() noexcept { ++burst_; }
  /// The bytes of a port, to which packets of this burst that will wait there are added.
  [[nodiscard]] std::uint64_t& bytes(const pipeline::Context& context, pipeline::PortIndex port) noexcept {
    Load& load = loads_[port];
    if (load.burst != burst_) [[unlikely]]
      look(context, port);
    return load.bytes;
  }
  /// The same of a port that bytes() has been asked for since begin_burst().
  [[nodiscard]] std::uint64_t& known_bytes(pipeline::PortIndex port) noexcept { return loads_[port].bytes; }

 private:
  struct Load {
    std::uint64_t burst = 0;
    std::uint64_t bytes = 0;
  };

  [[gnu::noinline]] void look(const pipeline::Context& context, pipeline::PortIndex port) noexcept {
    const pipeline::PortView view = context.occupancy(port);
    loads_[port] = {burst_, by_class_ ? view.bytes() : view.queue_bytes[0]};
  }

  std::vector<Load> loads_;
  bool by_class_;  ///< otherwise a port has one queue
  std::uint64_t burst_ = 0;
};

}  // namespace weft::stages
