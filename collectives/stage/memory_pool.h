// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// The slot memory of a switch, of which groups hold regions (EPIC 6.1).
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>

#include "switch/tables/page_memory.h"

namespace weft::inc {

/// Hands out regions while others are in use: first fit, neighbours that are free become one. For control threads, any
/// of them; what is in a region is its holder's business.
class MemoryPool : public std::enable_shared_from_this<MemoryPool> {
 public:
  explicit MemoryPool(std::size_t bytes) : memory_(bytes) { free_.emplace(0, bytes); }

  /// A region that goes back when the last copy of it is gone. It keeps the pool alive.
  using Region = std::shared_ptr<std::span<std::byte>>;
  /// nullptr when no free range is long enough. What the region held before is not cleared.
  [[nodiscard]] Region allocate(std::size_t bytes);
  /// Gives the end of a region back: no more than its first `bytes` are in use. Not at the same time as anybody reads
  /// the region's size.
  static void shrink(const Region& region, std::size_t bytes);

  [[nodiscard]] std::size_t bytes() const noexcept { return memory_.bytes(); }
  [[nodiscard]] std::size_t free_bytes() const;
  /// Of the longest range that is free.
  [[nodiscard]] std::size_t largest_bytes() const;
  /// What a region of so many bytes takes from the pool: whole cache lines.
  [[nodiscard]] static constexpr std::size_t rounded(std::size_t bytes) noexcept { return (bytes + 63) / 64 * 64; }

 private:
  struct GiveBack;
  void give_back(std::size_t offset, std::size_t bytes);

  tables::PageMemory memory_;
  mutable std::mutex mutex_;
  std::map<std::size_t, std::size_t> free_;  ///< offset to length
};

}  // namespace weft::inc
