// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/tables/neighbour_table.h"

#include <array>
#include <bit>
#include <cassert>
#include <cstring>
#include <utility>

namespace weft::tables {

using pipeline::PortIndex;
using wire::IpAddress;
using wire::MacAddress;

static_assert(std::endian::native == std::endian::little, "NeighbourWord::mac_bytes() is defined by memory order");

std::string_view to_string(NeighbourState state) noexcept {
  constexpr std::array<std::string_view, 6> kNames{"none", "incomplete", "stale", "probe", "reachable", "static"};
  return kNames[static_cast<std::size_t>(state)];
}

NeighbourWord::NeighbourWord(const MacAddress& mac, NeighbourState state) noexcept
    : word_(static_cast<std::uint64_t>(state) << kStateShift) {
  std::memcpy(&word_, mac.bytes.data(), mac.bytes.size());
}

MacAddress NeighbourWord::mac() const noexcept {
  MacAddress mac;
  std::memcpy(mac.bytes.data(), &word_, mac.bytes.size());
  return mac;
}

NeighbourTable::NeighbourTable(std::size_t max_neighbours, RcuDomain& domain)
    : domain_(domain),
      bucket_mask_(std::bit_ceil(2 * max_neighbours / kWays + 1) - 1),
      buckets_(new Bucket[bucket_mask_ + 2]),
      detail_(std::make_unique<Detail[]>(capacity())),
      pins_(capacity()) {}

std::uint64_t NeighbourTable::tag_of(PortIndex port, const IpAddress& address) noexcept {
  if (!address.is_v6()) return tag_v4(port, address.v4_value());
  std::uint64_t high;
  std::uint64_t low;
  std::memcpy(&high, address.bytes().data(), sizeof high);
  std::memcpy(&low, address.bytes().data() + sizeof high, sizeof low);
  const std::uint64_t h = wire::mix64(wire::mix64(high ^ 0x6a09e667f3bcc909, low ^ 0xbb67ae8584caa73b), port + 1u);
  return (h >> 2) | std::uint64_t{1} << 62;
}

NeighbourTable::Index NeighbourTable::find(PortIndex port, const IpAddress& address) const noexcept {
  if (!address.is_v6()) return find_v4(port, address.v4_value());
  const std::uint64_t tag = tag_of(port, address);
  const std::uint64_t h = hash(tag);
  for (const std::size_t bucket : {h & bucket_mask_, second_bucket(h)}) {
    for (std::size_t way = 0; way < kWays; ++way) {
      if (buckets_[bucket].tag[way].load(std::memory_order_acquire) != tag) continue;
      const Index index = index_of(bucket, way);
      if (detail_[index].port == port && detail_[index].address == address) return index;
    }
  }
  return nobody();
}

std::size_t NeighbourTable::free_ways(std::size_t bucket) const noexcept {
  std::size_t count = 0;
  for (const auto& tag : buckets_[bucket].tag) count += tag.load(std::memory_order_relaxed) == kEmpty ? 1 : 0;
  return count;
}

NeighbourTable::Index NeighbourTable::add(PortIndex port, const IpAddress& address, TimeNs now) noexcept {
  const std::uint64_t tag = tag_of(port, address);
  const std::uint64_t h = hash(tag);
  std::size_t candidates[2] = {h & bucket_mask_, second_bucket(h)};
  // The emptier one first, or buckets would fill up long before the table does.
  if (free_ways(candidates[1]) > free_ways(candidates[0])) std::swap(candidates[0], candidates[1]);
  for (const std::size_t bucket : candidates) {
    for (std::size_t way = 0; way < kWays; ++way) {
      const Index index = index_of(bucket, way);
      std::uint64_t expected = kEmpty;
      if (!tag_at(index).compare_exchange_strong(expected, kBusy, std::memory_order_acquire)) continue;
      detail_[index].address = address;
      detail_[index].port = port;
      detail_[index].since.store(now, std::memory_order_relaxed);
      word_at(index).store(NeighbourWord(MacAddress{}, NeighbourState::incomplete).word(), std::memory_order_relaxed);
      tag_at(index).store(tag, std::memory_order_release);
      // Two workers may add an address at the same instant. Both go on with the entry that find() finds; the other one
      // stays incomplete and is removed.
      return find(port, address);
    }
  }
  return nobody();
}

NeighbourTable::Index NeighbourTable::find_or_add(PortIndex port, const IpAddress& address, TimeNs now) noexcept {
  const Index index = find(port, address);
  return index != nobody() ? index : add(port, address, now);
}

bool NeighbourTable::change(Index index, NeighbourWord from, NeighbourWord to, TimeNs now) noexcept {
  // The time first: age() must not see a new state as old as the state before. If the exchange then fails, the state
  // that somebody else has set lives a little longer.
  detail_[index].since.store(now, std::memory_order_relaxed);
  std::uint64_t expected = from.word();
  if (!word_at(index).compare_exchange_strong(expected, to.word(), std::memory_order_acq_rel)) return false;
  changes_.fetch_add(1, std::memory_order_release);
  if (!from.usable() && to.usable()) generation_.fetch_add(1, std::memory_order_release);
  return true;
}

NeighbourTable::Learned NeighbourTable::learn(Index index, const Advertisement& said, TimeNs now) noexcept {
  const NeighbourWord old = word(index);
  if (old.state() == NeighbourState::none || old.state() == NeighbourState::permanent) return Learned::ignored;
  if (!said.mac && !old.usable()) return Learned::ignored;
  const MacAddress mac = said.mac.value_or(old.mac());
  const bool other = !old.usable() || mac != old.mac();
  NeighbourWord next(mac, said.confirmed ? NeighbourState::reachable : NeighbourState::stale);
  if (!other && !said.confirmed) return Learned::ignored;
  if (other && old.usable() && !said.may_replace) {
    // RFC 4861 7.2.5: the known address stays, but is no longer taken for granted.
    if (old.state() != NeighbourState::reachable) return Learned::ignored;
    next = NeighbourWord(old.mac(), NeighbourState::stale);
    return change(index, old, next, now) ? Learned::refreshed : Learned::ignored;
  }
  // A failed exchange means that another worker has just learned about the same neighbour, which is as good.
  if (!change(index, old, next, now)) return Learned::ignored;
  if (!old.usable()) return Learned::resolved;
  return other ? Learned::moved : Learned::refreshed;
}

bool NeighbourTable::begin_probe(Index index, TimeNs now) noexcept {
  const NeighbourWord old = word(index);
  return old.state() == NeighbourState::stale &&
         change(index, old, NeighbourWord(old.mac(), NeighbourState::probe), now);
}

void NeighbourTable::end_probe(Index index, TimeNs now) noexcept {
  const NeighbourWord old = word(index);
  if (old.state() != NeighbourState::probe) return;
  change(index, old, NeighbourWord(MacAddress{}, NeighbourState::incomplete), now);
}

bool NeighbourTable::add_permanent(PortIndex port, const IpAddress& address, const MacAddress& mac) {
  const Index index = find_or_add(port, address, 0);
  if (index == nobody()) return false;
  while (!change(index, word(index), NeighbourWord(mac, NeighbourState::permanent), 0)) {
  }
  return true;
}

bool NeighbourTable::restore(const Entry& entry) {
  const Index index = find_or_add(entry.port, entry.address, entry.since);
  if (index == nobody()) return false;
  const NeighbourWord known = word(index);
  return known.state() == NeighbourState::permanent || change(index, known, entry.word, entry.since);
}

NeighbourTable::Index NeighbourTable::pin(PortIndex port, const IpAddress& address, TimeNs now) {
  const Index index = find_or_add(port, address, now);
  if (index != nobody()) ++pins_[index];
  return index;
}

void NeighbourTable::unpin(Index index) {
  if (index == nobody()) return;
  assert(pins_[index] > 0);
  --pins_[index];
}

// A pinned entry keeps its place without a MAC address; any other one is removed, unless somebody has changed it since
// it was seen.
void NeighbourTable::forget(Index index, NeighbourWord seen, TimeNs now) {
  if (pins_[index] != 0) {
    change(index, seen, NeighbourWord(MacAddress{}, NeighbourState::incomplete), now);
    return;
  }
  if (!change(index, seen, NeighbourWord(), now)) return;
  tag_at(index).store(kDead, std::memory_order_release);
  domain_.defer([buckets = buckets_, index] {
    buckets[index / kWays].tag[index % kWays].store(kEmpty, std::memory_order_release);
  });
}

void NeighbourTable::lose(Index index, TimeNs now) {
  const NeighbourWord seen = word(index);
  if (seen.usable() && seen.state() != NeighbourState::permanent) forget(index, seen, now);
}

void NeighbourTable::doubt(Index index, TimeNs now) {
  const NeighbourWord seen = word(index);
  if (seen.state() != NeighbourState::reachable && seen.state() != NeighbourState::permanent) return;
  change(index, seen, NeighbourWord(seen.mac(), NeighbourState::stale), now);
}

void NeighbourTable::age_one(Index index, TimeNs now, const NeighbourTimes& times) {
  const NeighbourWord seen = word(index);
  const TimeNs since = detail_[index].since.load(std::memory_order_relaxed);
  const TimeNs age = now > since ? now - since : 0;
  const NeighbourWord stale(seen.mac(), NeighbourState::stale);
  switch (seen.state()) {
    case NeighbourState::reachable:
      if (age >= times.reachable_ns) change(index, seen, stale, now);
      return;
    case NeighbourState::probe:
      if (age >= times.unresolved_ns) change(index, seen, stale, now);
      return;
    case NeighbourState::stale:
      if (age >= times.stale_ns) forget(index, seen, now);
      return;
    case NeighbourState::incomplete:
      if (age >= times.unresolved_ns && pins_[index] == 0) forget(index, seen, now);
      return;
    case NeighbourState::none:
    case NeighbourState::permanent:
      return;
  }
}

void NeighbourTable::age(TimeNs now, const NeighbourTimes& times) {
  for (Index index = 0; index < nobody(); ++index) {
    if (tag_at(index).load(std::memory_order_acquire) > kDead) age_one(index, now, times);
  }
}

void NeighbourTable::flush(PortIndex port, TimeNs now) {
  for (Index index = 0; index < nobody(); ++index) {
    if (tag_at(index).load(std::memory_order_acquire) <= kDead || detail_[index].port != port) continue;
    lose(index, now);
  }
}

std::vector<NeighbourTable::Entry> NeighbourTable::list(std::size_t& cursor, std::size_t max) const {
  std::vector<Entry> entries;
  for (; cursor < capacity() && entries.size() < max; ++cursor) {
    const auto index = static_cast<Index>(cursor);
    const NeighbourWord seen = word(index);
    if (buckets_[index / kWays].tag[index % kWays].load(std::memory_order_acquire) <= kDead) continue;
    if (seen.state() == NeighbourState::none) continue;
    entries.push_back({index, detail_[index].port, detail_[index].address, seen,
                       detail_[index].since.load(std::memory_order_relaxed)});
  }
  return entries;
}

}  // namespace weft::tables
