// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// How the flows of tracked queue pairs leave: what l3 and lb decided for one packet holds for the next one of the same
// flow, as long as routes, neighbours and links stay as they are. Saves 18 of 29 cycles per packet, 28 of 38 behind
// groups (micro_l3; bench/results/plain_forms.json).
#pragma once

#include <algorithm>
#include <cstdint>

#include "switch/pipeline/packet.h"
#include "switch/tables/next_hops.h"
#include "switch/tables/page_memory.h"
#include "switch/wire/checksum.h"
#include "switch/wire/headers.h"

namespace weft::stages {

/// What an IPv4 packet needs to leave through one next hop: its MAC header, port and MTU. Many flows share one.
struct alignas(32) L3Adjacency {
  std::uint64_t mac_head;  ///< the first eight bytes of the frame when it leaves
  std::uint32_t mac_tail;  ///< the four behind them
  std::uint32_t stamp;     ///< L3Flows' when it was made; an older one says that this entry is free
  pipeline::PortIndex port;
  std::uint16_t max_bytes;  ///< largest IP packet
  std::uint32_t balanced;   ///< 1: the route is a group, whose member `lb` chose

  friend bool operator==(const L3Adjacency&, const L3Adjacency&) = default;
};
static_assert(sizeof(L3Adjacency) == 32);

/// A cached decision: which adjacency the packets of one IPv4 flow take.
struct alignas(16) L3Flow {
  std::uint64_t addresses;  ///< Parsed::address_key
  std::uint32_t stamp;      ///< L3Flows' when it was made; 0: the slot is empty
  std::uint16_t source_port;
  std::uint16_t adjacency;  ///< its index
};
static_assert(sizeof(L3Flow) == 16);

/// The flow cache of one worker and switch. A flow lies in the slot of its PacketMeta::qp_handle or in the one paired
/// with it. Flows that compete for the same two slots evict each other; an evicted flow is looked up in the routes.
class L3Flows {
 public:
  L3Flows() : flows_(kSlots), adjacencies_(kAdjacencies) {}

  /// Start of a burst. Each argument is a counter of changes to something that the decisions depend on; a change makes
  /// all of them stale.
  void begin(std::uint64_t routes, std::uint32_t neighbours, std::uint32_t links) noexcept {
    if (routes == routes_ && neighbours == neighbours_ && links == links_) [[likely]]
      return;
    routes_ = routes;
    neighbours_ = neighbours;
    links_ = links;
    if (++stamp_ == 0) forget_all();
  }

  /// The slot where the flow of a packet would be. Prefetches it.
  [[nodiscard]] std::uint32_t slot(std::uint32_t handle) const noexcept {
    const std::uint32_t at = slot_of(handle);
    __builtin_prefetch(&flows_[at]);
    return at;
  }

  /// The adjacency of the packet's flow; nullptr when no decision is cached or the cached one is stale.
  /// @param slot  of the packet's handle
  [[nodiscard]] const L3Adjacency* find(std::uint32_t slot, const wire::Parsed& parsed) const noexcept {
    const auto holds = [&](const L3Flow& flow) {
      return flow.addresses == parsed.address_key && flow.stamp == stamp_ && flow.source_port == parsed.source_port;
    };
    if (holds(flows_[slot])) [[likely]]
      return &adjacencies_[flows_[slot].adjacency];
    const L3Flow& next = flows_[paired(slot)];
    return holds(next) ? &adjacencies_[next.adjacency] : nullptr;
  }

  /// Caches the decision for a tracked packet.
  void remember(const pipeline::PacketMeta& pm, const tables::NextHop& hop, tables::NeighbourWord neighbour,
                bool balanced) noexcept {
    // Packets without a handle look into the slots of handle 0: no flow may be cached there.
    const std::uint32_t slot = slot_of(pm.qp_handle);
    if (slot == slot_of(0) || slot == paired(slot_of(0)) || pm.parsed.has(wire::ParsedFlag::ipv6)) return;
    const std::uint32_t adjacency =
        adjacency_of({.mac_head = neighbour.mac_bytes() | hop.mac_head,
                      .mac_tail = hop.mac_tail,
                      .stamp = stamp_,
                      .port = hop.port,
                      .max_bytes = static_cast<std::uint16_t>(std::min(hop.mtu_bytes, 0xffffu)),
                      .balanced = balanced ? 1u : 0u});
    if (adjacency == kAdjacencies) return;
    flow_for(slot, pm.parsed) = {.addresses = pm.parsed.address_key,
                                 .stamp = stamp_,
                                 .source_port = pm.parsed.source_port,
                                 .adjacency = static_cast<std::uint16_t>(adjacency)};
  }

