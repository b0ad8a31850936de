// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "collectives/stage/block.h"

#include <utility>

namespace weft::inc {

std::size_t Block::bytes() const {
  const std::lock_guard lock(mutex_);
  return region_->size();
}

/// Empty: there is no room.
std::span<std::byte> Block::join(std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  if (region_->size() < bytes) return {};
  needs_.insert(bytes);
  return region_->first(bytes);
}

/// What only this group needed is free.
void Block::leave(std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  needs_.erase(needs_.find(bytes));
  if (!needs_.empty()) MemoryPool::shrink(region_, *needs_.rbegin());
}

std::unique_ptr<BlockKey> BlockKey::make(std::shared_ptr<Block> block, std::uint32_t generation, std::size_t bytes) {
  const std::span<std::byte> memory = block->join(bytes);
  if (memory.empty()) return nullptr;
  return std::unique_ptr<BlockKey>(new BlockKey(std::move(block), generation, memory));
}

BlockKey::~BlockKey() {
  give();
  block_->leave(memory_.size());
}

/// Acquires what the last owner, perhaps on another worker, wrote before it gave the block back.
bool BlockKey::take() noexcept {
  std::uint32_t nobody = 0;
  return block_->owner_.compare_exchange_strong(nobody, generation_, std::memory_order_acquire,
                                                std::memory_order_relaxed);
}

void BlockKey::give() noexcept {
  std::uint32_t own = generation_;
  block_->owner_.compare_exchange_strong(own, 0, std::memory_order_release, std::memory_order_relaxed);
}

}  // namespace weft::inc
