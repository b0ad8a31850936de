// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Counters with one writer (the worker) and any reader.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "switch/pipeline/drop_reason.h"

namespace weft::pipeline {

/// A 64-bit counter that exactly one thread increments and any thread may read without tearing. Who sees an increment
/// also sees every increment that happened before it.
class Counter {
 public:
  void add(std::uint64_t n) noexcept {
    value_.store(value_.load(std::memory_order_relaxed) + n, std::memory_order_release);
  }
  [[nodiscard]] std::uint64_t value() const noexcept { return value_.load(std::memory_order_acquire); }
  /// Goes on where another counter stands.
  void carry(const Counter& from) noexcept { add(from.value()); }

 private:
  std::atomic<std::uint64_t> value_{0};
};

/// Where a worker's packets of one switch came from and went to. In every quiet moment
/// rx + generated + replicated + handed_in = tx + consumed + sum(dropped) + held + handed_out.
struct alignas(64) FlowTotals {
  Counter rx, rx_bytes;
  Counter generated;   ///< packets that the switch itself made (ARP, ICMP, CNP, NACK)
  Counter replicated;  ///< copies made for flooding and duplication
  Counter tx, tx_bytes;
  Counter consumed;               ///< packets whose destination was the switch itself
  Counter handed_in, handed_out;  ///< through rings between this switch's workers
  std::array<Counter, kDropReasonCount> dropped;

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

/// Packets inside of something whose workers go on meanwhile, from counters. What left is read before what came:
/// nothing leaves without having come before, so the result is at least what was inside between both readings.
/// @param left, came  functions that read and sum up
template <typename Left, typename Came>
[[nodiscard]] std::uint64_t count_inside(Left&& left, Came&& came) {
  const std::uint64_t gone = left();
  return came() - gone;
}

/// What one stage instance did in one half of the pipeline.
struct StageTotals {
  Counter packets, bursts;
  Counter cycles;  ///< TSC cycles, 0 where the host of the pipeline does not meter
};

/// Per port, kept by the port's owner (tx) and by the worker that received (rx).
struct alignas(64) PortTotals {
  Counter rx, rx_bytes, tx, tx_bytes, dropped;
};

}  // namespace weft::pipeline
