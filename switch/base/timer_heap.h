// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Deadlines of many objects: a binary heap in which every object has at most one place.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace weft {

/// Objects are numbered from 0. set() says exactly when an object is wanted. arm() is for who moves deadlines with
/// every packet: it moves them forward only, and one that has moved back is found out when it expires.
/// @tparam Time         an integer type of nanoseconds
/// @tparam kNoDeadline  the value of it that means "never"
template <typename Time, Time kNoDeadline>
class TimerHeap {
 public:
  void resize(std::size_t objects) {
    places_.resize(objects, kNone);
    heap_.reserve(objects);
  }
  /// Wakes the object at `at` or earlier.
  void arm(std::uint32_t object, Time at) noexcept {
    if (at == kNoDeadline) return;
    std::uint32_t place = places_[object];
    if (place == kNone) {
      place = static_cast<std::uint32_t>(heap_.size());
      heap_.push_back({at, object});
      places_[object] = place;
    } else if (heap_[place].at <= at) {
      return;
    } else {
      heap_[place].at = at;
    }
    up(place);
  }
  /// Wakes the object at `at`, neither earlier nor later; kNoDeadline takes it out.
  void set(std::uint32_t object, Time at) noexcept {
    const std::uint32_t place = places_[object];
    if (place == kNone) return arm(object, at);
    if (heap_[place].at == at) return;
    if (at == kNoDeadline) return remove(place);
    const bool sooner = at < heap_[place].at;
    heap_[place].at = at;
    sooner ? up(place) : down(place);
  }
  [[nodiscard]] Time next() const noexcept { return heap_.empty() ? kNoDeadline : heap_[0].at; }
  /// Takes the object with the earliest deadline.
  std::uint32_t pop() noexcept {
    const std::uint32_t object = heap_[0].object;
    remove(0);
    return object;
  }

 private:
  static constexpr std::uint32_t kNone = ~0u;
  struct Entry {
    Time at;
    std::uint32_t object;
    // Ties go by number, so that runs repeat.
    [[nodiscard]] bool before(const Entry& o) const noexcept { return at != o.at ? at < o.at : object < o.object; }
  };
  void remove(std::uint32_t place) noexcept {
    places_[heap_[place].object] = kNone;
    const Entry last = heap_.back();
    heap_.pop_back();
    if (place == heap_.size()) return;
    heap_[place] = last;
    places_[last.object] = place;
    up(place);
    down(places_[last.object]);
  }
  void swap(std::uint32_t a, std::uint32_t b) noexcept {
    std::swap(heap_[a], heap_[b]);
    places_[heap_[a].object] = a;
    places_[heap_[b].object] = b;
  }
  void up(std::uint32_t i) noexcept {
    for (; i > 0 && heap_[i].before(heap_[(i - 1) / 2]); i = (i - 1) / 2) swap(i, (i - 1) / 2);
  }
  void down(std::uint32_t i) noexcept {
    while (true) {
      std::uint32_t least = i;
      for (std::uint32_t child = 2 * i + 1; child <= 2 * i + 2 && child < heap_.size(); ++child) {
        if (heap_[child].before(heap_[least])) least = child;
      }
      if (least == i) return;
      swap(i, least);
      i = least;
    }
  }

  std::vector<Entry> heap_;
  std::vector<std::uint32_t> places_;
};

}  // namespace weft
