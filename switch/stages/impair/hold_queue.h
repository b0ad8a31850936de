// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#pragma once

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "switch/base/time.h"

namespace weft::stages {

/// Things that wait for their time: a binary heap ordered by (time, order of arrival), so that equal times never
/// depend on the layout of the heap. Bounded; allocates only when it is made.
template <typename T>
class HoldQueue {
 public:
  explicit HoldQueue(std::size_t capacity) : capacity_(capacity) { heap_.reserve(capacity); }

  /// False when the queue is full: the item stays the caller's.
  [[nodiscard]] bool push(TimeNs at, const T& item) noexcept {
    if (heap_.size() >= capacity_) return false;
    heap_.push_back({at, sequence_++, item});
    std::push_heap(heap_.begin(), heap_.end(), later);
    return true;
  }

  /// When the first item is due; kNever when there is none.
  [[nodiscard]] TimeNs next() const noexcept { return heap_.empty() ? kNever : heap_.front().at; }

  /// Takes the first item out; undefined when there is none.
  T pop() noexcept {
    assert(!heap_.empty());
    std::pop_heap(heap_.begin(), heap_.end(), later);
    const T item = heap_.back().item;
    heap_.pop_back();
    return item;
  }

  [[nodiscard]] std::size_t size() const noexcept { return heap_.size(); }
  [[nodiscard]] bool empty() const noexcept { return heap_.empty(); }

 private:
  struct Entry {
    TimeNs at;
    std::uint64_t sequence;
    T item;
  };
  static bool later(const Entry& a, const Entry& b) noexcept {
    return a.at != b.at ? a.at > b.at : a.sequence > b.sequence;
  }

  std::size_t capacity_;
  std::uint64_t sequence_ = 0;
  std::vector<Entry> heap_;
};

}  // namespace weft::stages