  /// Rewrites an IPv4 packet whose TTL is more than 1 and sets its port.
  static void forward(rte_mbuf* m, const L3Adjacency& adjacency) noexcept {
    pipeline::PacketMeta& pm = pipeline::meta(m);
    std::uint8_t* frame = pipeline::frame(m);
    __builtin_memcpy(frame, &adjacency.mac_head, sizeof adjacency.mac_head);
    __builtin_memcpy(frame + sizeof adjacency.mac_head, &adjacency.mac_tail, sizeof adjacency.mac_tail);
    wire::decrement_ttl(wire::header_at<wire::Ipv4Header>(frame + sizeof(wire::EthernetHeader)));
    --pm.parsed.ttl;
    pm.out_port = adjacency.port;
  }

 private:
  static constexpr unsigned kSlotBits = 14;
  static constexpr std::uint32_t kSlots = 1u << kSlotBits;
  static constexpr std::uint32_t kAdjacencies = 4096;
  static constexpr std::uint32_t kAdjacencyTries = 8;

  // Handles are positions in a table with buckets of 16, counted from 1. Consecutive positions get consecutive slots,
  // so that the flows of few queue pairs share cache lines. Buckets fill from their first position: when the table has
  // more positions than there are slots, the buckets that map to the same slots are shifted against each other by 5.
  static constexpr std::uint32_t slot_of(std::uint32_t handle) noexcept {
    const std::uint32_t position = handle - 1;
    return (position + (position >> kSlotBits) * 5) % kSlots;
  }
  static constexpr std::uint32_t paired(std::uint32_t slot) noexcept { return slot ^ 1; }
  // The slot to write: the flow's own, or a stale one, or else the first of the two.
  [[nodiscard]] L3Flow& flow_for(std::uint32_t slot, const wire::Parsed& parsed) noexcept {
    const auto own = [&](const L3Flow& flow) {
      return flow.stamp != stamp_ || (flow.addresses == parsed.address_key && flow.source_port == parsed.source_port);
    };
    if (!own(flows_[slot]) && own(flows_[paired(slot)])) return flows_[paired(slot)];
    return flows_[slot];
  }
  // Index of an equal entry, made if there is none; kAdjacencies when there is no room, and the flow is not cached.
  [[nodiscard]] std::uint32_t adjacency_of(const L3Adjacency& adjacency) noexcept {
    const std::uint64_t hash = wire::mix64(adjacency.mac_head ^ wire::detail::kMix0,
                                           adjacency.mac_tail ^ adjacency.port ^ wire::detail::kMix1);
    for (std::uint32_t i = 0; i < kAdjacencyTries; ++i) {
      const std::uint32_t at = static_cast<std::uint32_t>(hash + i) % kAdjacencies;
      if (adjacencies_[at].stamp != stamp_) adjacencies_[at] = adjacency;
      if (adjacencies_[at] == adjacency) return at;
    }
    return kAdjacencies;
  }

  void forget_all() noexcept {
    for (std::uint32_t i = 0; i < kSlots; ++i) flows_[i] = {};
    for (std::uint32_t i = 0; i < kAdjacencies; ++i) adjacencies_[i] = {};
    stamp_ = 1;
  }

  tables::PageArray<L3Flow> flows_;
  tables::PageArray<L3Adjacency> adjacencies_;
  std::uint32_t stamp_ = 1;
  std::uint64_t routes_ = 0;
  std::uint32_t neighbours_ = 0;
  std::uint32_t links_ = 0;
};

}  // namespace weft::stages
