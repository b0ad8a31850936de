// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Virtual time: events in the order of (time, sequence), where sequence is the order of the calls of schedule().
//
// Time is in integer nanoseconds, as on the data path. Serialisation at 400 Gbit/s takes fractions of them: these are
// carried on by the wires themselves (pipeline::EgressQueue), so that rates are exact.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "switch/base/time.h"

namespace weft::sim {

class EventQueue;

/// Something that happens at a time: at most one time for each object. Outlives the queue, or is cancelled before.
class Event {
 public:
  virtual ~Event() = default;
  /// The time has come. It may schedule itself again.
  virtual void fire(TimeNs now) = 0;
  /// kNever when it is not scheduled.
  [[nodiscard]] TimeNs at() const noexcept { return at_; }

 protected:
  Event() = default;
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

 private:
  friend class EventQueue;
  TimeNs at_ = kNever;
  std::uint64_t sequence_ = 0;
  Event* next_ = nullptr;  ///< in its slot; the last one's is the first
  Event* prev_ = nullptr;
  bool near_ = false;
};

/// Nearly all events lie a few microseconds ahead: they have a slot for each nanosecond, found by a bitmap. The others
/// wait in a heap until they are near.
class EventQueue {
 public:
  EventQueue();

  /// Sets or moves an event. A time that has passed means now; kNever cancels. An event that has this time already
  /// keeps its place.
  void schedule(Event& event, TimeNs at);
  void cancel(Event& event) { schedule(event, kNever); }

  /// Time of the next event; kNever when there is none.
  [[nodiscard]] TimeNs next_time();
  /// Fires the next event, whose time becomes now(). False when there is none.
  bool step();
  [[nodiscard]] const TimeNs& now() const noexcept { return now_; }
  /// Events that were fired.
  [[nodiscard]] std::uint64_t fired() const noexcept { return fired_; }

 private:
  static constexpr std::uint32_t kSlots = 1u << 14;
  static constexpr std::uint32_t kMask = kSlots - 1;
  static constexpr std::uint32_t kWords = kSlots / 64;
  struct Far {
    TimeNs at;
    std::uint64_t sequence;
    Event* event;
    [[nodiscard]] bool later(const Far& o) const noexcept { return at != o.at ? at > o.at : sequence > o.sequence; }
  };
  void insert_near(Event& event) noexcept;
  void remove(Event& event) noexcept;
  [[nodiscard]] const Far* first_far();
  void pop_far();
  void advance(TimeNs to);
  [[nodiscard]] TimeNs next_near() const noexcept;

  TimeNs now_ = 0;
  std::uint64_t sequence_ = 0;
  std::uint64_t fired_ = 0;
  std::uint64_t near_count_ = 0;
  std::vector<Event*> slots_;
  std::array<std::uint64_t, kWords> bits_{};
  std::array<std::uint64_t, kWords / 64> summary_{};
  std::vector<Far> far_;  ///< a heap; entries whose sequence is not their event's are void
};

}  // namespace weft::sim
