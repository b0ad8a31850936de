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

// Records do not wrap around the end of the memory: a filler takes what is left of it.
Record* RecordRing::reserve(std::uint32_t captured) noexcept {
  const std::uint32_t size = (static_cast<std::uint32_t>(sizeof(Record)) + captured + 7U) & ~7U;
  const std::uint64_t to_end = size_ - (written_ & (size_ - 1));
  const std::uint64_t filler = to_end < size ? to_end : 0;
  // What is not published yet takes room as well.
  const std::uint64_t wanted = written_ - at_.tail() + size + filler;
  if (at_.room(size_, wanted) < wanted) {
    at_.lose(1);
    return nullptr;
  }
  if (filler >= sizeof(Record)) {
    Record* record = record_at(written_);
    record->kind = RecordKind::filler;
    record->size = static_cast<std::uint32_t>(filler);
  }
  written_ += filler;
  Record* record = record_at(written_);
  record->size = size;
  record->captured = captured;
  written_ += size;
  return record;
}

const Record* RecordRing::front() noexcept {
  while (at_.ready(1) != 0) {
    const std::uint64_t head = at_.head();
    const std::uint64_t to_end = size_ - (head & (size_ - 1));
    // What is too small for a record at the end of the memory is a filler without a name.
    if (to_end >= sizeof(Record) && record_at(head)->kind != RecordKind::filler) return record_at(head);
    at_.release(head + to_end);
  }
  return nullptr;
}

void RecordRing::pop() noexcept {
  at_.release(at_.head() + record_at(at_.head())->size);
}

}  // namespace weft::capture
