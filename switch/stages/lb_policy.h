// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// How the `lb` stage picks the member of an equal-cost group.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "switch/pipeline/context.h"
#include "switch/pipeline/stage.h"
#include "switch/tables/next_hops.h"

namespace weft::stages {

/// A packet whose route is a group.
struct LbItem {
  rte_mbuf* packet = nullptr;
  std::span<const tables::NextHopId> members{};          ///< at least two, in the order of the configuration
  tables::NextHopId choice = tables::kUnreachable;  ///< out: one of the members; kUnreachable when all ports are down
  std::uint16_t index = 0;                           ///< of the packet in its batch
};

/// Ports that were seen up in this burst: asking for the link of each packet's port would cost more than the choice.
class LinkView {
 public:
  LinkView(const pipeline::Context& context, const tables::NextHops& hops) noexcept : context_(context), hops_(hops) {}

  [[nodiscard]] bool up(tables::NextHopId member) noexcept {
    const pipeline::PortIndex port = hops_.hop(member).port;
    const std::uint64_t bit = std::uint64_t{1} << port % 64;
    if (port < 64 && (up_ & bit) != 0) [[likely]] return true;
    if (!context_.link_up(port)) return false;
    if (port < 64) up_ |= bit;
    return true;
  }

 private:
  const pipeline::Context& context_;
  const tables::NextHops& hops_;
  std::uint64_t up_ = 0;
};

/// One per worker and switch. A policy keeps its own state; whatever it wants to know about packets is in their
/// PacketMeta, about ports in the context.
class LbPolicy {
 public:
  virtual ~LbPolicy() = default;
  /// Sets the choice of every item. Called once per burst.
  virtual void choose(pipeline::Context& context, LinkView& links, std::span<LbItem> items) noexcept = 0;
};

/// The member that `hash` belongs to, or another one by the same hash if its port is down: flows of other members stay
/// where they are. kUnreachable when all ports are down.
[[nodiscard]] tables::NextHopId member_by_hash(std::span<const tables::NextHopId> members, LinkView& links,
                                               std::uint32_t hash) noexcept;

/// `ecmp`: by tables::EcmpHash of the flow, whose seed is that of the switch. A flow keeps its member.
[[nodiscard]] std::unique_ptr<LbPolicy> make_ecmp_policy(const pipeline::StageBuild& build);
/// `random`: each packet by itself, uniformly.
[[nodiscard]] std::unique_ptr<LbPolicy> make_random_policy();

}  // namespace weft::stages
