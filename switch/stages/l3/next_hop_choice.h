// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// How a stage chooses among equal-cost next hops without knowing who found them. The stage that routes publishes
// NextHopChoices; `lb` asks for it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "switch/pipeline/batch.h"
#include "switch/pipeline/context.h"
#include "switch/tables/next_hops.h"

namespace weft::stages {

/// A packet whose route is a group. Without default values, so that an array for a burst costs nothing to make.
struct GroupedPacket {
  rte_mbuf* packet;
  const tables::NextHopId* first_member;  ///< in the order of the configuration
  std::uint32_t member_count;             ///< at least two
  tables::NextHopId choice;               ///< out: one of the members; kUnreachable when no path is up
  std::uint16_t index;                    ///< of the packet in its batch

  [[nodiscard]] std::span<const tables::NextHopId> members() const noexcept { return {first_member, member_count}; }
};

/// Of one worker. Groups and members belong to the routes of one burst: the stage that chooses must be adjacent
/// (StageType::adjacent) to the one that routes.
class NextHopChoice {
 public:
  struct Found {
    std::uint32_t grouped;  ///< packets that wait for a choice
    std::uint32_t chosen;   ///< packets since the last call that went the way that was chosen for their flow before
  };

  virtual ~NextHopChoice() = default;
  /// Finds the packets of a burst that wait for a choice. Drops those whose group is not known.
  /// @param packets  out: room for Batch::kCapacity
  [[nodiscard]] virtual Found find(pipeline::Context& context, pipeline::Batch& batch,
                                   GroupedPacket* packets) noexcept = 0;
  /// What the members of this burst's packets are.
  [[nodiscard]] virtual const tables::NextHops& next_hops() const noexcept = 0;
  /// Sends each packet to its choice, and drops those without one as egress_down.
  /// @param keeps  the next packet of each flow would get the same choice, until links or routes change
  virtual void forward(pipeline::Context& context, pipeline::Batch& batch, std::span<const GroupedPacket> packets,
                       bool keeps) noexcept = 0;
};

/// A group of equal-cost next hops as tables show it.
struct NextHopGroup {
  struct Member {
    pipeline::PortIndex port;
    std::string text;  ///< as `ip route` writes it, and the state of its neighbour while that is not resolved
  };
  std::uint64_t number;         ///< from 0, until the routes change
  std::size_t routes;           ///< that lead to it
  std::vector<Member> members;  ///< in the order of the configuration
};

/// Of one switch.
class NextHopChoices {
 public:
  static constexpr std::string_view kCapability = "group";
  virtual ~NextHopChoices() = default;
  /// For that worker alone; lives as long as this.
  [[nodiscard]] virtual NextHopChoice& choice(std::uint16_t worker) noexcept = 0;
  /// Groups of the routes of the moment by number, from `first` on: as many as it takes to list `members` members, or
  /// all that there are. For control threads, any of them.
  [[nodiscard]] virtual std::vector<NextHopGroup> groups(std::uint64_t first, std::size_t members) const = 0;
};

}  // namespace weft::stages
