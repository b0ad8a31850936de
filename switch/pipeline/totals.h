// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// What an engine counts: where packets came from and went, per switch, stage and port.
#pragma once

#include <array>
#include <cstdint>

#include "switch/base/counters.h"
#include "switch/pipeline/drop_reason.h"

namespace weft::pipeline {

/// Where a worker's packets of one switch came from and went to. In every quiet moment
/// rx + generated + replicated + handed_in = tx + consumed + sum(dropped) + held + handed_out.
struct alignas(64) FlowTotals {
  Counter rx, rx_bytes;
  Counter generated;   ///< packets that the switch itself made (ARP, ICMP, CNP, NACK)
  Counter replicated;  ///< copies made for flooding and duplication
  Counter tx, tx_bytes;
  Counter consumed;                               ///< packets whose destination was the switch itself
  Counter handed_in, handed_out;                  ///< through rings between this switch's workers
  std::array<Counter, kDropReasonSlots> dropped;  ///< by DropReason

  /// Packets dropped for any reason.
  [[nodiscard]] std::uint64_t all_dropped() const noexcept {
    std::uint64_t sum = 0;
    for (const Counter& reason : dropped) sum += reason.value();
    return sum;
  }
  /// Packets that began in the switch, and those that ended in it.
  [[nodiscard]] std::uint64_t made() const noexcept { return generated.value() + replicated.value(); }
  [[nodiscard]] std::uint64_t ended() const noexcept { return consumed.value() + all_dropped(); }
};

/// What one stage instance did in one half of the pipeline.
struct StageTotals {
  Counter packets, bursts;
  Counter cycles;  ///< TSC cycles, 0 where the host of the pipeline does not meter
};

/// Per port, kept by the port's owner (tx, and what is dropped at its queue) and by the workers that its packets meet.
struct alignas(64) PortTotals {
  Counter rx, rx_bytes, tx, tx_bytes;
  Counter dropped;                                   ///< at the port's egress queue
  std::array<Counter, kDropReasonSlots> in_dropped;  ///< packets that came in here, wherever dropped, by DropReason
};

}  // namespace weft::pipeline
