// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// A packet on the data path: an rte_mbuf whose private area carries what weft knows about it.
#pragma once

#include <rte_mbuf.h>
#include <rte_mbuf_dyn.h>

#include <cstddef>
#include <cstdint>

#include "switch/base/time.h"
#include "switch/wire/parsed.h"

namespace weft::pipeline {

/// Index of a port within its switch, in the order of the YAML file.
using PortIndex = std::uint16_t;
inline constexpr PortIndex kNoPort = 0xffff;

/// Set by l3 when an equal-cost group, not a port, was found: `lb` turns it into a port and a next hop.
inline constexpr PortIndex kGroupPort = 0xfffe;

/// Bit of PacketRoute::qp_handle: no table of queue pairs has so many entries.
inline constexpr std::uint32_t kOwnFlow = 0x80000000;

/// Where a packet came from and where it goes. Sixteen bytes, so that reception writes them at once.
struct PacketRoute {
  PortIndex in_port = kNoPort;    ///< where it came from; kNoPort for packets that the switch made
  PortIndex out_port = kNoPort;   ///< where it goes: kNoPort until decided, kGroupPort when `next_hop` is a group
  std::uint32_t next_hop = 0;     ///< l3: index of the next hop, or of the group when out_port is kGroupPort
  std::uint8_t stage = 0;         ///< ring to another worker: index of the ingress stage to go on with
  std::uint8_t switch_index = 0;  ///< ring to another worker: the switch it belongs to
  std::uint8_t queue_class = 0;   ///< traffic class of the egress queue
  /// It had room in the shared buffer, which was given back so that admission charges it again: limits that have become
  /// lower meanwhile must not drop it now.
  bool had_room = false;
  /// rdma_track: its handle of the packet's QP entry on this worker; 0 when untracked. With kOwnFlow: the packet's flow
  /// as the stage that made it numbers its own, which l3 knows again; for rdma_track it is untracked.
  std::uint32_t qp_handle = 0;
};
static_assert(sizeof(PacketRoute) == 16);

/// Per-packet scratch in the mbuf's private area, one cache line. The worker that received the packet fills it; it
/// travels with the packet through rings between workers.
struct alignas(64) PacketMeta : PacketRoute {
  wire::Parsed parsed{};  ///< written by the parse stage, once
  TimeNs arrived = 0;     ///< when the switch received or made it
};
static_assert(sizeof(PacketMeta) == 64);

/// Size that the private area of every mempool of weft has at least.
inline constexpr std::size_t kMetaSize = sizeof(PacketMeta);

/// The private area directly follows struct rte_mbuf.
[[nodiscard]] inline PacketMeta& meta(rte_mbuf* m) noexcept {
  return *reinterpret_cast<PacketMeta*>(m + 1);
}
[[nodiscard]] inline const PacketMeta& meta(const rte_mbuf* m) noexcept {
  return *reinterpret_cast<const PacketMeta*>(m + 1);
}

namespace detail {
extern int scratch_offset;  ///< in an mbuf; negative until the first pool has been made
}

/// Eight bytes that the engine uses while it moves a packet from one place to another, for as long as no stage has it.
/// make_pool() has DPDK reserve them.
[[nodiscard]] inline std::uint64_t& scratch(rte_mbuf* m) noexcept {
  return *RTE_MBUF_DYNFIELD(m, detail::scratch_offset, std::uint64_t*);
}

/// First byte of the frame. Headers that the parser read lie contiguously from here.
[[nodiscard]] inline std::uint8_t* frame(rte_mbuf* m) noexcept {
  return rte_pktmbuf_mtod(m, std::uint8_t*);
}
[[nodiscard]] inline const std::uint8_t* frame(const rte_mbuf* m) noexcept {
  return rte_pktmbuf_mtod(m, const std::uint8_t*);
}

/// Bytes that the parser wants to see contiguously: Ethernet, two tags, IPv6 with extensions, UDP, BTH, AtomicETH.
inline constexpr std::uint32_t kHeaderBytes = 192;

}  // namespace weft::pipeline
