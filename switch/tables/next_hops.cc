// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/tables/next_hops.h"

#include <cstring>

namespace weft::tables {

NextHop::NextHop(const Interfaces::Interface& interface, pipeline::PortIndex out) noexcept
    : port(out), mtu_bytes(interface.mtu_bytes) {
  std::uint8_t head[sizeof mac_head] = {};
  std::memcpy(head + 6, interface.mac.bytes.data(), 2);
  std::memcpy(&mac_head, head, sizeof mac_head);
  std::memcpy(&mac_tail, interface.mac.bytes.data() + 2, sizeof mac_tail);
}

NextHops::NextHops(const Interfaces& interfaces, NeighbourTable& neighbours)
    : interfaces_(interfaces), neighbours_(neighbours) {}

NextHops::~NextHops() {
  for (const NextHop& hop : hops_) {
    if (!hop.attached) neighbours_.unpin(hop.neighbour);
  }
}

NextHopId NextHops::add_attached(pipeline::PortIndex port) {
  const auto id = static_cast<NextHopId>(kFirstHop + hops_.size());
  const auto [at, inserted] = attached_.try_emplace(port, id);
  if (!inserted) return at->second;
  NextHop hop(interfaces_[port], port);
  hop.attached = true;
  hops_.push_back(hop);
  addresses_.emplace_back();
  return id;
}

NextHopId NextHops::add_router(pipeline::PortIndex port, const wire::IpAddress& address) {
  const auto id = static_cast<NextHopId>(kFirstHop + hops_.size());
  const auto [at, inserted] = routers_.try_emplace({port, address}, id);
  if (!inserted) return at->second;
  NextHop hop(interfaces_[port], port);
  hop.neighbour = neighbours_.pin(port, address, 0);
  hops_.push_back(hop);
  addresses_.push_back(address);
  return id;
}

NextHopId NextHops::add_group(const std::vector<NextHopId>& members) {
  if (members.size() == 1) return members.front();
  const auto id = static_cast<NextHopId>(kGroupBit | groups_.size());
  const auto [at, inserted] = group_ids_.try_emplace(members, id);
  if (!inserted) return at->second;
  groups_.push_back({static_cast<std::uint32_t>(members_.size()), static_cast<std::uint32_t>(members.size())});
  members_.insert(members_.end(), members.begin(), members.end());
  return id;
}

}  // namespace weft::tables
