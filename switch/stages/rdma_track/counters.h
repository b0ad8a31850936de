// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "switch/base/counters.h"

namespace weft::stages {

/// Counters of the rdma_track stage, in the order in which it shows them. The sums over queue pairs (packets to cnps)
/// include those that have aged out, and do not saturate.
enum class TrackCounter : std::uint8_t {
  qps_active,           ///< entries in the table now (one per direction)
  qps_learned_cm,       ///< entries made from CM messages
  qps_learned_config,   ///< entries made from the configuration
  qps_learned_traffic,  ///< entries made because of a packet
  qps_aged,             ///< entries removed because nothing was seen for too long
  table_full,           ///< entries that found no room
  untracked,            ///< RoCE packets without an entry, QP1 excepted
  pairs_cm,             ///< pairings of two directions, by source
  pairs_config,
  pairs_agent,
  pairs_traffic,
  pairs_dissolved,  ///< pairings given up because traffic contradicted them
  pairs_steered,    ///< connections that were given to another worker (`steer: qp`)
  steer_full,       ///< connections that stayed with the worker of their hosts for want of room
  cm_req,           ///< CM messages by kind
  cm_rep,
  cm_rtu,
  cm_rej,
  cm_dreq,
  cm_drep,
  cm_other,      ///< other CM messages, and other management datagrams to QP1
  cm_malformed,  ///< CM messages of another length than 256 bytes, or that contradict themselves
  cm_unmatched,  ///< REP, RTU, REJ or DREQ of a connection that was not seen
  packets,
  bytes,
  messages,
  out_of_order,
  retransmitted,
  duplicates,
  psn_restarts,  ///< PSNs too far from the expected one: a new connection on the same QPN
  nak_psn_sequence,
  nak_invalid_request,
  nak_remote_access,
  nak_remote_operational,
  nak_invalid_rd,
  nak_reserved,  ///< AETH syndromes that IBTA 9.7.5.2 reserves
  rnr_naks,
  ce,
  cnps,
  count_,
};

inline constexpr std::size_t kTrackCounters = static_cast<std::size_t>(TrackCounter::count_);

/// One worker's counters.
class TrackCounters {
 public:
  void add(TrackCounter c, std::uint64_t n = 1) noexcept { values_[static_cast<std::size_t>(c)].add(n); }
  void subtract(TrackCounter c, std::uint64_t n = 1) noexcept { add(c, ~n + 1); }
  [[nodiscard]] std::uint64_t value(TrackCounter c) const noexcept {
    return values_[static_cast<std::size_t>(c)].value();
  }
  [[nodiscard]] const std::array<Counter, kTrackCounters>& all() const noexcept { return values_; }

 private:
  std::array<Counter, kTrackCounters> values_;
};

/// Their names, as the enumerators are spelled.
inline constexpr std::array kTrackCounterNames{
    "qps_active",
    "qps_learned_cm",
    "qps_learned_config",
    "qps_learned_traffic",
    "qps_aged",
    "table_full",
    "untracked",
    "pairs_cm",
    "pairs_config",
    "pairs_agent",
    "pairs_traffic",
    "pairs_dissolved",
    "pairs_steered",
    "steer_full",
    "cm_req",
    "cm_rep",
    "cm_rtu",
    "cm_rej",
    "cm_dreq",
    "cm_drep",
    "cm_other",
    "cm_malformed",
    "cm_unmatched",
    "packets",
    "bytes",
    "messages",
    "out_of_order",
    "retransmitted",
    "duplicates",
    "psn_restarts",
    "nak_psn_sequence",
    "nak_invalid_request",
    "nak_remote_access",
    "nak_remote_operational",
    "nak_invalid_rd",
    "nak_reserved",
    "rnr_naks",
    "ce",
    "cnps",
};
static_assert(kTrackCounterNames.size() == kTrackCounters);

}  // namespace weft::stages
