// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Slot memory of a switch that several groups have in turns (EPIC 6.2). It is as large as the largest of them needs,
// and goes back to the pool with the last one. Who is first to take it has it. Simulated switches have
// `collectives/policy/lock_recorder.h`: the same order, and no code in common. There one thread has all blocks of a
// fabric, a lock has a simulated time at which it ends, and whoever is refused is told the holder. Here several workers
// meet at one block without a clock: the lock is an atomic number, and carries the order in which memory is seen.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <utility>

#include "collectives/engine/memory_lock.h"
#include "collectives/stage/memory_pool.h"

namespace weft::inc {

class Block {
 public:
  /// @param region  of the pool
  explicit Block(MemoryPool::Region region) : region_(std::move(region)) {}

  [[nodiscard]] const MemoryPool::Region& region() const noexcept { return region_; }
  [[nodiscard]] std::size_t bytes() const;
  /// Generation of the group that has it; 0: none.
  [[nodiscard]] std::uint32_t owner() const noexcept { return owner_.load(std::memory_order_relaxed); }

 private:
  friend class BlockKey;
  [[nodiscard]] std::span<std::byte> join(std::size_t bytes);
  void leave(std::size_t bytes);

  const MemoryPool::Region region_;
  std::atomic<std::uint32_t> owner_{0};
  mutable std::mutex mutex_;          ///< of the region's size, and:
  std::multiset<std::size_t> needs_;  ///< bytes, of each group
};

/// A group's part in a block. The group's worker takes and gives; it is made and ends on control threads, when no
/// worker has the group.
class BlockKey final : public MemoryLock {
 public:
  /// @param generation  of the group: no two of a switch have the same
  /// @param bytes       that the group needs
  /// @return nullptr: the block has fewer
  [[nodiscard]] static std::unique_ptr<BlockKey> make(std::shared_ptr<Block> block, std::uint32_t generation,
                                                      std::size_t bytes);
  /// A group that ends in the middle of a turn leaves the block to others.
  ~BlockKey();

  [[nodiscard]] bool take() noexcept override;
  void give() noexcept override;
  [[nodiscard]] const std::shared_ptr<Block>& block() const noexcept { return block_; }
  /// What the group uses of the block's region.
  [[nodiscard]] std::span<std::byte> memory() const noexcept { return memory_; }
  [[nodiscard]] bool has_it() const noexcept { return block_->owner() == generation_; }

 private:
  BlockKey(std::shared_ptr<Block> block, std::uint32_t generation, std::span<std::byte> memory)
      : block_(std::move(block)), generation_(generation), memory_(memory) {}

  const std::shared_ptr<Block> block_;
  const std::uint32_t generation_;
  const std::span<std::byte> memory_;
};

}  // namespace weft::inc
