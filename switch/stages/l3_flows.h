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

/// The way out of one IPv4 flow.
struct alignas(32) L3Flow {
  std::uint64_t addresses;  ///< Parsed::address_key
  std::uint64_t mac_head;   ///< the first eight bytes of the frame when it leaves
  std::uint32_t mac_tail;   ///< the four behind them
  std::uint32_t stamp;      ///< of the decision; 0: there is none
  std::uint16_t source_port;
  pipeline::PortIndex port;
  std::uint16_t max_bytes;  ///< largest IP packet
  std::uint16_t balanced;   ///< 1: the route is a group, whose member `lb` chose
};
static_assert(sizeof(L3Flow) == 32);

/// Of one worker and switch. A flow has its place by PacketMeta::qp_handle. Two flows fit into one place; where there
/// are more, they push each other out, and then take the long way.
class L3Flows {
 public:
  L3Flows() : places_(kPlaces) {}

  /// Start of a burst. Every number counts changes of something that decisions depend on.
  void begin(std::uint64_t routes, std::uint32_t neighbours, std::uint32_t links) noexcept {
    if (routes == routes_ && neighbours == neighbours_ && links == links_) [[likely]]
      return;
    routes_ = routes;
    neighbours_ = neighbours;
    links_ = links;
    if (++stamp_ == 0) forget_all();
  }

  void prefetch(std::uint32_t handle) const noexcept { __builtin_prefetch(&places_[place_of(handle)]); }

  /// The decision for a packet of kind roce over IPv4; nullptr when there is none that holds.
  [[nodiscard]] const L3Flow* find(const pipeline::PacketMeta& pm) const noexcept {
    const Place& place = places_[place_of(pm.qp_handle)];
    const L3Flow& first = place.flow[0];
    const L3Flow& flow =
        first.addresses == pm.parsed.address_key && first.source_port == pm.parsed.source_port ? first : place.flow[1];
    const bool holds = flow.addresses == pm.parsed.address_key && flow.stamp == stamp_ &&
                       flow.source_port == pm.parsed.source_port && pm.qp_handle != 0;
    return holds ? &flow : nullptr;
  }

  /// Notes the decision for a tracked packet.
  void remember(const pipeline::PacketMeta& pm, const tables::NextHop& hop, tables::NeighbourWord neighbour,
                bool balanced) noexcept {
    if (pm.qp_handle == 0 || pm.parsed.has(wire::ParsedFlag::ipv6)) return;
    place_for(pm) = {.addresses = pm.parsed.address_key,
                     .mac_head = neighbour.mac_bytes() | hop.mac_head,
                     .mac_tail = hop.mac_tail,
                     .stamp = stamp_,
                     .source_port = pm.parsed.source_port,
                     .port = hop.port,
                     .max_bytes = static_cast<std::uint16_t>(std::min(hop.mtu_bytes, 0xffffu)),
                     .balanced = static_cast<std::uint16_t>(balanced ? 1 : 0)};
  }

  /// Sends an IPv4 packet whose TTL is more than 1 the way of its flow.
  static void forward(rte_mbuf* m, const L3Flow& flow) noexcept {
    pipeline::PacketMeta& pm = pipeline::meta(m);
    std::uint8_t* frame = pipeline::frame(m);
    __builtin_memcpy(frame, &flow.mac_head, sizeof flow.mac_head);
    __builtin_memcpy(frame + sizeof flow.mac_head, &flow.mac_tail, sizeof flow.mac_tail);
    wire::decrement_ttl(wire::header_at<wire::Ipv4Header>(frame + sizeof(wire::EthernetHeader)));
    --pm.parsed.ttl;
    pm.out_port = flow.port;
  }

 private:
  static constexpr unsigned kPlaceBits = 13;
  static constexpr std::uint32_t kPlaces = 1u << kPlaceBits;
  struct alignas(64) Place {
    L3Flow flow[2];
  };

  // Handles are positions in a table with buckets, whose first entries are taken before the others.
  static std::uint32_t place_of(std::uint32_t handle) noexcept { return handle * 0x9e3779b1u >> (32 - kPlaceBits); }
  // Over the flow's own older decision, or the one that does not hold any more, or else the older one of the two.
  [[nodiscard]] L3Flow& place_for(const pipeline::PacketMeta& pm) noexcept {
    Place& place = places_[place_of(pm.qp_handle)];
    const auto own = [&](const L3Flow& flow) {
      return flow.stamp != stamp_ ||
             (flow.addresses == pm.parsed.address_key && flow.source_port == pm.parsed.source_port);
    };
    if (own(place.flow[0])) return place.flow[0];
    if (!own(place.flow[1])) place.flow[0] = place.flow[1];
    return place.flow[1];
  }

  void forget_all() noexcept {
    for (std::uint32_t i = 0; i < kPlaces; ++i) places_[i] = {};
    stamp_ = 1;
  }

  tables::PageArray<Place> places_;
  std::uint32_t stamp_ = 1;
  std::uint64_t routes_ = 0;
  std::uint32_t neighbours_ = 0;
  std::uint32_t links_ = 0;
};

}  // namespace weft::stages
