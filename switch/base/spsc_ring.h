// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Rings between two threads, of which one sends and the other receives; they may be the same. No locks.
//
// Both sides remember the position of the other one that they saw last, and look again only when that one does not let
// them go on: the cache line of the other side is fetched once for many items, and polling an empty ring writes
// nothing, so that the sender keeps its lines.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>

#include "switch/base/counters.h"

namespace weft {

/// Where sender and receiver of a ring stand. Positions count items, or bytes, from the start and never wrap; the owner
/// of the memory maps them to places.
class SpscPositions {
 public:
  // The sender.

  /// Where the next item goes.
  [[nodiscard]] std::uint64_t tail() const noexcept { return tail_.load(std::memory_order_relaxed); }
  /// Room behind tail() in a ring of `capacity`: at least `wanted` if there is so much, otherwise what there is.
  [[nodiscard]] std::uint64_t room(std::uint64_t capacity, std::uint64_t wanted) noexcept {
    std::uint64_t room = capacity - (tail() - seen_head_);
    if (room < wanted) {
      seen_head_ = head_.load(std::memory_order_acquire);
      room = capacity - (tail() - seen_head_);
    }
    return room;
  }
  /// Shows the receiver everything before `position`.
  void publish(std::uint64_t position) noexcept { tail_.store(position, std::memory_order_release); }
  /// `count` items found no room and are gone.
  void lose(std::uint64_t count) noexcept { lost_.add(count); }

  // The receiver.

  /// Where the oldest item lies.
  [[nodiscard]] std::uint64_t head() const noexcept { return head_.load(std::memory_order_relaxed); }
  /// Items at head(): at least `wanted` if there are so many, otherwise those that there are.
  [[nodiscard]] std::uint64_t ready(std::uint64_t wanted) noexcept {
    if (seen_tail_ - head() < wanted) {
      const std::uint64_t tail = tail_.load(std::memory_order_acquire);
      if (tail != seen_tail_) seen_tail_ = tail;
    }
    return seen_tail_ - head();
  }
  /// Gives the room before `position` back to the sender.
  void release(std::uint64_t position) noexcept { head_.store(position, std::memory_order_release); }

  // Any thread.

  /// What lies between both. Exact for either side of what it did itself, a moment's value for others.
  [[nodiscard]] std::uint64_t size() const noexcept {
    // head first: it can only grow towards tail, so the difference is never negative.
    const std::uint64_t head = head_.load(std::memory_order_acquire);
    return tail_.load(std::memory_order_acquire) - head;
  }
  [[nodiscard]] std::uint64_t lost() const noexcept { return lost_.value(); }

 private:
  alignas(64) std::atomic<std::uint64_t> tail_{0};
  std::uint64_t seen_head_ = 0;
  Counter lost_;
  alignas(64) std::atomic<std::uint64_t> head_{0};
  std::uint64_t seen_tail_ = 0;
};

/// A ring of exactly N items, which are copied in and out by whole bursts.
/// @tparam N  a power of two
template <typename T, std::uint32_t N>
class SpscRing {
  static_assert(std::has_single_bit(N));
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  static constexpr std::uint32_t kCapacity = N;

  // The sending thread.

  /// Takes items from the front of the array; returns how many found room. The others stay the caller's.
  std::uint32_t push(const T* items, std::uint32_t count) noexcept {
    const std::uint64_t room = at_.room(N, count);
    if (room < count) count = static_cast<std::uint32_t>(room);
    if (count == 0) return 0;
    const std::uint64_t tail = at_.tail();
    for (std::uint32_t i = 0; i < count; ++i) items_[(tail + i) % N] = items[i];
    at_.publish(tail + count);
    return count;
  }
  /// The same for one item; false when there is no room.
  bool push(const T& item) noexcept { return push(&item, 1) == 1; }
  /// For items that are forgotten when there is no room: lost() counts them.
  bool push_or_lose(const T& item) noexcept {
    if (push(item)) return true;
    at_.lose(1);
    return false;
  }

  // The receiving thread.

  /// Up to `max` of the oldest items; returns how many.
  std::uint32_t pop(T* items, std::uint32_t max) noexcept {
    const std::uint64_t ready = at_.ready(max);
    const auto count = static_cast<std::uint32_t>(ready < max ? ready : max);
    if (count == 0) return 0;
    const std::uint64_t head = at_.head();
    for (std::uint32_t i = 0; i < count; ++i) items[i] = items_[(head + i) % N];
    at_.release(head + count);
    return count;
  }
  /// The same for one item; false when there is none.
  bool pop(T& item) noexcept { return pop(&item, 1) == 1; }

  // Any thread.

  /// Exact for either user of the ring, a moment's value for others.
  [[nodiscard]] std::uint32_t size() const noexcept { return static_cast<std::uint32_t>(at_.size()); }
  [[nodiscard]] bool empty() const noexcept { return size() == 0; }
  /// Items that push_or_lose() found no room for since the start. The receiver that finds it grown knows that something
  /// is missing behind what it has received until then.
  [[nodiscard]] std::uint64_t lost() const noexcept { return at_.lost(); }

  // While no other thread uses the rings: reloads.

  /// Takes everything out, oldest first, and calls f with each.
  template <typename F>
  void drain(F&& f) {
    T item;
    while (pop(item)) f(item);
  }
  /// Takes over what `old` holds, behind what is here already, and goes on counting what it has lost. `keep` is called
  /// with every item, may change it, and says whether it stays. What finds no room counts as lost.
  template <typename Old, typename F>
  void adopt(Old& old, F&& keep) {
    at_.lose(old.lost());
    old.drain([&](T& item) {
      if (keep(item)) push_or_lose(item);
    });
  }

 private:
  SpscPositions at_;
  alignas(64) std::array<T, N> items_{};
};

/// A ring for every ordered pair of workers.
template <typename R>
class RingMesh {
 public:
  using Ring = R;

  explicit RingMesh(std::uint16_t workers)
      : workers_(workers), rings_(std::make_unique<Ring[]>(std::size_t{workers} * workers)) {}

  [[nodiscard]] std::uint16_t workers() const noexcept { return workers_; }
  [[nodiscard]] Ring& ring(std::uint16_t from, std::uint16_t to) const noexcept {
    return rings_[std::size_t{from} * workers_ + to];
  }
  /// Whether anything waits for a worker.
  [[nodiscard]] bool pending(std::uint16_t to) const noexcept {
    for (std::uint16_t from = 0; from < workers_; ++from) {
      if (!ring(from, to).empty()) return true;
    }
    return false;
  }

 private:
  std::uint16_t workers_;
  std::unique_ptr<Ring[]> rings_;
};

template <typename T, std::uint32_t N>
using SpscMesh = RingMesh<SpscRing<T, N>>;

}  // namespace weft
