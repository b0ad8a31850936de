// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// SwitchML's slot rules as its P4 program and its DPDK client have them (Sapio et al., NSDI '21): two sets of slots,
// a bitmap and a counter for each slot, no sequence number in the switch. A worker has one packet outstanding; the
// packets take the two sets in turns. A packet clears its worker's bit in the other set, so that the slot is ready for
// the packet after next: that is right as long as no older packet of this worker is still under way.
//
// Model, not the original: two workers, one slot in each set, channels 0 and 1 to the switch and 2 and 3 back.
#pragma once

#include <array>
#include <optional>
#include <string>

#include "tests/collectives/comparators/search.h"

namespace weft::inc::comparators {

class SwitchMl {
 public:
  static constexpr std::uint8_t kWorkers = 2, kPackets = 4, kAll = 3;

  struct Slot {
    std::uint8_t bitmap = 0, missing = 0;
    std::uint16_t value = 0;
  };
  struct Worker {
    std::uint8_t next = 0;  ///< packet that is outstanding; kPackets when all results are there
    bool wrong = false;     ///< a result had something else in it than each worker's data once
  };
  struct State {
    std::array<Worker, kWorkers> workers;
    std::array<Slot, 2> sets;
    Network network;
  };

  explicit SwitchMl(const Faults& faults) : faults_(faults) {}

  [[nodiscard]] State start() const {
    State s;
    s.network.left = faults_;
    for (std::uint8_t w = 0; w < kWorkers; ++w) send(s, w);
    return s;
  }

  template <class Hash>
  void hash_state(const State& s, Hash& h) const {
    for (const Worker& w : s.workers) h(std::uint64_t{w.next} << 8 | (w.wrong ? 1 : 0));
    for (const Slot& slot : s.sets) h(std::uint64_t{slot.value} << 16 | std::uint64_t{slot.bitmap} << 8 | slot.missing);
    s.network.hash_state(h, 2 * kWorkers);
  }

  template <class Visit>
  void steps(const State& s, Visit&& visit) const {
    Network::deliver(
        s, [](State& n, const Flight& f) { arrive(n, f); }, visit);
    timeouts(
        s,
        [](State& n, std::uint8_t w) {
          if (n.workers[w].next == kPackets) return false;
          send(n, w);
          return true;
        },
        visit);
  }

  [[nodiscard]] std::optional<std::string> wrong(const State& s, bool last) const {
    for (const Worker& w : s.workers) {
      if (w.wrong) return "a result is not what a single machine would add up";
      if (last && w.next != kPackets) return "a worker waits for ever";
    }
    return std::nullopt;
  }

 private:
  /// Two bits for each packet of each worker.
  [[nodiscard]] static std::uint16_t data(std::uint8_t worker, std::uint8_t packet) {
    return static_cast<std::uint16_t>(1u << 2 * (kWorkers * packet + worker));
  }
  static void send(State& s, std::uint8_t w) {
    const std::uint8_t packet = s.workers[w].next;
    s.network.put(w, packet, static_cast<std::uint8_t>(1u << w), data(w, packet));
  }
  static void arrive(State& s, const Flight& f) {
    if (f.channel < kWorkers) return at_switch(s, f);
    const auto w = static_cast<std::uint8_t>(f.channel - kWorkers);
    Worker& worker = s.workers[w];
    if (f.packet != worker.next) return;
    worker.wrong = f.value != (data(0, f.packet) | data(1, f.packet));
    if (++worker.next < kPackets) send(s, w);
  }
  static void at_switch(State& s, const Flight& f) {
    const std::uint8_t set = f.packet & 1, own = f.workers;
    Slot& slot = s.sets[set];
    const bool again = (slot.bitmap & own) != 0;
    slot.bitmap |= own;
    s.sets[1 - set].bitmap &= static_cast<std::uint8_t>(~own);
    if (again) {
      if (slot.missing == 0) s.network.put(static_cast<std::uint8_t>(kWorkers + f.channel), f.packet, own, slot.value);
      return;
    }
    const bool first = slot.missing == 0;
    slot.value = first ? f.value : static_cast<std::uint16_t>(slot.value + f.value);
    slot.missing = static_cast<std::uint8_t>((first ? kWorkers : slot.missing) - 1);
    if (slot.missing > 0) return;
    for (std::uint8_t w = 0; w < kWorkers; ++w) {
      s.network.put(static_cast<std::uint8_t>(kWorkers + w), f.packet, own, slot.value);
    }
  }

  Faults faults_;
};

}  // namespace weft::inc::comparators
