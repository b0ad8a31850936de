// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/tables/fdb.h"

#include <bit>
#include <cassert>
#include <utility>

namespace weft::tables {

// With two choices for every entry, no bucket overflows while the table is less than two fifths full.
Fdb::Fdb(std::size_t max_entries)
    : bucket_mask_(std::bit_ceil((5 * max_entries + 2 * kWays - 1) / (2 * kWays)) - 1),
      buckets_(std::make_unique<Bucket[]>(bucket_mask_ + 1)) {}

bool Fdb::insert_in(Bucket& bucket, FdbKey key, std::uint64_t value) noexcept {
  for (std::size_t i = 0; i < kWays; ++i) {
    std::uint64_t expected = kEmpty;
    if (!bucket.key[i].compare_exchange_strong(expected, kBusy, std::memory_order_acquire)) continue;
    // A reader that sees this value must also see that the slot is busy.
    bucket.value[i].store(value, std::memory_order_release);
    // Of two workers that add the same key at the same time one at least sees the other's (places()).
    bucket.key[i].store(key.word(), std::memory_order_seq_cst);
    return true;
  }
  return false;
}

bool Fdb::insert(FdbKey key, std::uint64_t value) noexcept {
  const auto used = [](const Bucket& bucket) {
    std::size_t count = 0;
    for (const auto& word : bucket.key) count += word.load(std::memory_order_relaxed) != kEmpty ? 1 : 0;
    return count;
  };
  const std::uint64_t h = hash(key);
  Bucket* emptier = &first_bucket(h);
  Bucket* fuller = &second_bucket(h);
  if (used(*fuller) < used(*emptier)) std::swap(emptier, fuller);
  if (!insert_in(*emptier, key, value) && !insert_in(*fuller, key, value)) return false;
  // Another worker may have found its own entry for the key already, and this one comes before that.
  if (places(key) > 1) [[unlikely]]
    changed();
  return true;
}

std::size_t Fdb::places(FdbKey key) const noexcept {
  const std::uint64_t h = hash(key);
  Bucket* const first = &first_bucket(h);
  Bucket* const second = &second_bucket(h);
  const auto in = [&](const Bucket& bucket) {
    std::size_t count = 0;
    for (const auto& word : bucket.key) count += word.load(std::memory_order_seq_cst) == key.word() ? 1 : 0;
    return count;
  };
  return in(*first) + (second != first ? in(*second) : 0);
}

Fdb::Learned Fdb::update(FdbKey key, const Place& place, pipeline::PortIndex port, std::uint32_t now_s) noexcept {
  if ((place.value & kStatic) != 0) return Learned::is_static;
  const bool moved = static_cast<pipeline::PortIndex>(place.value) != port;
  std::uint64_t seen = place.value;
  // A failed exchange means that another worker just wrote the entry, which is as good.
  place.slot->compare_exchange_strong(seen, pack(key, port, false, now_s), std::memory_order_relaxed);
  if (!moved) return Learned::refreshed;
  changed();
  return Learned::moved;
}

bool Fdb::add_static(FdbKey key, pipeline::PortIndex port) noexcept {
  const Place place = locate(key);
  if (place.slot == nullptr) return insert(key, pack(key, port, true, 0));
  place.slot->store(pack(key, port, true, 0), std::memory_order_relaxed);
  changed();
  return true;
}

void Fdb::swap(Fdb& other) noexcept {
  assert(bucket_mask_ == other.bucket_mask_);
  std::swap(buckets_, other.buckets_);
  changed();
  other.changed();
}

template <typename Predicate>
std::size_t Fdb::remove_if(Predicate&& wanted) noexcept {
  std::size_t removed = 0;
  for (std::size_t i = 0; i < capacity(); ++i) {
    Bucket& bucket = buckets_[i / kWays];
    const std::uint64_t key = bucket.key[i % kWays].load(std::memory_order_acquire);
    const std::uint64_t value = bucket.value[i % kWays].load(std::memory_order_acquire);
    if (key == kEmpty || key == kBusy || (value & kStatic) != 0 || !wanted(value)) continue;
    bucket.key[i % kWays].store(kEmpty, std::memory_order_release);
    ++removed;
  }
  if (removed != 0) changed();
  return removed;
}

std::size_t Fdb::expire(std::uint32_t now_s, std::uint32_t age_s) noexcept {
  // A worker's clock may be ahead of this thread's: an entry of the future is young.
  return remove_if([=](std::uint64_t value) {
    return static_cast<std::int32_t>(now_s - static_cast<std::uint32_t>(value >> 32)) >=
           static_cast<std::int32_t>(age_s);
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
    if (key == kEmpty || key == kBusy || !belongs(value, FdbKey::from_word(key))) continue;
    entries.push_back({FdbKey::from_word(key), static_cast<pipeline::PortIndex>(value), (value & kStatic) != 0,
                       static_cast<std::uint32_t>(value >> 32)});
  }
  return entries;
}

}  // namespace weft::tables
