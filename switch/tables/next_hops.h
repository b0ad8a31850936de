// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// What routes lead to: ports with a neighbour behind them, and groups of equal cost.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "switch/tables/interfaces.h"
#include "switch/tables/neighbour_table.h"

namespace weft::tables {

/// The number that a route has for a next hop. The first ones are no next hops.
using NextHopId = std::uint32_t;
inline constexpr NextHopId kUnreachable = 0;  ///< no route
inline constexpr NextHopId kBlackhole = 1;    ///< the route says to drop
inline constexpr NextHopId kLocal = 2;        ///< an address of the switch
inline constexpr NextHopId kBroadcast = 3;    ///< all hosts of a connected subnet
inline constexpr NextHopId kProhibited = 4;   ///< the route says to refuse (RTN_PROHIBIT)
inline constexpr NextHopId kFirstHop = 5;
inline constexpr NextHopId kGroupBit = 1u << 30;  ///< a group: the number without this bit counts from 0

/// One way out of the switch, with everything that rewriting a packet needs.
struct alignas(32) NextHop {
  std::uint64_t mac_head = 0;  ///< bytes 6 and 7 of the frame (port MAC) in the upper bits, as they lie in memory
  std::uint32_t mac_tail = 0;  ///< bytes 8 to 11
  pipeline::PortIndex port = 0;
  bool attached = false;                ///< the destination itself is the neighbour: a connected subnet
  std::uint32_t mtu_bytes = 0;          ///< largest IP packet
  NeighbourTable::Index neighbour = 0;  ///< unless attached

  NextHop() = default;
  NextHop(const Interfaces::Interface& interface, pipeline::PortIndex out) noexcept;

  /// Writes destination and source address of an Ethernet header.
  void write_macs(std::uint8_t* frame, NeighbourWord neighbour_word) const noexcept {
    const std::uint64_t head = neighbour_word.mac_bytes() | mac_head;
    __builtin_memcpy(frame, &head, sizeof head);
    __builtin_memcpy(frame + sizeof head, &mac_tail, sizeof mac_tail);
  }
};
static_assert(sizeof(NextHop) == 32);

/// All next hops and groups of one route table. Immutable once it is built.
class NextHops {
 public:
  /// Next hops hold their neighbours in the table until they are gone.
  NextHops(const Interfaces& interfaces, NeighbourTable& neighbours);
  ~NextHops();
  NextHops(const NextHops&) = delete;
  NextHops& operator=(const NextHops&) = delete;

  /// The next hop for destinations that are on the link of a port.
  NextHopId add_attached(pipeline::PortIndex port);
  /// The next hop that is a router on the link of a port.
  NextHopId add_router(pipeline::PortIndex port, const wire::IpAddress& address);
  /// A group; equal lists give equal numbers. One member is no group: then it is that member itself.
  NextHopId add_group(const std::vector<NextHopId>& members);

  [[nodiscard]] static constexpr bool is_hop(NextHopId id) noexcept { return id >= kFirstHop && id < kGroupBit; }
  [[nodiscard]] static constexpr bool is_group(NextHopId id) noexcept { return id >= kGroupBit; }

  /// @param id  with is_hop()
  [[nodiscard]] const NextHop& hop(NextHopId id) const noexcept { return hops_[id - kFirstHop]; }
  /// All of them.
  [[nodiscard]] std::span<const NextHop> hops() const noexcept { return hops_; }
  /// Members in the order of the configuration, all with is_hop().
  /// @param id  with is_group()
  [[nodiscard]] std::span<const NextHopId> members(NextHopId id) const noexcept {
    const Group group = groups_[id & ~kGroupBit];
    return {members_.data() + group.first, group.count};
  }
  /// False for a number from another table that this one does not have.
  [[nodiscard]] bool has_group(NextHopId id) const noexcept {
    return is_group(id) && (id & ~kGroupBit) < groups_.size();
  }
  /// Groups are numbered from group_id(0) on.
  [[nodiscard]] std::size_t group_count() const noexcept { return groups_.size(); }
  [[nodiscard]] static constexpr NextHopId group_id(std::size_t number) noexcept {
    return kGroupBit | static_cast<NextHopId>(number);
  }
  /// Address of a router next hop; unspecified for an attached one.
  [[nodiscard]] const wire::IpAddress& address(NextHopId id) const noexcept { return addresses_[id - kFirstHop]; }
  /// The same for a hop of this table.
  [[nodiscard]] const wire::IpAddress& address_of(const NextHop& hop) const noexcept {
    return addresses_[static_cast<std::size_t>(&hop - hops_.data())];
  }

 private:
  struct Group {
    std::uint32_t first;
    std::uint32_t count;
  };
  const Interfaces& interfaces_;
  NeighbourTable& neighbours_;
  std::vector<NextHop> hops_;
  std::vector<wire::IpAddress> addresses_;
  std::vector<Group> groups_;
  std::vector<NextHopId> members_;
  std::map<pipeline::PortIndex, NextHopId> attached_;
  std::map<std::pair<pipeline::PortIndex, wire::IpAddress>, NextHopId> routers_;
  std::map<std::vector<NextHopId>, NextHopId> group_ids_;
};

}  // namespace weft::tables
