// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/tables/fdb.h"

#include <bit>

namespace weft::tables {

Fdb::Fdb(std::size_t max_entries)
    : bucket_mask_(std::bit_ceil(max_entries / kWays * 3 / 2 + 1) - 1),
      buckets_(std::make_unique<Bucket[]>(bucket_mask_ + 1)) {}

bool Fdb::insert(FdbKey key, std::uint64_t value) noexcept {
  const std::uint64_t h = hash(key);
  for (Bucket* bucket : {&buckets_[h & bucket_mask_], &buckets_[second(h) & bucket_mask_]}) {
    for (Slot& slot : bucket->slots) {
      std::uint64_t expected = kEmpty;
      if (!slot.key.compare_exchange_strong(expected, kBusy, std::memory_order_acquire)) continue;
      slot.value.store(value, std::memory_order_relaxed);
      slot.key.store(key.word(), std::memory_order_release);
      return true;
    }
  }
  return false;
}

Fdb::Learned Fdb::update(const Place& place, pipeline::PortIndex port, std::uint32_t now_s) noexcept {
  if ((place.value & kStatic) != 0) return Learned::is_static;
  const bool moved = static_cast<pipeline::PortIndex>(place.value) != port;
  std::uint64_t seen = place.value;
  // A failed exchange means that another worker just wrote the entry, which is as good.
  place.slot->value.compare_exchange_strong(seen, pack(port, false, now_s), std::memory_order_relaxed);
  return moved ? Learned::moved : Learned::refreshed;
}

bool Fdb::add_static(FdbKey key, pipeline::PortIndex port) noexcept {
  const Place place = locate(key);
  if (place.slot == nullptr) return insert(key, pack(port, true, 0));
  place.slot->value.store(pack(port, true, 0), std::memory_order_relaxed);
  return true;
}

std::size_t Fdb::expire(std::uint32_t now_s, std::uint32_t age_s) noexcept {
  std::size_t removed = 0;
  for (std::size_t i = 0; i <= bucket_mask_; ++i) {
    for (Slot& slot : buckets_[i].slots) {
      const std::uint64_t key = slot.key.load(std::memory_order_acquire);
      const std::uint64_t value = slot.value.load(std::memory_order_acquire);
      if (key <= kBusy || (value & kStatic) != 0 || now_s - static_cast<std::uint32_t>(value >> 32) < age_s) continue;
      slot.key.store(kEmpty, std::memory_order_release);
      ++removed;
    }
  }
  return removed;
}

std::size_t Fdb::flush(pipeline::PortIndex port) noexcept {
  std::size_t removed = 0;
  for (std::size_t i = 0; i <= bucket_mask_; ++i) {
    for (Slot& slot : buckets_[i].slots) {
      const std::uint64_t key = slot.key.load(std::memory_order_acquire);
      const std::uint64_t value = slot.value.load(std::memory_order_acquire);
      const bool wanted = port == pipeline::kNoPort || static_cast<pipeline::PortIndex>(value) == port;
      if (key <= kBusy || (value & kStatic) != 0 || !wanted) continue;
      slot.key.store(kEmpty, std::memory_order_release);
      ++removed;
    }
  }
  return removed;
}

std::vector<Fdb::Entry> Fdb::list(std::size_t& cursor, std::size_t max) const {
  std::vector<Entry> entries;
  for (; cursor < capacity() && entries.size() < max; ++cursor) {
    const Slot& slot = buckets_[cursor / kWays].slots[cursor % kWays];
    const std::uint64_t key = slot.key.load(std::memory_order_acquire);
    const std::uint64_t value = slot.value.load(std::memory_order_acquire);
    if (key <= kBusy) continue;
    entries.push_back({FdbKey::from_word(key), static_cast<pipeline::PortIndex>(value), (value & kStatic) != 0,
                       static_cast<std::uint32_t>(value >> 32)});
  }
  return entries;
}

}  // namespace weft::tables
