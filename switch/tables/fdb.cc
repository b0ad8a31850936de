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
    for (std::size_t i = 0; i < kWays; ++i) {
      std::uint64_t expected = kEmpty;
      if (!bucket->key[i].compare_exchange_strong(expected, kBusy, std::memory_order_acquire)) continue;
      bucket->value[i].store(value, std::memory_order_relaxed);
      bucket->key[i].store(key.word(), std::memory_order_release);
      changed();
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
  place.slot->compare_exchange_strong(seen, pack(port, false, now_s), std::memory_order_relaxed);
  if (!moved) return Learned::refreshed;
  changed();
  return Learned::moved;
}

bool Fdb::add_static(FdbKey key, pipeline::PortIndex port) noexcept {
  const Place place = locate(key);
  if (place.slot == nullptr) return insert(key, pack(port, true, 0));
  place.slot->store(pack(port, true, 0), std::memory_order_relaxed);
  changed();
  return true;
}

template <typename Predicate>
std::size_t Fdb::remove_if(Predicate&& wanted) noexcept {
  std::size_t removed = 0;
  for (std::size_t i = 0; i < capacity(); ++i) {
    Bucket& bucket = buckets_[i / kWays];
    const std::uint64_t key = bucket.key[i % kWays].load(std::memory_order_acquire);
    const std::uint64_t value = bucket.value[i % kWays].load(std::memory_order_acquire);
    if (key <= kBusy || (value & kStatic) != 0 || !wanted(value)) continue;
    bucket.key[i % kWays].store(kEmpty, std::memory_order_release);
    ++removed;
  }
  if (removed != 0) changed();
  return removed;
}

std::size_t Fdb::expire(std::uint32_t now_s, std::uint32_t age_s) noexcept {
  // A worker's clock may be ahead of this thread's: an entry of the future is young.
  return remove_if([=](std::uint64_t value) {
    return static_cast<std::int32_t>(now_s - static_cast<std::uint32_t>(value >> 32)) >= static_cast<std::int32_t>(age_s);
  });
}

std::size_t Fdb::flush(pipeline::PortIndex port) noexcept {
  return remove_if([=](std::uint64_t value) {
    return port == pipeline::kNoPort || static_cast<pipeline::PortIndex>(value) == port;
  });
}

std::vector<Fdb::Entry> Fdb::list(std::size_t& cursor, std::size_t max) const {
  std::vector<Entry> entries;
  for (; cursor < capacity() && entries.size() < max; ++cursor) {
    const Bucket& bucket = buckets_[cursor / kWays];
    const std::uint64_t key = bucket.key[cursor % kWays].load(std::memory_order_acquire);
    const std::uint64_t value = bucket.value[cursor % kWays].load(std::memory_order_acquire);
    if (key <= kBusy) continue;
    entries.push_back({FdbKey::from_word(key), static_cast<pipeline::PortIndex>(value), (value & kStatic) != 0,
                       static_cast<std::uint32_t>(value >> 32)});
  }
  return entries;
}

}  // namespace weft::tables
