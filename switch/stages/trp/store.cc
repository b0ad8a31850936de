// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/stages/trp/store.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "switch/wire/hash.h"

namespace weft::stages {

TrpStore::TrpStore(const TrpStoreSettings& settings)
    : settings_(settings),
      flows_(settings.flows),
      buckets_(std::bit_ceil(settings.flows) * 2, kNone),
      cache_(settings.insert_delay_ns != 0 ? std::bit_ceil(settings.cache) : 1, kNone) {}

std::uint64_t TrpStore::hash_of(const wire::FlowName& name) noexcept {
  return wire::mix64(name.addresses ^ 0x9e3779b97f4a7c15ull,
                     (std::uint64_t{name.ipv6} << 32 | name.dest_qp) + 0xd6e8feb86659fd93ull);
}

std::uint32_t TrpStore::bucket_of(const wire::FlowName& name) const noexcept {
  return static_cast<std::uint32_t>(hash_of(name) & (buckets_.size() - 1));
}

std::uint32_t TrpStore::lookup(const wire::FlowName& name) const noexcept {
  std::uint32_t at = buckets_[bucket_of(name)];
  while (at != kNone && flows_[at].name != name) at = flows_[at].next;
  return at;
}

std::uint32_t TrpStore::find(TimeNs now, const wire::FlowName& name) const noexcept {
  const std::uint32_t at = lookup(name);
  if (at == kNone) return kNone;
  const bool known =
      flows_[at].stored_at <= now || flows_[at].held != 0 || cache_[(hash_of(name) >> 32) & (cache_.size() - 1)] == at;
  return known ? at : kNone;
}

std::uint32_t TrpStore::find_or_add(TimeNs now, const wire::FlowName& name) noexcept {
  std::uint32_t at = lookup(name);
  if (at == kNone) {
    at = place();
    if (at == kNone) return kNone;
    std::uint32_t& bucket = buckets_[bucket_of(name)];
    flows_[at] = {.name = name, .used = true, .stored_at = now + settings_.insert_delay_ns, .next = bucket};
    bucket = at;
    ++size_;
  }
  if (flows_[at].stored_at > now) cache_[(hash_of(name) >> 32) & (cache_.size() - 1)] = at;
  return at;
}

// A place that is free, or of those looked at one whose flow holds nothing: first one that is slowed down no more, then
// the one whose last CNP is longest ago.
std::uint32_t TrpStore::place() noexcept {
  std::uint32_t found = kNone;
  const auto rank = [&](std::uint32_t at) {
    return std::pair(flows_[at].law.status != TrpStatus::idle, flows_[at].law.cnp_time);
  };
  const auto count = static_cast<std::uint32_t>(flows_.size());
  for (std::uint32_t tries = std::min(kEvictionTries, count); tries != 0; --tries) {
    const std::uint32_t at = hand_;
    hand_ = (hand_ + 1) % count;
    if (!flows_[at].used) return at;
    if (flows_[at].held != 0) continue;
    if (found == kNone || rank(at) < rank(found)) found = at;
  }
  if (found == kNone) return kNone;
  unlink(found);
  ++evicted_;
  return found;
}

void TrpStore::unlink(std::uint32_t index) noexcept {
  std::uint32_t* at = &buckets_[bucket_of(flows_[index].name)];
  while (*at != index) at = &flows_[*at].next;
  *at = flows_[index].next;
  if (flows_[index].law.status != TrpStatus::idle) --active_;
  flows_[index] = {};
  --size_;
  for (std::uint32_t& place : cache_) {
    if (place == index) place = kNone;
  }
}

void TrpStore::clear() noexcept {
  std::fill(flows_.begin(), flows_.end(), TrpFlow{});
  std::fill(buckets_.begin(), buckets_.end(), kNone);
  std::fill(cache_.begin(), cache_.end(), kNone);
  size_ = active_ = 0;
}

std::size_t TrpStore::memory_bytes() const noexcept {
  return flows_.size() * sizeof(TrpFlow) + (buckets_.size() + cache_.size()) * sizeof(std::uint32_t);
}

}  // namespace weft::stages
