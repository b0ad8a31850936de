// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// The packet memory of a switch, shared by all ports: who may have how much of it.
//
// Every packet is charged twice: to the priority group of the port on which it came in, and to the queue of the port
// through which it leaves. On its way from one worker to another it is charged to its group alone. Groups have a
// reserve, then what the threshold lets them have of the shared part, then, if they are lossless, headroom. Memory is
// what the groups hold; queues only have thresholds.
//
// The models: facts of the HPCC simulator (Li et al., SIGCOMM 2019) and of ConWeave's (Song et al., SIGCOMM 2023).
//   threshold of a group or queue = (shared size - shared in use) * 2^dynamic_th
//   hpcc: a packet is dropped when its group is beyond the threshold and its headroom is full.
//   conweave: and when its queue is beyond the queue's own threshold.
//   XOFF: headroom is in use, or the group's shared bytes have reached the threshold.
//   XON: no headroom is in use, and the group's shared bytes are none, or xon_offset below the threshold.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>

#include "switch/qos/gauge.h"
#include "switch/qos/settings.h"

namespace weft::qos {

/// What became of a packet that asked for room.
enum class Admission : std::uint8_t {
  admitted,
  queue_limit,    ///< its queue is beyond its threshold
  group_limit,    ///< its group is beyond its threshold and has no headroom
  headroom_full,  ///< so is the headroom of a lossless group: the sender did not heed PFC in time
};

class SharedBuffer {
 public:
  /// What a share looks like when it is asked about for every packet.
  struct Limit {
    std::uint64_t reserve = 0;
    std::uint64_t most = 0;   ///< static threshold; unlimited with a dynamic one
    std::uint64_t fixed = 0;  ///< all ones with a static threshold, which `most` then is
    std::uint32_t shift = 0;  ///< 8 - dynamic_th
    /// Bytes beyond the reserve that may be held while `free` shared bytes are.
    [[nodiscard]] std::uint64_t threshold(std::uint64_t free) const noexcept {
      return std::min(most, (free << 8 >> shift) | fixed);
    }
    [[nodiscard]] std::uint64_t beyond_reserve(std::uint64_t bytes) const noexcept {
      return bytes > reserve ? bytes - reserve : 0;
    }
  };
  /// A priority group of an ingress port. Any worker charges it.
  struct alignas(64) Group {
    Gauge bytes;     ///< reserve and shared
    Gauge headroom;  ///< bytes in the headroom
    Limit limit;
    std::uint64_t headroom_limit = 0;
    std::uint32_t xon_offset = 0;
    Gauge peak_bytes, peak_headroom;
    Gauge drops;  ///< packets that did not get in
  };
  /// A queue of an egress port. Only the port's owner charges it.
  struct alignas(64) Queue {
    Gauge bytes, packets;
    Gauge peak_bytes;
    Limit limit;
  };

  /// @param shared_by_workers  several threads charge and release at the same time
  SharedBuffer(const Settings& settings, bool shared_by_workers);

  /// Charges a packet of `length` bytes, or says why not. With several workers each may be admitted one packet beyond a
  /// threshold that another has just used up; no byte is lost track of.
  template <bool kShared>
  [[nodiscard]] Admission admit(Group& group, Queue& queue, std::uint32_t length) noexcept {
    const std::uint64_t free = shared_free();
    if (!fits(queue, length, free)) return Admission::queue_limit;
    const Admission verdict = admit_to_group<kShared>(group, length, free);
    if (verdict == Admission::admitted) [[likely]]
      charge_queue(queue, length);
    return verdict;
  }
  [[nodiscard]] Admission admit(Group& group, Queue& queue, std::uint32_t length) noexcept {
    return shared_by_workers_ ? admit<true>(group, queue, length) : admit<false>(group, queue, length);
  }

  /// The first half of admit(), for a packet on its way to the worker that has its queue: it takes room from now on.
  [[nodiscard]] Admission admit_to_group(Group& group, std::uint32_t length) noexcept {
    return admit_to_group<true>(group, length, shared_free());
  }
  /// The second half, on the worker that has the queue. False beyond the queue's threshold: the group is still charged.
  [[nodiscard]] bool admit_to_queue(Queue& queue, std::uint32_t length) noexcept {
    if (!fits(queue, length, shared_free())) return false;
    charge_queue(queue, length);
    return true;
  }

  /// Charges a packet that is there already, whatever the limits say: a reload took it over.
  void charge(Group& group, Queue& queue, std::uint32_t length) noexcept {
    charge(group, length);
    charge_queue(queue, length);
  }
  /// The same for one that is not in a queue yet.
  void charge(Group& group, std::uint32_t length) noexcept { charge_group<true>(group, length); }

  /// Charges `packets` of together `length` bytes, of which the caller knows that they fit. Returns what it took of the
  /// shared part, of which use_shared() is to be told for all charges together.
  template <bool kShared>
  [[nodiscard]] static std::uint64_t charge_run(Group& group, Queue& queue, std::uint64_t length,
                                                std::uint64_t packets) noexcept {
    const std::uint64_t before = group.bytes.add<kShared>(length);
    group.peak_bytes.raise(before + length);
    queue.peak_bytes.raise(queue.bytes.add<false>(length) + length);
    queue.packets.add<false>(packets);
    return group.limit.beyond_reserve(before + length) - group.limit.beyond_reserve(before);
  }
  template <bool kShared>
  void use_shared(std::uint64_t bytes) noexcept {
    shared_peak_.raise(shared_used_.add<kShared>(bytes) + bytes);
  }

