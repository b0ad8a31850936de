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
//
// With several workers: each takes of the shared part by chunks, its credit, of which its bursts then take and to which
// they give back. So most of the time no worker writes what the others read. Nothing is given away twice: who takes of
// the shared part knows from the same atomic operation how much is taken, and gives back at once what is too much.
// Bounds: what is free may seem to be less by two chunks per worker. Thresholds are compared with how things were a
// moment before, so that a group or queue may be beyond its own by what each of the other workers charges at once: a
// packet, or a burst of GroupSums::kMostPackets.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>

#include "switch/qos/gauge.h"
#include "switch/qos/group_sums.h"
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
    Gauge* port_bytes = nullptr;  ///< of all queues of its port
  };

  /// @param shared_by_workers  several threads charge and release at the same time
  SharedBuffer(const Settings& settings, bool shared_by_workers);

  /// Charges a packet of `length` bytes, or says why not.
  template <bool kShared>
  [[nodiscard]] Admission admit(Group& group, Queue& queue, std::uint32_t length) noexcept {
    const std::uint64_t free = shared_free();
    if (!fits(queue, length, free)) return Admission::queue_limit;
    const Admission verdict = admit_to_group<kShared>(group, length, free);
    if (verdict == Admission::admitted) [[likely]]
      charge_queue(queue, length, 1);
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
    charge_queue(queue, length, 1);
    return true;
  }

  /// Charges a packet that is there already, whatever the limits say: a reload took it over.
  void charge(Group& group, Queue& queue, std::uint32_t length) noexcept {
    charge(group, length);
    charge_queue(queue, length, 1);
  }
  /// The same for one that is not in a queue yet.
  void charge(Group& group, std::uint32_t length) noexcept {
    const std::uint64_t more = add<true>(group, length);
    shared_peak_.raise(shared_used_.add<true>(more) + more);
  }

  // Bursts of several workers. The lines of groups and of the shared part are other workers' as well, so that each
  // change of them is as slow as many packets: a burst changes each once, or not at all.

  /// What one worker has taken of the shared part and no packet of a burst uses yet. The worker's alone.
  class Credit {
   public:
    [[nodiscard]] std::uint64_t bytes() const noexcept { return bytes_; }

   private:
    friend class SharedBuffer;
    std::uint64_t bytes_ = 0;
  };
  /// Bytes that a worker takes at once. Its credit is never more than two of these.
  [[nodiscard]] std::uint64_t chunk() const noexcept { return chunk_; }

  /// Charges what each group is asked for, or nothing: false when a threshold does not let all of it in, in which case
  /// single packets may still find room.
  /// @param free  shared_free() and the credit's bytes at the beginning of this burst
  [[nodiscard]] bool charge(const GroupSums& sums, std::uint64_t free, Credit& credit) noexcept {
    if (sums.bytes() > free) return false;
    free -= sums.bytes();
    bool fits = true;
    sums.for_each([&](std::uint16_t group, std::uint64_t bytes) {
      const Group& g = groups_[group];
      fits &= g.limit.beyond_reserve(g.bytes.value() + bytes) <= g.limit.threshold(free);
    });
    if (!fits) return false;
    std::uint64_t shared = 0;
    sums.for_each([&](std::uint16_t group, std::uint64_t bytes) { shared += add<true>(groups_[group], bytes); });
    if (take_shared(shared, credit)) [[likely]]
      return true;
    // Other workers have taken the same room meanwhile.
    shared = 0;
    sums.for_each([&](std::uint16_t group, std::uint64_t bytes) { shared += undo<true>(groups_[group], bytes); });
    free_shared<true>(shared);
    return false;
  }
  /// Gives back what charge(), admit_to_group() and admit() have charged to groups.
  void release(const GroupSums& sums, Credit& credit) noexcept {
    sums.for_each(
        [&](std::uint16_t group, std::uint64_t bytes) { credit.bytes_ += take<true>(groups_[group], bytes); });
    if (credit.bytes_ <= 2 * chunk_) [[likely]]
      return;
    shared_used_.subtract<true>(credit.bytes_ - chunk_);
    credit.bytes_ = chunk_;
  }
  /// The same with one worker.
  void release(const GroupSums& sums) noexcept {
    std::uint64_t shared = 0;
    sums.for_each([&](std::uint16_t group, std::uint64_t bytes) { shared += take<false>(groups_[group], bytes); });
    free_shared<false>(shared);
  }
  /// Whether a queue lets `bytes` more in.
  /// @param free  shared bytes that nobody has, and that these will not have either
  [[nodiscard]] static bool fits(const Queue& queue, std::uint64_t bytes, std::uint64_t free) noexcept {
    return queue.limit.beyond_reserve(queue.bytes.value() + bytes) <= queue.limit.threshold(free);
  }
  static void charge_queue(Queue& queue, std::uint64_t bytes, std::uint64_t packets) noexcept {
    queue.peak_bytes.raise(queue.bytes.add<false>(bytes) + bytes);
    queue.packets.add<false>(packets);
    queue.port_bytes->add<false>(bytes);
  }

  /// What charge_queue() has charged.
  static void release_queue(Queue& queue, std::uint64_t bytes, std::uint64_t packets) noexcept {
    queue.bytes.subtract<false>(bytes);
    queue.packets.subtract<false>(packets);
    queue.port_bytes->subtract<false>(bytes);
  }

  /// With one worker: charges `packets` of together `length` bytes, of which the caller knows that they fit. Returns
  /// what it took of the shared part, of which use_shared() is to be told for all charges together.
  [[nodiscard]] static std::uint64_t charge_run(Group& group, Queue& queue, std::uint64_t length,
                                                std::uint64_t packets) noexcept {
    const std::uint64_t shared = add<false>(group, length);
    charge_queue(queue, length, packets);
    return shared;
  }
  /// False when the shared part has not got so much: then the caller gives it back.
  template <bool kShared>
  bool use_shared(std::uint64_t bytes) noexcept {
    if (bytes == 0) return true;
    const std::uint64_t used = shared_used_.add<kShared>(bytes) + bytes;
    if (kShared && used > shared_size_) [[unlikely]]
      return false;
    shared_peak_.raise(used);
    return true;
  }

  /// Gives a packet's room back to its group. What was in headroom goes first, as in both models.
  template <bool kShared>
  void release(Group& group, std::uint32_t length) noexcept {
    free_shared<kShared>(take<kShared>(group, length));
  }
  /// The same with the queue.
  void release(Group& group, Queue& queue, std::uint32_t length) noexcept {
    if (shared_by_workers_) {
      release<true>(group, length);
    } else {
      release<false>(group, length);
    }
    release_queue(queue, length, 1);
  }

  /// No sender of a lossless class need stop, whatever group is asked: no headroom is in use, and of the shared part
  /// less is taken than lets a group reach its threshold even if it is all that one's. Two numbers that are there
  /// already are enough for this, most of the time, in the place of every port's groups.
  [[nodiscard]] bool none_is_full() const noexcept {
    return shared_taken() < full_from_ && headroom_used_.value() == 0;
  }
  /// Its sender must stop, by the models above.
  [[nodiscard]] bool xoff(const Group& group) const noexcept {
    if (group.headroom.value() != 0) return true;
    const std::uint64_t shared = group.limit.beyond_reserve(group.bytes.value());
    return shared != 0 && shared >= threshold(group.limit);
  }
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
  [[nodiscard]] std::size_t group_count() const noexcept { return (ports_ + 1) * kClasses; }
  [[nodiscard]] Queue& queue(std::size_t port, unsigned queue) noexcept { return queues_[port * kClasses + queue]; }
  [[nodiscard]] const Queue& queue(std::size_t port, unsigned queue) const noexcept {
    return queues_[port * kClasses + queue];
  }
  /// Bytes in all queues of a port.
  [[nodiscard]] const Gauge& port_bytes(std::size_t port) const noexcept { return port_bytes_[port].bytes; }

  [[nodiscard]] bool shared_by_workers() const noexcept { return shared_by_workers_; }
  [[nodiscard]] std::size_t port_count() const noexcept { return ports_; }
  [[nodiscard]] std::uint64_t shared_size() const noexcept { return shared_size_; }
  /// What groups have of the shared part. Any thread; it asks all of them.
  [[nodiscard]] std::uint64_t shared_used() const noexcept;
  /// The same with the credits of workers, and the most that it ever was.
  [[nodiscard]] std::uint64_t shared_taken() const noexcept { return shared_used_.value(); }
  [[nodiscard]] std::uint64_t shared_peak() const noexcept { return shared_peak_.value(); }
  /// What nobody has taken.
  [[nodiscard]] std::uint64_t shared_free() const noexcept {
    const std::uint64_t used = shared_taken();
    return used < shared_size_ ? shared_size_ - used : 0;
  }
  /// Threshold of a group or queue as things are.
  [[nodiscard]] std::uint64_t threshold(const Limit& limit) const noexcept { return limit.threshold(shared_free()); }

 private:
  // The owner of a port changes it for every burst: other ports' have other owners.
  struct alignas(64) PortBytes {
    Gauge bytes;
  };
  // These return by how much that changes what the group has of the shared part. Groups and the shared part agree
  // because each change of a group is told to the shared part, in whatever order threads do it.
  template <bool kShared>
  static std::uint64_t add(Group& group, std::uint64_t bytes) noexcept {
    const std::uint64_t before = group.bytes.add<kShared>(bytes);
    group.peak_bytes.raise(before + bytes);
    return group.limit.beyond_reserve(before + bytes) - group.limit.beyond_reserve(before);
  }
  template <bool kShared>
  static std::uint64_t undo(Group& group, std::uint64_t bytes) noexcept {
    const std::uint64_t before = group.bytes.subtract<kShared>(bytes);
    return group.limit.beyond_reserve(before) - group.limit.beyond_reserve(before - bytes);
  }
  template <bool kShared>
  std::uint64_t take(Group& group, std::uint64_t bytes) noexcept {
    if (group.headroom.value() != 0) [[unlikely]] {
      const std::uint64_t of_headroom = group.headroom.take<kShared>(bytes);
      headroom_used_.subtract<kShared>(of_headroom);
      bytes -= of_headroom;
    }
    return undo<kShared>(group, bytes);
  }
  // False when there is not so much: all of it is taken nevertheless, and the caller gives it back.
  [[nodiscard]] bool take_shared(std::uint64_t bytes, Credit& credit) noexcept {
    if (bytes <= credit.bytes_) [[likely]] {
      credit.bytes_ -= bytes;
      return true;
    }
    const std::uint64_t more = bytes - credit.bytes_ + chunk_;
    std::uint64_t used = shared_used_.add<true>(more) + more;
    credit.bytes_ = chunk_;
    if (used > shared_size_) [[unlikely]] {
      // There is no room for a credit.
      used = shared_used_.subtract<true>(chunk_) - chunk_;
      credit.bytes_ = 0;
    }
    if (used > shared_size_) [[unlikely]]
      return false;
    shared_peak_.raise(used);
    return true;
  }
  template <bool kShared>
  void free_shared(std::uint64_t bytes) noexcept {
    if (bytes != 0) shared_used_.subtract<kShared>(bytes);
  }

  template <bool kShared>
  [[nodiscard]] Admission admit_to_group(Group& group, std::uint32_t length, std::uint64_t free) noexcept {
    const std::uint64_t held = group.bytes.value();
    const std::uint64_t shared = group.limit.beyond_reserve(held + length);
    const std::uint64_t more = shared - group.limit.beyond_reserve(held);
    if (shared <= group.limit.threshold(free) && more <= free) [[likely]] {
      if (use_shared<kShared>(add<kShared>(group, length))) [[likely]]
        return Admission::admitted;
      // Another worker has taken the same room meanwhile.
      free_shared<kShared>(undo<kShared>(group, length));
    }
    const std::uint64_t headroom = group.headroom.value() + length;
    if (headroom > group.headroom_limit) {
      return group.headroom_limit == 0 ? Admission::group_limit : Admission::headroom_full;
    }
    headroom_used_.add<kShared>(length);
    group.headroom.add<kShared>(length);
    group.peak_headroom.raise(headroom);
    return Admission::admitted;
  }

  // What all workers change has a line of its own, because what they ask about every packet would come with it.
  alignas(64) Gauge shared_used_;
  Gauge shared_peak_;
  Gauge headroom_used_;  ///< of all groups
  alignas(64) std::uint64_t shared_size_ = 0;
  std::uint64_t full_from_ = 0;  ///< least shared_taken() with which a group of none_is_full() can be full
  std::uint64_t chunk_ = 0;
  bool shared_by_workers_;
  std::size_t ports_;
  std::unique_ptr<Group[]> groups_;
  std::unique_ptr<Queue[]> queues_;
  std::unique_ptr<PortBytes[]> port_bytes_;
};

}  // namespace weft::qos
