// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/tables/qp_table.h"

#include <immintrin.h>

#include <algorithm>
#include <bit>
#include <cassert>

#include "switch/wire/cpu.h"

namespace weft::tables {
namespace {

// With 15 of 16 positions used, a new key practically always finds room in one of its buckets, or after moving one
// entry of them: so did 60 million of 60 million that came into a table of a million with one place left. In a table of
// few buckets a key has few to choose from, so there are some to spare.
constexpr std::uint32_t buckets_for(std::uint32_t capacity) noexcept {
  constexpr std::uint32_t kSpareBuckets = 4;
  return (capacity + 14) / 15 + kSpareBuckets;
}

}  // namespace

QpTable::QpTable(std::uint32_t capacity)
    : capacity_(capacity),
      buckets_(buckets_for(capacity)),
      slots_(buckets_ * kBucket),
      tags_(buckets_),
      entries_(std::size_t{slots_} + 1),
      details_(slots_),
      pairs_(address_pair_capacity(capacity)) {
  assert(capacity >= 1 && capacity <= kMaxCapacity);
}

QpKey QpTable::reverse(QpKey key, wire::Qpn qp) const noexcept {
  if ((key.qp & QpEntry::kV6) == 0) return {std::rotl(key.addresses, 32), qp.value()};
  return {pairs_.reverse(static_cast<std::uint32_t>(key.addresses)), qp.value() | QpEntry::kV6};
}

wire::IpAddress QpTable::source(const QpKey& key) const noexcept {
  if ((key.qp & QpEntry::kV6) == 0) return wire::IpAddress::v4(static_cast<std::uint32_t>(key.addresses >> 32));
  return pairs_.addresses(static_cast<std::uint32_t>(key.addresses)).first;
}

wire::IpAddress QpTable::destination(const QpKey& key) const noexcept {
  if ((key.qp & QpEntry::kV6) == 0) return wire::IpAddress::v4(static_cast<std::uint32_t>(key.addresses));
  return pairs_.addresses(static_cast<std::uint32_t>(key.addresses)).second;
}

// In the other bucket of its tag, or nowhere.
std::uint32_t QpTable::candidate_elsewhere(std::uint32_t hash) const noexcept {
  const std::uint32_t bucket = other_bucket(first_bucket(hash), tag_of(hash));
  const std::uint32_t equal = equal_tags(bucket, tag_copies(hash));
  return equal == 0 ? slots_ : bucket * kBucket + countr_zero(equal);
}

inline std::uint32_t QpTable::candidate(std::uint32_t hash) const noexcept {
  const std::uint32_t bucket = first_bucket(hash);
  const std::uint32_t equal = equal_tags(bucket, tag_copies(hash));
  return equal == 0 ? candidate_elsewhere(hash) : bucket * kBucket + countr_zero(equal);
}

// As below, with the tags of a bucket in one vector.
[[gnu::target(WEFT_WIDE)]] void QpTable::candidates_wide(std::span<std::uint32_t> hashes) const noexcept {
  const Tags* const tags = &tags_[0];
  const QpEntry* const entries = &entries_[0];
  const std::uint64_t buckets = buckets_;  // of which the compiler knows that no store below changes it
  for (std::uint32_t& at : hashes) {
    const std::uint32_t hash = at;
    const auto bucket = static_cast<std::uint32_t>(hash * buckets >> 32);
    const __m256i copies = _mm256_max_epu16(_mm256_set1_epi16(static_cast<short>(hash)), _mm256_set1_epi16(1));
    const auto line = _mm256_load_si256(reinterpret_cast<const __m256i*>(&tags[bucket]));
    const std::uint32_t equal = _mm256_cmpeq_epi16_mask(line, copies);
    at = bucket * kBucket + countr_zero(equal);
    if (equal == 0) [[unlikely]]
      at = candidate_elsewhere(hash);
    __builtin_prefetch(&entries[at]);
  }
}

void QpTable::candidates(std::span<std::uint32_t> hashes) const noexcept {
  // What is part of the second-level cache is not fetched beforehand.
  if (buckets_ * sizeof(Tags) > kNearBytes) {
    for (const std::uint32_t hash : hashes) __builtin_prefetch(&tags_[first_bucket(hash)]);
  }
  if (wire::has_wide()) return candidates_wide(hashes);
  for (std::uint32_t& at : hashes) {
    at = candidate(at);
    __builtin_prefetch(&entries_[at]);
  }
}

std::uint32_t QpTable::find_in(std::uint32_t bucket, std::uint32_t hash, const QpKey& key) const noexcept {
  for (std::uint32_t equal = equal_tags(bucket, tag_copies(hash)); equal != 0; equal &= equal - 1) {
    const std::uint32_t position = bucket * kBucket + countr_zero(equal);
    if (matches(position, key)) return position;
  }
  return kNone;
}

std::uint32_t QpTable::find(const QpKey& key) const noexcept {
  const std::uint32_t hash = hash_of(key), bucket = first_bucket(hash);
  const std::uint32_t position = find_in(bucket, hash, key);
  return position != kNone ? position : find_in(other_bucket(bucket, tag_of(hash)), hash, key);
}

void QpTable::move(std::uint32_t from, std::uint32_t to) noexcept {
  entries_[to] = entries_[from];
  details_[to] = details_[from];
  tag_at(to) = tag_at(from);
  tag_at(from) = 0;
  entries_[from].qp = 0;
  const std::uint32_t peer = entries_[to].peer;
  if (peer != QpEntry::kNoPeer) entries_[peer].peer = to;
}

// Moves one entry of a full bucket to its other bucket. False when all of those are full too.
bool QpTable::make_room(std::uint32_t bucket, Moved& moved) noexcept {
  for (std::uint32_t i = 0; i < kBucket; ++i) {
    const std::uint32_t other = other_bucket(bucket, tags_[bucket].tag[i]);
    const std::uint32_t room = free_slots(other);
    if (room == 0) continue;
    moved = {bucket * kBucket + i, other * kBucket + countr_zero(room)};
    move(moved.from, moved.to);
    return true;
  }
  return false;
}

std::uint32_t QpTable::free_position(std::uint32_t hash, Moved& moved) noexcept {
  const std::uint32_t choices[2] = {first_bucket(hash), other_bucket(first_bucket(hash), tag_of(hash))};
  // The first bucket is found sooner. But buckets that are nearly full are filled evenly: where all are full that a key
  // can get to, it finds no room, although there is some elsewhere.
  constexpr int kPlenty = 2;
  const std::uint32_t room[2] = {free_slots(choices[0]), free_slots(choices[1])};
  const int count[2] = {std::popcount(room[0]), std::popcount(room[1])};
  const unsigned better = count[0] >= kPlenty || count[0] >= count[1] ? 0 : 1;
  if (room[better] != 0) return choices[better] * kBucket + countr_zero(room[better]);
  for (const std::uint32_t bucket : choices) {
    if (make_room(bucket, moved)) return moved.from;
  }
  return kNone;
}

std::uint32_t QpTable::insert(const QpKey& key, std::uint64_t now_ns, Moved& moved) noexcept {
  assert(find(key) == kNone && (key.qp & 0xffffff) != 0);
  moved = {};
  if (size_ == capacity_) return kNone;
  const std::uint32_t hash = hash_of(key);
  const std::uint32_t position = free_position(hash, moved);
  if (position == kNone) return kNone;
  tag_at(position) = tag_of(hash);
  entries_[position].addresses = key.addresses;
  entries_[position].qp = key.qp;
  if ((key.qp & QpEntry::kV6) != 0) pairs_.retain(static_cast<std::uint32_t>(key.addresses));
  ++size_;
  reset(position, now_ns);
  return position;
}

void QpTable::reset(std::uint32_t position, std::uint64_t now_ns) noexcept {
  const QpKey kept = key(position);
  QpEntry& e = entries_[position];
  e = QpEntry{};
  e.addresses = kept.addresses;
  e.qp = kept.qp;
  e.set_transport(QpTransport::unknown);
  e.request.set(RequestFlag::unsynced);
  e.peer = QpEntry::kNoPeer;
  e.last_seen = tick_of(now_ns);
  details_[position] = QpDetail{};
  details_[position].first_seen = age_tick_of(now_ns) & QpDetail::kAgeMask;
}

void QpTable::erase(std::uint32_t position) noexcept {
  const QpKey gone = key(position);
  assert(!entries_[position].is_free());
  if ((gone.qp & QpEntry::kV6) != 0) pairs_.release(static_cast<std::uint32_t>(gone.addresses));
  entries_[position].qp = 0;
  tag_at(position) = 0;
  --size_;
}

std::size_t QpTable::memory_bytes() const noexcept {
  return tags_.bytes() + entries_.bytes() + details_.bytes() + pairs_.memory_bytes();
}

}  // namespace weft::tables
