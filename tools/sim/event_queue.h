// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Virtual time: events in the order of (time, phase, device, kind, link), which says everything: it does not matter who
// called schedule() first.
//
// Time is in integer nanoseconds, as on the data path. Serialisation at 400 Gbit/s takes fractions of them: these are
// carried on by the wires themselves (pipeline::EgressQueue), so that rates are exact.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "switch/base/time.h"

namespace weft::sim {

class EventQueue;

/// Which of the events of one instant comes first. No two events of a run have the same.
class EventOrder {
 public:
  /// In an instant, links go down and transfers begin before packets move, and who counts comes last. Packets move
  /// device by device: switches do not wait until all that arrives in this nanosecond is there. If they did, the hosts
  /// of a symmetric experiment would march in step, and adaptive routing would spread each step without a collision.
  enum class Phase : std::uint8_t { change, traffic, look };
  enum class Kind : std::uint8_t { fault, routes, start, arrival, port, timers, inbox, sample, limit };

  /// @param device  number of the switch or host, below 2^24; hosts come behind the switches
  /// @param link    port of the device, or a number that tells its events of this kind apart; an arrival belongs to the
  ///                device and the port that have sent the packet
  constexpr EventOrder(Phase phase, std::uint32_t device, Kind kind, std::uint32_t link = 0) noexcept
      : key_(std::uint64_t{static_cast<std::uint8_t>(phase)} << 62 | std::uint64_t{device & 0xffffff} << 38 |
             std::uint64_t{static_cast<std::uint8_t>(kind)} << 32 | link) {}
  [[nodiscard]] constexpr std::uint64_t key() const noexcept { return key_; }

 private:
  std::uint64_t key_;
};

/// Something that happens at a time: at most one time for each object. Outlives the queue, or is cancelled before.
class Event {
 public:
  virtual ~Event() = default;
  /// The time has come. It may schedule itself again.
  virtual void fire(TimeNs now) = 0;
  /// kNever when it is not scheduled.
  [[nodiscard]] TimeNs at() const noexcept { return at_; }

 protected:
  explicit Event(EventOrder order) noexcept : order_(order.key()) {}
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  /// Of an event that has not been scheduled yet.
  void set_order(EventOrder order) noexcept { order_ = order.key(); }

 private:
  friend class EventQueue;
  TimeNs at_ = kNever;
  std::uint64_t order_;
  std::uint64_t times_scheduled_ = 0;  ///< tells which of its entries in the heap is the last one
  Event* next_ = nullptr;              ///< in its slot, which begins with the one that was scheduled last
  Event* prev_ = nullptr;
  bool near_ = false;
};

/// Nearly all events lie a few microseconds ahead: they have a slot for each nanosecond, found by a bitmap, and get
/// their order when its time comes. The others wait in a heap until they are near.
class EventQueue {
 public:
  EventQueue();

  /// Sets or moves an event. A time that has passed means now; kNever cancels.
  void schedule(Event& event, TimeNs at);
  void cancel(Event& event) { schedule(event, kNever); }

  /// Time of the next event; kNever when there is none.
  [[nodiscard]] TimeNs next_time();
  /// Schedules an event for now; fires it at once when it would be the next one. The last thing that a fire() does.
  void fire_now(Event& event);
  /// Fires the next event, whose time becomes now(). False when there is none.
  bool step();
  /// Fires all events before `until`.
  void run_before(TimeNs until);
  /// Makes `now` the time, without firing anything: all events before have been fired.
  void begin(TimeNs now);
  [[nodiscard]] const TimeNs& now() const noexcept { return now_; }
  /// Events that were fired.
  [[nodiscard]] std::uint64_t fired() const noexcept { return fired_; }

 private:
  static constexpr std::uint32_t kSlots = 1u << 14;
  static constexpr std::uint32_t kMask = kSlots - 1;
  static constexpr std::uint32_t kWords = kSlots / 64;
  struct Entry {
    std::uint64_t key;        ///< the time of far events, the order of those that are due
    std::uint64_t scheduled;  ///< void when its event has another one by now
    Event* event;
  };
  static bool later(const Entry& a, const Entry& b) noexcept { return a.key > b.key; }
  [[nodiscard]] static bool is_void(const Entry& entry) noexcept {
    return entry.event->times_scheduled_ != entry.scheduled;
  }
  void insert_near(Event& event) noexcept;
  void remove(Event& event) noexcept;
  void clear_slot(std::uint32_t slot) noexcept;
  [[nodiscard]] static const Entry* first_of(std::vector<Entry>& heap);
  static void pop(std::vector<Entry>& heap);
  void advance(TimeNs to);
  [[nodiscard]] bool is_due();
  [[nodiscard]] Event& take_due();
  void fire(Event& event);
  [[nodiscard]] TimeNs next_near() const noexcept;

  TimeNs now_ = 0;
  std::uint64_t fired_ = 0;
  std::uint64_t near_count_ = 0;
  std::vector<Event*> slots_;
  std::array<std::uint64_t, kWords> bits_{};
  std::array<std::uint64_t, kWords / 64> summary_{};
  std::vector<Entry> due_;  ///< the events of now, in their order; those before next_due_ have been fired
  std::size_t next_due_ = 0;
  std::vector<Entry> added_;  ///< a heap of those that were scheduled for now while others of now were fired
  std::vector<Entry> far_;    ///< a heap of those that are not near
};

}  // namespace weft::sim
