// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "collectives/stage/memory_pool.h"

#include <algorithm>

namespace weft::inc {

/// Ends a region.
struct MemoryPool::GiveBack {
  std::shared_ptr<MemoryPool> pool;
  std::size_t offset;

  void operator()(std::span<std::byte>* held) const {
    pool->give_back(offset, held->size());
    delete held;
  }
};

void MemoryPool::shrink(const Region& region, std::size_t bytes) {
  const auto& of = *std::get_deleter<GiveBack>(region);
  const std::size_t keeps = rounded(bytes), had = region->size();
  if (keeps >= had) return;
  *region = region->first(keeps);
  of.pool->give_back(of.offset + keeps, had - keeps);
}

MemoryPool::Region MemoryPool::allocate(std::size_t bytes) {
  const std::size_t wanted = rounded(bytes);
  const std::lock_guard lock(mutex_);
  const auto at = std::find_if(free_.begin(), free_.end(), [&](const auto& range) { return range.second >= wanted; });
  if (at == free_.end()) return nullptr;
  const auto [offset, length] = *at;
  free_.erase(at);
  if (length > wanted) free_.emplace(offset + wanted, length - wanted);
  auto* const region = new std::span<std::byte>(static_cast<std::byte*>(memory_.data()) + offset, wanted);
  return {region, GiveBack{shared_from_this(), offset}};
}

void MemoryPool::give_back(std::size_t offset, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  auto [at, inserted] = free_.emplace(offset, bytes);
  if (const auto next = std::next(at); next != free_.end() && at->first + at->second == next->first) {
    at->second += next->second;
    free_.erase(next);
  }
  if (at == free_.begin()) return;
  const auto before = std::prev(at);
  if (before->first + before->second != at->first) return;
  before->second += at->second;
  free_.erase(at);
}

std::size_t MemoryPool::free_bytes() const {
  const std::lock_guard lock(mutex_);
  std::size_t sum = 0;
  for (const auto& [offset, length] : free_) sum += length;
  return sum;
}

std::size_t MemoryPool::largest_bytes() const {
  const std::lock_guard lock(mutex_);
  std::size_t largest = 0;
  for (const auto& [offset, length] : free_) largest = std::max(largest, length);
  return largest;
}

}  // namespace weft::inc
