// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// A group that a switch runs: the engine's unit, and what its endpoints need to speak on a wire.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "collectives/engine/inc_engine.h"
#include "collectives/stage/block.h"
#include "collectives/stage/group_spec.h"
#include "collectives/stage/head_crc.h"
#include "collectives/stage/memory_pool.h"
#include "collectives/stage/sent_head.h"
#include "nic/rnic/frame.h"
#include "switch/base/time.h"
#include "switch/pipeline/owner_table.h"
#include "switch/pipeline/packet.h"
#include "switch/wire/parsed.h"

namespace weft::inc {

/// Where a peer is on a bridged switch. Any worker writes what it sees, the group's reads it: a mixture of an old and a
/// new position sends a packet astray, which is repaired like a loss.
class Neighbour {
 public:
  struct Position {
    wire::MacAddress mac{};
    pipeline::PortIndex port = pipeline::kNoPort;  ///< kNoPort: not known
    bool tagged = false;
    std::uint16_t vlan_tci = 0;
  };
  [[nodiscard]] Position get() const noexcept {
    const std::uint64_t where = where_.load(std::memory_order_relaxed);
    if (where == 0) return {};
    const std::uint32_t tag = tag_.load(std::memory_order_relaxed);
    return {wire::MacAddress::from_u64(where >> 16), static_cast<pipeline::PortIndex>(where), (tag >> 16) != 0,
            static_cast<std::uint16_t>(tag)};
  }
  void learn(const Position& p) noexcept {
    tag_.store((p.tagged ? 0x10000u : 0u) | p.vlan_tci, std::memory_order_relaxed);
    where_.store(p.mac.to_u64() << 16 | p.port, std::memory_order_relaxed);
  }
  void forget() noexcept { where_.store(0, std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> where_{0};  ///< MAC << 16 | port
  std::atomic<std::uint32_t> tag_{0};    ///< tagged << 16 | TCI
};

/// The wire's side of an endpoint.
struct Edge {
  nic::HeaderTemplate head;                           ///< Ethernet addresses are filled in on the way out
  std::array<SentHead, SentHead::kKinds> sent_heads;  ///< of our packets, by SentHead::kind()
  wire::Qpn peer_qp{};
  std::uint32_t flow = 0;      ///< of our packets: their PacketRoute::qp_handle
  ArrivedHeadCrc arrived_crc;  ///< of the peer's packets
  Neighbour neighbour;
  TimeNs asked = 0;  ///< when the neighbour was last asked for, 0: never
  TimeNs heard = 0;  ///< when the last packet with a right ICRC came, 0: never
  std::uint64_t packets = 0, bytes = 0, bad_icrc = 0, sent = 0;
};

/// Frees the flows of a group in an OwnerTable.
class Ownership {
 public:
  /// Binds the flows of all endpoints to one worker. `table` may be null: then the hash decides (tests of one worker).
  Ownership(pipeline::OwnerTable* table, const GroupSpec& spec, std::uint16_t worker);
  ~Ownership();
  Ownership(const Ownership&) = delete;
  Ownership& operator=(const Ownership&) = delete;
  /// Empty; or why packets might go to other workers.
  [[nodiscard]] const std::string& error() const noexcept { return error_; }

 private:
  pipeline::OwnerTable* table_;
  std::optional<pipeline::OwnerGroup> group_;
  std::vector<std::pair<std::uint64_t, wire::Qpn>> flows_;
  std::string error_;
};

/// What the parser reads of a packet from `source` to `destination`.
[[nodiscard]] wire::Parsed parsed_between(const wire::IpAddress& source, const wire::IpAddress& destination);
/// Its address_key.
[[nodiscard]] std::uint64_t address_key(const wire::IpAddress& source, const wire::IpAddress& destination);

/// How many collectives a group has begun: the protocol numbers them with 16 bits (ControlMessage::sequence).
/// @param begun  as many as there were at most 65,535 collectives ago
/// @param next   the number of the next one
[[nodiscard]] constexpr std::uint64_t count_on(std::uint64_t begun, std::uint16_t next) noexcept {
  return begun + static_cast<std::uint16_t>(next - begun);
}

/// One worker runs it; what control threads may read while it does is said with each member.
struct RunningGroup {
  /// @param memory  empty: the unit allocates its own
  /// @param key     of the block whose region the memory is; nullptr: no other group has it
  RunningGroup(GroupSpec spec, MemoryPool::Region memory, std::unique_ptr<BlockKey> key, std::uint32_t generation,
               std::uint16_t worker, bool from_command, pipeline::OwnerTable* owners);

  const GroupSpec spec;            ///< any thread
  const std::uint32_t generation;  ///< counts the groups of a switch: tells one from a later one with the same id
  const std::uint16_t worker;
  const bool from_command;  ///< a reload keeps it, whatever the file says
  const MemoryPool::Region memory;
  const std::unique_ptr<BlockKey> key;  ///< of memory that other groups have, too; nullptr: it is its own
  const Ownership ownership;
  IncEngine unit;
  std::vector<Edge> edges;      ///< by endpoint; the neighbours: any worker
  GroupCounters counted;        ///< of these the stage's counters know
  std::uint64_t begun = 0;      ///< collectives, see count_on()
  bool failed = false;          ///< the stage's counters know of it
  bool touched = false;         ///< there may be more
  bool adds_unchecked = false;  ///< IncEngine::adds_unchecked() after the last burst
  TimeNs completed = 0;         ///< when a sum became complete last
  TimeNs contributed = 0;       ///< when the first contribution behind that came, 0: none has

  [[nodiscard]] std::uint32_t id() const noexcept { return spec.config.id; }
};

}  // namespace weft::inc