  /// Gives a packet's room back to its group. What was in headroom goes first, as in both models.
  template <bool kShared>
  void release(Group& group, std::uint32_t length) noexcept {
    std::uint64_t rest = length;
    if (group.headroom.value() != 0) [[unlikely]]
      rest -= group.headroom.take<kShared>(length);
    const std::uint64_t before = group.bytes.subtract<kShared>(rest);
    const std::uint64_t gone = group.limit.beyond_reserve(before) - group.limit.beyond_reserve(before - rest);
    shared_used_.subtract<kShared>(gone);
  }
  /// The same with the queue.
  void release(Group& group, Queue& queue, std::uint32_t length) noexcept {
    if (shared_by_workers_) {
      release<true>(group, length);
    } else {
      release<false>(group, length);
    }
    queue.bytes.subtract<false>(length);
    queue.packets.subtract<false>(1);
  }

  /// Its sender must stop, by the models above.
  [[nodiscard]] bool xoff(const Group& group) const noexcept;
  /// Its sender may go on. Never at the same time as xoff().
  [[nodiscard]] bool xon(const Group& group) const noexcept;

  /// Group of packets from an ingress port; port_count() stands for packets that the switch made.
  [[nodiscard]] Group& group(std::size_t port, unsigned group) noexcept {
    return groups_[std::min(port, ports_) * kClasses + group];
  }
  [[nodiscard]] const Group& group(std::size_t port, unsigned group) const noexcept {
    return groups_[std::min(port, ports_) * kClasses + group];
  }
  [[nodiscard]] Group* groups() noexcept { return groups_.get(); }
  [[nodiscard]] Queue& queue(std::size_t port, unsigned queue) noexcept { return queues_[port * kClasses + queue]; }
  [[nodiscard]] const Queue& queue(std::size_t port, unsigned queue) const noexcept {
    return queues_[port * kClasses + queue];
  }
  /// Bytes in all queues of a port.
  [[nodiscard]] std::uint64_t port_bytes(std::size_t port) const noexcept;

  [[nodiscard]] bool shared_by_workers() const noexcept { return shared_by_workers_; }
  [[nodiscard]] std::size_t port_count() const noexcept { return ports_; }
  [[nodiscard]] std::uint64_t shared_size() const noexcept { return shared_size_; }
  [[nodiscard]] std::uint64_t shared_used() const noexcept { return shared_used_.value(); }
  [[nodiscard]] std::uint64_t shared_peak() const noexcept { return shared_peak_.value(); }
  [[nodiscard]] std::uint64_t shared_free() const noexcept {
    const std::uint64_t used = shared_used();
    return used < shared_size_ ? shared_size_ - used : 0;
  }
  /// Threshold of a group or queue as things are.
  [[nodiscard]] std::uint64_t threshold(const Limit& limit) const noexcept { return limit.threshold(shared_free()); }

 private:
  [[nodiscard]] static bool fits(const Queue& queue, std::uint32_t length, std::uint64_t free) noexcept {
    return queue.limit.beyond_reserve(queue.bytes.value() + length) <= queue.limit.threshold(free);
  }
  template <bool kShared>
  [[nodiscard]] Admission admit_to_group(Group& group, std::uint32_t length, std::uint64_t free) noexcept {
    const std::uint64_t held = group.bytes.value();
    const std::uint64_t shared = group.limit.beyond_reserve(held + length);
    const std::uint64_t more = shared - group.limit.beyond_reserve(held);
    if (shared <= group.limit.threshold(free) && more <= free) [[likely]] {
      charge_group<kShared>(group, length);
      return Admission::admitted;
    }
    const std::uint64_t headroom = group.headroom.value() + length;
    if (headroom > group.headroom_limit) {
      return group.headroom_limit == 0 ? Admission::group_limit : Admission::headroom_full;
    }
    group.headroom.add<kShared>(length);
    group.peak_headroom.raise(headroom);
    return Admission::admitted;
  }
  template <bool kShared>
  void charge_group(Group& group, std::uint32_t length) noexcept {
    const std::uint64_t before = group.bytes.add<kShared>(length);
    const std::uint64_t more = group.limit.beyond_reserve(before + length) - group.limit.beyond_reserve(before);
    shared_peak_.raise(shared_used_.add<kShared>(more) + more);
    group.peak_bytes.raise(before + length);
  }
  static void charge_queue(Queue& queue, std::uint32_t length) noexcept {
    queue.peak_bytes.raise(queue.bytes.add<false>(length) + length);
    queue.packets.add<false>(1);
  }

  alignas(64) Gauge shared_used_;
  Gauge shared_peak_;
  std::uint64_t shared_size_ = 0;
  bool shared_by_workers_;
  std::size_t ports_;
  std::unique_ptr<Group[]> groups_;
  std::unique_ptr<Queue[]> queues_;
};

}  // namespace weft::qos
