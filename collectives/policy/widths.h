// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// How wide links and switches are for a group under a policy (EPIC 6.2: "path width", of bandwidth and memory).
#pragma once

#include <optional>

#include "collectives/policy/policy.h"

namespace weft::inc::policy {

/// What limits a group. Each may be left out, to find the one that it failed for.
enum class Limit : std::uint8_t { abilities = 1, links = 2, bandwidth = 4, memory = 8, fan_in = 16 };
inline constexpr std::uint8_t kAllLimits = 31;

/// Memory that a group could have at a switch.
struct MemoryOffer {
  std::uint32_t units = 0;
  std::uint32_t free_per_mille = 1000;  ///< of the time: what others in the block leave
  std::optional<std::uint32_t> block;   ///< to be shared; nullopt: memory that nobody has

  [[nodiscard]] std::uint64_t worth() const noexcept { return std::uint64_t{units} * free_per_mille; }
};

class GroupWidths : public Widths {
 public:
  GroupWidths(const Topology& topology, const Ledger& ledger, const PolicyOptions& options, const Request& request,
              std::uint8_t limits = kAllLimits) noexcept
      : topology_(topology), ledger_(ledger), options_(options), request_(request), limits_(limits) {}

  [[nodiscard]] std::uint32_t link(LinkId id) const override;
  [[nodiscard]] std::uint32_t node(NodeId node, const Place& place) const override;
  [[nodiscard]] std::uint32_t crowd(LinkId link) const override;
  [[nodiscard]] std::uint32_t load(NodeId root) const override;

  /// What to take at a switch; 0 units: nothing.
  /// @param least  units that it must have room for
  /// @param most   units that count
  /// @param local  the tree has no other switch
  [[nodiscard]] MemoryOffer offer(NodeId node, std::uint32_t endpoints, std::uint32_t least, std::uint32_t most,
                                  bool local) const;
  /// Mbit/s of a window of units over a tree.
  [[nodiscard]] std::uint32_t rate_mbps(std::uint64_t milli_units, unsigned depth) const noexcept;

  // Why node() or link() may say 0. nullopt: not for this.
  [[nodiscard]] std::optional<Blocker> link_blocker(LinkId id) const;
  [[nodiscard]] std::optional<Blocker> node_blocker(NodeId node, const Place& place) const;

 private:
  [[nodiscard]] bool has(Limit limit) const noexcept { return (limits_ & static_cast<std::uint8_t>(limit)) != 0; }
  [[nodiscard]] bool able(NodeId node) const noexcept;
  [[nodiscard]] std::uint32_t bandwidth_mbps(LinkId id) const noexcept;
  [[nodiscard]] std::uint64_t free_bytes(NodeId node, bool local) const noexcept;

  const Topology& topology_;
  const Ledger& ledger_;
  const PolicyOptions& options_;
  const Request& request_;
  std::uint8_t limits_;
};

}  // namespace weft::inc::policy
