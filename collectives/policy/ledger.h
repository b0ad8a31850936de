// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// What groups have of links and switches. A block is memory of a switch that one group has or, with temporal
// multiplexing, several have in turns: it is as large as the largest of them needs (EPIC 6.2).
#pragma once

#include <cstdint>
#include <vector>

#include "collectives/policy/request.h"

namespace weft::inc::policy {

/// A group in a block.
struct Share {
  GroupId group = 0;
  std::uint64_t bytes = 0;
  std::uint64_t job = 0;
  std::uint32_t duty_per_mille = 1000;
  std::uint64_t period_ns = 0, offset_ns = 0;  ///< a period of 0: its bursts come at any time
  /// Its bursts stay out of those of all that are in the block, as far as these are staggered, too.
  bool staggered = false;
  bool local = false;        ///< its tree has no other switch
  std::uint32_t moment = 0;  ///< see Request

  [[nodiscard]] std::uint64_t burst_ns() const noexcept { return (period_ns * duty_per_mille + 999) / 1000; }
};

struct Block {
  std::uint32_t number = 0;
  std::uint64_t bytes = 0;
  std::uint32_t duty_per_mille = 0;  ///< of all shares together
  std::vector<Share> shares;

  /// All are of a job, burst once in its period and keep out of each other's way.
  [[nodiscard]] bool staggered(std::uint64_t job, std::uint64_t period_ns) const noexcept;
  /// A group of the job communicates whenever this one does: one of them would always find the block locked.
  [[nodiscard]] bool meets(const Request& request) const noexcept;
};

struct LinkUse {
  std::uint32_t reserved_mbps = 0;
  std::uint32_t best_effort = 0;  ///< groups that have set nothing aside
  std::vector<GroupId> groups;
};

struct SwitchUse {
  std::uint64_t bytes = 0;  ///< of all blocks
  std::uint32_t groups = 0;
  std::uint32_t next_block = 0;
  std::vector<Block> blocks;

  [[nodiscard]] const Block* find(std::uint32_t number) const noexcept;
  /// Of blocks that a group has whose tree is this switch alone.
  [[nodiscard]] std::uint64_t local_bytes() const noexcept;
};

class Ledger {
 public:
  explicit Ledger(const Topology& topology) : links_(topology.links().size()), switches_(topology.nodes().size()) {}

  [[nodiscard]] const LinkUse& link(LinkId id) const noexcept { return links_[id]; }
  [[nodiscard]] const SwitchUse& at(NodeId node) const noexcept { return switches_[node]; }

  /// A block of an allocation that is shared is there; one that is not shared is not there yet.
  void take(const Request& request, const Decision& decision);
  /// What take() was called with.
  void give_back(const Request& request, const Decision& decision);

 private:
  std::vector<LinkUse> links_;
  std::vector<SwitchUse> switches_;
};

}  // namespace weft::inc::policy
