// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// What the switch itself understands of the packets that are addressed to it: ARP, neighbour discovery, and echo
// requests.
#pragma once

#include <optional>

#include "switch/pipeline/batch.h"
#include "switch/pipeline/context.h"
#include "switch/stages/l3/counters.h"
#include "switch/tables/interfaces.h"
#include "switch/tables/neighbour_table.h"
#include "switch/wire/neighbour.h"

namespace weft::stages {

/// One worker's. Every packet given to it is consumed, except that an echo request stays in the batch and becomes the
/// reply.
///
/// Neighbours are learned from messages to the switch itself, and changed by all messages about known neighbours
/// (RFC 826; RFC 4861 7.2). A sender outside the subnets of the port is not learned.
class L3Local {
 public:
  L3Local(const tables::Interfaces& interfaces, tables::NeighbourTable& neighbours, L3Counters& counters)
      : interfaces_(interfaces), neighbours_(neighbours), counters_(counters) {}

  /// An ARP message, whoever it is for.
  void arp(pipeline::Context& context, pipeline::Batch& batch, std::uint16_t i) noexcept;
  /// A valid IP packet to one of the switch's addresses, or to a group or broadcast address that it listens to.
  void deliver(pipeline::Context& context, pipeline::Batch& batch, std::uint16_t i) noexcept;

 private:
  using Index = tables::NeighbourTable::Index;
  void read_arp(pipeline::Context& context, const rte_mbuf* m) noexcept;
  void read_nd(pipeline::Context& context, const rte_mbuf* m) noexcept;
  void solicited(pipeline::Context& context, const rte_mbuf* m, const wire::ReceivedNeighbour& message) noexcept;
  void advertised(pipeline::Context& context, const rte_mbuf* m, const wire::ReceivedNeighbour& message) noexcept;
  void learn(pipeline::Context& context, Index index, const tables::NeighbourTable::Advertisement& said) noexcept;
  [[nodiscard]] Index neighbour(pipeline::Context& context, pipeline::PortIndex port, const wire::IpAddress& address,
                                bool may_add) noexcept;
  [[nodiscard]] bool echo(rte_mbuf* m) noexcept;
  [[nodiscard]] bool echo_v4(rte_mbuf* m) noexcept;
  [[nodiscard]] bool echo_v6(rte_mbuf* m) noexcept;

  const tables::Interfaces& interfaces_;
  tables::NeighbourTable& neighbours_;
  L3Counters& counters_;
};

}  // namespace weft::stages
