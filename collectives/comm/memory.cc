// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "collectives/comm/memory.h"

#include <algorithm>
#include <iterator>

namespace weft::inc::comm {

Memory::~Memory() {
  for (const Cached& region : cache_) transport_.forget(region.key);
}

void Memory::add(const void* data, std::size_t bytes) {
  regions_.emplace(reinterpret_cast<std::uintptr_t>(data), Region{bytes, transport_.register_memory(data, bytes)});
}

void Memory::remove(const void* data) {
  const auto region = regions_.find(reinterpret_cast<std::uintptr_t>(data));
  if (region == regions_.end()) return;
  transport_.forget(region->second.key);
  regions_.erase(region);
}

Memory::Cached* Memory::find(std::uintptr_t begin, std::size_t bytes) {
  const auto found = std::find_if(cache_.begin(), cache_.end(), [&](const Cached& c) {
    return !c.stale && c.begin <= begin && begin - c.begin + bytes <= c.bytes;
  });
  if (found == cache_.end()) return nullptr;
  cache_.splice(cache_.begin(), cache_, found);
  return &cache_.front();
}

Memory::Cache::iterator Memory::forget(Cache::iterator region) {
  transport_.forget(region->key);
  cached_bytes_ -= region->bytes;
  return cache_.erase(region);
}

bool Memory::make_room(std::size_t bytes) {
  if (limits_.regions == 0 || bytes > limits_.bytes) return false;
  const auto full = [&] { return cache_.size() >= limits_.regions || cached_bytes_ + bytes > limits_.bytes; };
  for (auto region = cache_.end(); full() && region != cache_.begin();) {
    --region;
    if (region->users == 0) region = forget(region);
  }
  return !full();
}

Memory::Use Memory::use(const void* data, std::size_t bytes) {
  const auto at = reinterpret_cast<std::uintptr_t>(data);
  const auto after = regions_.upper_bound(at);
  if (after != regions_.begin()) {
    const auto& [begin, region] = *std::prev(after);
    if (at - begin + bytes <= region.bytes) return {region.key, false, nullptr};
  }
  Cached* cached = find(at, bytes);
  if (cached == nullptr && make_room(bytes)) {
    cache_.push_front({at, bytes, transport_.register_memory(data, bytes)});
    cached_bytes_ += bytes;
    cached = &cache_.front();
  }
  if (cached == nullptr) return {transport_.register_memory(data, bytes), true, nullptr};
  ++cached->users;
  return {cached->key, false, cached};
}

void Memory::done(const Use& use) {
  if (use.temporary) transport_.forget(use.key);
  if (use.cached == nullptr || --use.cached->users > 0 || !use.cached->stale) return;
  forget(std::find_if(cache_.begin(), cache_.end(), [&](const Cached& c) { return &c == use.cached; }));
}

void Memory::gone(const void* data, std::size_t bytes) {
  const auto begin = reinterpret_cast<std::uintptr_t>(data);
  for (auto region = cache_.begin(); region != cache_.end();) {
    const bool part = region->begin < begin + bytes && begin < region->begin + region->bytes;
    region->stale = region->stale || part;
    region = region->stale && region->users == 0 ? forget(region) : std::next(region);
  }
}

}  // namespace weft::inc::comm
