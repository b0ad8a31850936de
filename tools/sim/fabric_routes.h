// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// What a routing protocol would have told the switches of a fabric about links that went down and came back.
#pragma once

#include <cstdint>
#include <vector>

#include "switch/pipeline/switch_info.h"
#include "tools/sim/topology.h"

namespace weft::sim {

/// Next hops are those of the whole fabric's shortest ways, less those that lead nowhere any more: a path that goes
/// down is withdrawn, as with eBGP in a Clos fabric (RFC 7938), and nothing takes a longer way instead.
class FabricRoutes {
 public:
  explicit FabricRoutes(const Topology& topology);

  /// The direction that leaves `sw` through `port`, as all switches know of it from now on. At first all links are up.
  void set_link(std::uint32_t sw, PortIndex port, bool up);
  /// Of the routes that switch `sw` is configured with, those that still lead somewhere, with the next hops that do.
  [[nodiscard]] std::vector<pipeline::RouteInfo> routes(std::uint32_t sw,
                                                        const std::vector<pipeline::RouteInfo>& configured);

 private:
  [[nodiscard]] bool reaches(std::uint32_t from, std::uint32_t tor);

  enum class Reach : std::uint8_t { unknown, yes, no };
  const Topology& topology_;
  std::vector<std::vector<bool>> up_;      ///< by switch and port
  std::vector<std::vector<Reach>> reach_;  ///< by destination and switch
};

}  // namespace weft::sim
