// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/capture/record_ring.h"

#include <bit>
#include <cassert>
#include <cstring>

namespace weft::capture {

RecordRing::RecordRing(std::size_t bytes) : size_(bytes), bytes_(std::make_unique_for_overwrite<std::byte[]>(bytes)) {
  assert(std::has_single_bit(bytes) && bytes >= 65536);
  std::memset(bytes_.get(), 0, bytes);
}

bool RecordRing::fits(std::uint64_t size) noexcept {
  if (written_ + size - seen_head_ <= size_) return true;
  seen_head_ = head_.load(std::memory_order_acquire);
  return written_ + size - seen_head_ <= size_;
}

// Records do not wrap around the end of the memory: a filler takes what is left of it.
Record* RecordRing::reserve(std::uint32_t captured) noexcept {
  const std::uint32_t size = (static_cast<std::uint32_t>(sizeof(Record)) + captured + 7U) & ~7U;
  const std::uint64_t to_end = size_ - (written_ & (size_ - 1));
  const std::uint64_t filler = to_end < size ? to_end : 0;
  if (!fits(size + filler)) {
    lost_.add(1);
    return nullptr;
  }
  if (filler >= sizeof(Record)) {
    Record* record = at(written_);
    record->kind = RecordKind::filler;
    record->size = static_cast<std::uint32_t>(filler);
  }
  written_ += filler;
  Record* record = at(written_);
  record->size = size;
  record->captured = captured;
  written_ += size;
  return record;
}

const Record* RecordRing::front() noexcept {
  while (true) {
    const std::uint64_t head = head_.load(std::memory_order_relaxed);
    if (head == tail_.load(std::memory_order_acquire)) return nullptr;
    const std::uint64_t to_end = size_ - (head & (size_ - 1));
    // What is too small for a record at the end of the memory is a filler without a name.
    if (to_end >= sizeof(Record) && at(head)->kind != RecordKind::filler) return at(head);
    head_.store(head + to_end, std::memory_order_release);
  }
}

void RecordRing::pop() noexcept {
  const std::uint64_t head = head_.load(std::memory_order_relaxed);
  head_.store(head + at(head)->size, std::memory_order_release);
}

}  // namespace weft::capture
