// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// How the flows of tracked queue pairs leave: what l3 and lb decided for one packet holds for the next one of the same
// flow, as long as routes, neighbours and links stay as they are.
#pragma once

#include <algorithm>
#include <cstdint>

#include "switch/pipeline/packet.h"
#include "switch/tables/next_hops.h"
#include "switch/tables/page_memory.h"
#include "switch/wire/checksum.h"
#include "switch/wire/headers.h"

namespace weft::stages {

/// A way out of the switch, with all that IPv4 packets need to take it. Many flows share one.
struct alignas(32) L3Way {
  std::uint64_t mac_head;  ///< the first eight bytes of the frame when it leaves
  std::uint32_t mac_tail;  ///< the four behind them
  std::uint32_t stamp;     ///< of the decisions that lead here; another one: the place is free
  pipeline::PortIndex port;
  std::uint16_t max_bytes;  ///< largest IP packet
  std::uint32_t balanced;   ///< 1: the route is a group, whose member `lb` chose

  friend bool operator==(const L3Way&, const L3Way&) = default;
};
static_assert(sizeof(L3Way) == 32);

/// The way of one IPv4 flow.
struct alignas(16) L3Flow {
  std::uint64_t addresses;  ///< Parsed::address_key
  std::uint32_t stamp;      ///< of the decision; 0: there is none
  std::uint16_t source_port;
  std::uint16_t way;  ///< its number
};
static_assert(sizeof(L3Flow) == 16);

/// Of one worker and switch. A flow has its place by PacketMeta::qp_handle, or next to it. Where there are more, they
/// push each other out, and then take the long way.
class L3Flows {
 public:
  L3Flows() : flows_(kPlaces), ways_(kWays) {}

  /// Start of a burst. Every number counts changes of something that decisions depend on.
  void begin(std::uint64_t routes, std::uint32_t neighbours, std::uint32_t links) noexcept {
    if (routes == routes_ && neighbours == neighbours_ && links == links_) [[likely]]
      return;
    routes_ = routes;
    neighbours_ = neighbours;
    links_ = links;
    if (++stamp_ == 0) forget_all();
  }

  /// Where the flow of a packet is, if it is known. Starts loading it.
  [[nodiscard]] std::uint32_t place(std::uint32_t handle) const noexcept {
    const std::uint32_t at = place_of(handle);
    __builtin_prefetch(&flows_[at]);
    return at;
  }

  /// The way of the packet's flow, looked up at `place`; nullptr when no decision is kept or the kept one is old.
  [[nodiscard]] const L3Way* find(std::uint32_t place, const wire::Parsed& parsed) const noexcept {
    const auto holds = [&](const L3Flow& flow) {
      return flow.addresses == parsed.address_key && flow.stamp == stamp_ && flow.source_port == parsed.source_port;
    };
    if (holds(flows_[place])) [[likely]]
      return &ways_[flows_[place].way];
    const L3Flow& next = flows_[beside(place)];
    return holds(next) ? &ways_[next.way] : nullptr;
  }

  /// Notes the decision for a tracked packet.
  void remember(const pipeline::PacketMeta& pm, const tables::NextHop& hop, tables::NeighbourWord neighbour,
                bool balanced) noexcept {
    // Where packets without a handle look, none of them may find a flow.
    const std::uint32_t place = place_of(pm.qp_handle);
    if (place == place_of(0) || place == beside(place_of(0)) || pm.parsed.has(wire::ParsedFlag::ipv6)) return;
    const std::uint32_t way = way_of({.mac_head = neighbour.mac_bytes() | hop.mac_head,
                                      .mac_tail = hop.mac_tail,
                                      .stamp = stamp_,
                                      .port = hop.port,
                                      .max_bytes = static_cast<std::uint16_t>(std::min(hop.mtu_bytes, 0xffffu)),
                                      .balanced = balanced ? 1u : 0u});
    if (way == kWays) return;
    flow_for(place, pm.parsed) = {.addresses = pm.parsed.address_key,
                                  .stamp = stamp_,
                                  .source_port = pm.parsed.source_port,
                                  .way = static_cast<std::uint16_t>(way)};
  }

  /// Sends an IPv4 packet whose TTL is more than 1 on its way.
  static void forward(rte_mbuf* m, const L3Way& way) noexcept {
    pipeline::PacketMeta& pm = pipeline::meta(m);
    std::uint8_t* frame = pipeline::frame(m);
    __builtin_memcpy(frame, &way.mac_head, sizeof way.mac_head);
    __builtin_memcpy(frame + sizeof way.mac_head, &way.mac_tail, sizeof way.mac_tail);
    wire::decrement_ttl(wire::header_at<wire::Ipv4Header>(frame + sizeof(wire::EthernetHeader)));
    --pm.parsed.ttl;
    pm.out_port = way.port;
  }

 private:
  static constexpr unsigned kPlaceBits = 14;
  static constexpr std::uint32_t kPlaces = 1u << kPlaceBits;
  static constexpr std::uint32_t kWays = 4096;
  static constexpr std::uint32_t kWayTries = 8;

  // Handles are positions in a table with buckets of 16, counted from 1. Neighbours there are neighbours here, so that
  // the flows of few queue pairs take few cache lines. The first positions of a bucket are taken before the others: in
  // larger tables, buckets that share places begin at different ones.
  static constexpr std::uint32_t place_of(std::uint32_t handle) noexcept {
    const std::uint32_t position = handle - 1;
    return (position + (position >> kPlaceBits) * 5) % kPlaces;
  }
  static constexpr std::uint32_t beside(std::uint32_t place) noexcept { return place ^ 1; }
  // Over the flow's own older decision, or one that does not hold any more, or else what is at its place.
  [[nodiscard]] L3Flow& flow_for(std::uint32_t place, const wire::Parsed& parsed) noexcept {
    const auto own = [&](const L3Flow& flow) {
      return flow.stamp != stamp_ || (flow.addresses == parsed.address_key && flow.source_port == parsed.source_port);
    };
    if (!own(flows_[place]) && own(flows_[beside(place)])) return flows_[beside(place)];
    return flows_[place];
  }
  // Its number; kWays when there is no room: flows that lead there are not remembered.
  [[nodiscard]] std::uint32_t way_of(const L3Way& way) noexcept {
    const std::uint64_t hash =
        wire::mix64(way.mac_head ^ wire::detail::kMix0, way.mac_tail ^ way.port ^ wire::detail::kMix1);
    for (std::uint32_t i = 0; i < kWayTries; ++i) {
      const std::uint32_t at = static_cast<std::uint32_t>(hash + i) % kWays;
      if (ways_[at].stamp != stamp_) ways_[at] = way;
      if (ways_[at] == way) return at;
    }
    return kWays;
  }

  void forget_all() noexcept {
    for (std::uint32_t i = 0; i < kPlaces; ++i) flows_[i] = {};
    for (std::uint32_t i = 0; i < kWays; ++i) ways_[i] = {};
    stamp_ = 1;
  }

  tables::PageArray<L3Flow> flows_;
  tables::PageArray<L3Way> ways_;
  std::uint32_t stamp_ = 1;
  std::uint64_t routes_ = 0;
  std::uint32_t neighbours_ = 0;
  std::uint32_t links_ = 0;
};

}  // namespace weft::stages
