// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// A part of the network that runs by itself for as long as nothing that others do can reach it: devices with their
// events, and the links that bring packets from elsewhere.
#pragma once

#include <cstdint>
#include <vector>

#include "tools/sim/event_queue.h"
#include "tools/sim/observer.h"

namespace weft::sim {

class Link;

/// What devices of a partition count together. Who adds them up waits until it stands still.
struct PartitionCounters {
  std::uint64_t ended = 0;      ///< transfers whose sender knows that they have arrived
  std::uint64_t failed = 0;     ///< transfers that a queue pair gave up
  std::uint64_t datagrams = 0;  ///< that arrived at hosts
};

/// One thread at a time uses a partition. What it sends to others lies in the links until hand_over().
class alignas(64) Partition {
 public:
  [[nodiscard]] EventQueue& events() noexcept { return events_; }
  [[nodiscard]] const EventQueue& events() const noexcept { return events_; }
  [[nodiscard]] Witness& witness() noexcept { return witness_; }
  [[nodiscard]] const Witness& witness() const noexcept { return witness_; }
  [[nodiscard]] PartitionCounters& counters() noexcept { return counters_; }
  [[nodiscard]] const PartitionCounters& counters() const noexcept { return counters_; }

  /// Takes in what has been handed over, and fires all events before `until`.
  void run(TimeNs until);
  /// Time of the next event, kNever when there is none. While the partition stands still.
  [[nodiscard]] TimeNs next() const noexcept { return next_; }
  /// Events of now() are still to come, and what is scheduled for now comes with them. While the partition stands
  /// still, and when all before has been fired.
  void begin(TimeNs now);
  /// Events have been scheduled from outside.
  void look_again() { next_ = events_.next_time(); }

  /// A link out of the partition has got its first packet since hand_over().
  void note_sent(Link& link) { sent_.push_back(&link); }
  /// Gives what has been sent to the partitions that it is for. While all stand still.
  void hand_over();

  /// Something of which all must hear has happened: the run ends.
  void ask_to_stop() noexcept { stop_ = true; }
  [[nodiscard]] bool asks_to_stop() const noexcept { return stop_; }

 private:
  void take_in();

  EventQueue events_;
  Witness witness_;
  PartitionCounters counters_;
  std::vector<Link*> sent_;      ///< with packets for others
  std::vector<Link*> incoming_;  ///< with packets of others
  TimeNs next_ = kNever;
  bool stop_ = false;
};

}  // namespace weft::sim
