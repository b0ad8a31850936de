// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Queues without limits of their own that share a fixed stock of memory: a queue is a chain of blocks.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace weft::qos {

/// The stock. One thread uses it.
template <typename T>
class BlockPool {
 public:
  static constexpr std::uint32_t kItems = 63;
  struct Block {
    Block* next = nullptr;
    std::array<T, kItems> items;
  };

  explicit BlockPool(std::size_t blocks) : blocks_(std::make_unique<Block[]>(blocks)) {
    for (std::size_t i = blocks; i-- != 0;) free(&blocks_[i]);
  }
  /// Enough for `items` in `queues` queues, however they are spread.
  static std::size_t blocks_for(std::size_t items, std::size_t queues) { return items / kItems + 2 * queues + 1; }

  /// nullptr when the stock is used up.
  [[nodiscard]] Block* allocate() noexcept {
    Block* block = free_;
    if (block == nullptr) return nullptr;
    free_ = block->next;
    block->next = nullptr;
    return block;
  }
  void free(Block* block) noexcept {
    block->next = free_;
    free_ = block;
  }

 private:
  std::unique_ptr<Block[]> blocks_;
  Block* free_ = nullptr;
};

/// First in, first out. Its blocks go back to the pool as it drains, but for one.
template <typename T>
class BlockQueue {
 public:
  using Pool = BlockPool<T>;

  /// False when the pool has no block left.
  [[nodiscard]] bool push(Pool& pool, const T& item) noexcept {
    if (tail_at_ == Pool::kItems) [[unlikely]] {
      auto* block = pool.allocate();
      if (block == nullptr) return false;
      if (tail_ != nullptr) {
        tail_->next = block;
      } else {
        head_ = block;
        head_at_ = 0;
      }
      tail_ = block;
      tail_at_ = 0;
    }
    tail_->items[tail_at_++] = item;
    ++size_;
    return true;
  }

  [[nodiscard]] bool empty() const noexcept { return size_ == 0; }
  [[nodiscard]] std::uint32_t size() const noexcept { return size_; }
  /// Undefined when empty.
  [[nodiscard]] const T& front() const noexcept { return head_->items[head_at_]; }

  /// Undefined when empty.
  T pop(Pool& pool) noexcept {
    const T item = head_->items[head_at_++];
    --size_;
    if (size_ == 0) {
      // Head and tail are one block: it stays, and is filled from its beginning.
      head_at_ = tail_at_ = 0;
    } else if (head_at_ == Pool::kItems) [[unlikely]] {
      auto* done = head_;
      head_ = done->next;
      head_at_ = 0;
      pool.free(done);
    }
    return item;
  }

  /// The first items, as many as lie side by side: at least one. Undefined when empty.
  [[nodiscard]] std::span<const T> front_run() const noexcept {
    return {&head_->items[head_at_], std::min(size_, Pool::kItems - head_at_)};
  }
  /// Takes the first `count`, which is at most the length of front_run().
  void pop_run(Pool& pool, std::uint32_t count) noexcept {
    head_at_ += count;
    size_ -= count;
    if (size_ == 0) {
      head_at_ = tail_at_ = 0;
    } else if (head_at_ == Pool::kItems) {
      auto* done = head_;
      head_ = done->next;
      head_at_ = 0;
      pool.free(done);
    }
  }

  /// In order; f may change the items.
  template <typename F>
  void for_each(F&& f) {
    auto* block = head_;
    std::uint32_t at = head_at_;
    for (std::uint32_t i = 0; i < size_; ++i) {
      if (at == Pool::kItems) {
        block = block->next;
        at = 0;
      }
      f(block->items[at++]);
    }
  }

 private:
  typename Pool::Block* head_ = nullptr;
  typename Pool::Block* tail_ = nullptr;
  std::uint32_t head_at_ = 0;
  std::uint32_t tail_at_ = Pool::kItems;  ///< without a block there is no room either
  std::uint32_t size_ = 0;
};

}  // namespace weft::qos
