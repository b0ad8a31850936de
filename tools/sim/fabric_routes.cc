// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "tools/sim/fabric_routes.h"

#include <algorithm>

namespace weft::sim {

FabricRoutes::FabricRoutes(const Topology& topology) : topology_(topology) {
  for (const SwitchPlan& sw : topology.switches()) up_.emplace_back(sw.ports.size(), true);
}

void FabricRoutes::set_link(std::uint32_t sw, PortIndex port, bool up) {
  up_[sw][port] = up;
  reach_.clear();
}

// Whether a packet at switch `from` comes to the hosts of `tor` along some shortest way of the whole fabric.
bool FabricRoutes::reaches(std::uint32_t from, std::uint32_t tor) {
  if (from == tor) return true;
  const std::size_t switches = topology_.switches().size();
  if (reach_.empty()) reach_.assign(switches, {});
  if (reach_[tor].empty()) reach_[tor].assign(switches, Reach::unknown);
  Reach known = reach_[tor][from];
  if (known == Reach::unknown) {
    const auto hops = topology_.next_hops(from, tor);
    const bool any = std::any_of(hops.begin(), hops.end(), [&](PortIndex port) {
      return up_[from][port] && reaches(topology_.switches()[from].ports[port].peer, tor);
    });
    known = reach_[tor][from] = any ? Reach::yes : Reach::no;
  }
  return known == Reach::yes;
}

std::vector<pipeline::RouteInfo> FabricRoutes::routes(std::uint32_t sw,
                                                      const std::vector<pipeline::RouteInfo>& configured) {
  const std::vector<SwitchPlan>& switches = topology_.switches();
  std::vector<pipeline::RouteInfo> live;
  for (const pipeline::RouteInfo& route : configured) {
    const auto to = std::find_if(switches.begin(), switches.end(), [&](const SwitchPlan& plan) {
      return plan.host_count != 0 && plan.subnet.network() == route.prefix.network();
    });
    const auto tor = static_cast<std::uint32_t>(to - switches.begin());
    live.push_back(route);
    std::erase_if(live.back().via, [&](const pipeline::RouteInfo::Hop& hop) {
      const std::vector<PortPlan>& ports = switches[sw].ports;
      const auto port = std::find_if(ports.begin(), ports.end(),
                                     [&](const PortPlan& plan) { return plan.peer_address == hop.address; });
      return !up_[sw][static_cast<std::size_t>(port - ports.begin())] || !reaches(port->peer, tor);
    });
    if (live.back().via.empty()) live.pop_back();
  }
  return live;
}

}  // namespace weft::sim
